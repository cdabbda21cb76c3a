"""The corpus ``pydocs``: English that is on every machine, CPython's help topics and docstrings.

Sources are read with ``ast``; nothing is imported. The text differs from one Python version to
the next, so its hash, not its name, is what a run is identified by.

Rules, in this order:

1. Documents are the topics of ``pydoc_data/topics.py`` and the modules of the standard library,
   in alphabetical order of their names; a module's text is its docstrings in source order.
2. Left out are tests, tables made by a generator, and what some distributions package apart
   (``LEFT_OUT``), so that two machines with one Python version hold one text.
3. A paragraph of 80 characters or more that has occurred before, up to white space, is dropped.
4. Whole documents go to one split. In the order of the hash of their names, they fill ``test``
   until it holds 48,000 bytes, then ``valid`` likewise; the rest, and every document above
   12,000 bytes (one of them would be a quarter of a split), is ``train``.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import sys
import sysconfig
import warnings
from collections.abc import Iterator
from pathlib import Path

from . import cache

# fmt: off
LEFT_OUT = frozenset({
    "test", "tests", "idle_test", "__pycache__", "site-packages", "dist-packages",
    "idlelib", "turtledemo", "tkinter", "lib2to3", "distutils", "ensurepip",
    "encodings", "pydoc_data",
})
# fmt: on
HELD_OUT_BYTES = 48_000
LONGEST_HELD_OUT_BYTES = 12_000
SHORTEST_REPEAT = 80
RULES_VERSION = 1


def splits() -> dict[str, str]:
    """Return the texts of ``train``, ``valid`` and ``test``, extracted once per Python and cached.

    Raises ``ValueError`` when this Python carries no sources or the cache cannot be written.
    """
    sources = sorted(_sources(library()))
    path = cache.folder() / "pydocs" / f"{_fingerprint(sources)[:16]}.json"
    cache.sealed(path, lambda: json.dumps(split(documents(sources))).encode())
    return json.loads(cache.content(path))


def library() -> Path:
    """Return the folder of this Python's standard library."""
    root = Path(sysconfig.get_paths()["stdlib"])
    if not (root / "pydoc_data" / "topics.py").is_file():
        raise ValueError(
            f"the corpus pydocs needs the sources of the standard library, and {root} has no "
            "pydoc_data/topics.py: use a full CPython, or another corpus (cqk list corpora)"
        )
    return root


def documents(sources: list[tuple[str, Path]]) -> dict[str, str]:
    """Return the documents by name, repeated paragraphs dropped (rule 3)."""
    seen: set[str] = set()
    kept = {}
    for name, path in sources:
        for title, text in _read(name, path):
            paragraphs = [p for p in re.split(r"\n\s*\n", text.strip("\n")) if _is_new(p, seen)]
            if paragraphs:
                kept[title] = "\n\n".join(paragraphs)
    return kept


def split(texts: dict[str, str]) -> dict[str, str]:
    """Cut documents into the three splits (rule 4); within a split they are in order of name."""
    short = [name for name in texts if _n_bytes(texts[name]) <= LONGEST_HELD_OUT_BYTES]
    queue = iter(sorted(short, key=lambda name: hashlib.sha256(name.encode()).digest()))
    held_out = {}
    for part in ("test", "valid"):
        size = 0
        while size < HELD_OUT_BYTES and (name := next(queue, None)):
            held_out[name] = part
            size += _n_bytes(texts[name])
    members: dict[str, list[str]] = {"train": [], "valid": [], "test": []}
    for name in sorted(texts):
        members[held_out.get(name, "train")].append(texts[name])
    return {part: "\n\n\n".join(found) + "\n" for part, found in members.items()}


def _sources(root: Path) -> Iterator[tuple[str, Path]]:
    yield "topics", root / "pydoc_data" / "topics.py"
    for folder, subfolders, files in os.walk(root):
        subfolders[:] = sorted(set(subfolders) - LEFT_OUT)
        for file in sorted(files):
            path = Path(folder, file)
            if file.endswith(".py") and not path.is_symlink():
                yield path.relative_to(root).as_posix(), path


def _fingerprint(sources: list[tuple[str, Path]]) -> str:
    """Hash what changes when the sources do, without reading them."""
    stats = [(str(p), p.stat().st_size, p.stat().st_mtime_ns) for _, p in sources]
    return hashlib.sha256(repr((RULES_VERSION, sys.version, stats)).encode()).hexdigest()


def _read(name: str, path: Path) -> Iterator[tuple[str, str]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # old escapes in sources that are not ours
        tree = ast.parse(path.read_bytes())
    if name == "topics":
        for title, text in sorted(_topics(tree).items()):
            yield f"topics/{title}", text
    else:
        yield name, "\n\n".join(_docstrings(tree))


def _topics(tree: ast.Module) -> dict[str, str]:
    for node in tree.body:
        value = getattr(node, "value", None)
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(value, ast.Dict):
            return ast.literal_eval(value)
    raise ValueError("pydoc_data/topics.py of this Python holds no table of help topics")


def _docstrings(node: ast.AST) -> Iterator[str]:
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    if isinstance(node, documented) and (text := ast.get_docstring(node)):
        yield text
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.expr):
            yield from _docstrings(child)


def _is_new(paragraph: str, seen: set[str]) -> bool:
    words = " ".join(paragraph.split())
    if len(words) < SHORTEST_REPEAT:
        return bool(words)
    if words in seen:
        return False
    seen.add(words)
    return True


def _n_bytes(text: str) -> int:
    return len(text.encode())
