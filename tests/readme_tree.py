"""Writes the README's tree from the first line of every module, so that it cannot drift.

Run it after adding or renaming a file: python tests/readme_tree.py
"""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
BEGIN, END = "<!-- tree -->\n```text\n", "```\n<!-- end of tree -->"
WIDTH = 36


def purpose(path: Path) -> str:
    """Return the first sentence of a module's docstring without its full stop."""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    assert docstring, f"{path} has no docstring"
    return docstring.splitlines()[0].rstrip(".")


def tree() -> str:
    """Return one line per module of analysis/ and runner/, with its purpose."""
    lines = []
    for folder in ("analysis", "runner"):
        files = sorted((ROOT / folder).rglob("*.py"), key=lambda p: (p.parent.parts, p.name))
        for path in files:
            name = path.relative_to(ROOT).as_posix()
            if path.name == "__init__.py":
                name = f"{path.relative_to(ROOT).parent.as_posix()}/"
            lines.append(f"{name:{WIDTH}}{purpose(path)}")
    return "\n".join(lines) + "\n"


def with_tree(text: str) -> str:
    """Return the README's text with the tree in its place."""
    before, rest = text.split(BEGIN)
    return before + BEGIN + tree() + END + rest.split(END, 1)[1]


if __name__ == "__main__":
    README.write_text(with_tree(README.read_text(encoding="utf-8")), encoding="utf-8")
