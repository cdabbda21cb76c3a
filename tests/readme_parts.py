"""Writes the README's tree and tables of results from what they tell of, so that none can drift.

Run it after a module or a result has changed: python tests/readme_parts.py
"""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
BEGIN, END = "<!-- tree -->\n```text\n", "```\n<!-- end of tree -->"
WIDTH = 36
TABLE = re.compile(r"(<!-- (results/\S+\.md) -->\n).*?(<!-- end of table -->)", re.DOTALL)


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


def with_tables(text: str) -> str:
    """Return the README's text with every table of results/ that it shows in its place."""

    def placed(match: re.Match[str]) -> str:
        table = (ROOT / match[2]).read_text(encoding="utf-8")
        return f"{match[1]}\n{table.strip()}\n\n{match[3]}"

    return TABLE.sub(placed, text)


if __name__ == "__main__":
    text = README.read_text(encoding="utf-8")
    README.write_text(with_tables(with_tree(text)), encoding="utf-8")
