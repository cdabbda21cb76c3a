"""What every importer agrees on: the runs found in the files, and the points they logged.

A format is a module with ``SUMMARY``, ``IN_ORDER`` and ``points(files, request, log)``. The
generator yields one point at a time, so a file of any size is read in little memory, and it may be
run twice with the same log: once to find the step that counts, once to take the values there.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from .request import Request

# Columns of the tidy table that are taken over from fields of exactly that name.
CARRIED = (
    *("study", "attention", "coupling", "preset", "corpus", "tokenizer"),
    *("seq_len", "tokens", "split"),
)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "infinity": math.inf}
_MOST_LISTED = 8


@dataclass(eq=False)
class Run:
    """One run as its tool knows it; ``fields`` holds its configuration and columns as text.

    An ``unfinished`` run is still going on; ``state`` is the tool's own word for a run that is not
    done.
    """

    name: str
    source: str
    fields: dict[str, str]
    status: Literal["done", "failed", "unfinished"] = "done"
    state: str = ""


class Point(NamedTuple):
    """One logged value; ``value`` is None where the file states that there is none."""

    run: Run
    metric: str
    step: float | None
    value: float | None


@dataclass
class Log:
    """The runs met so far, and what the user should know about the files."""

    runs: dict[tuple[str, ...], Run] = field(default_factory=dict)
    notices: dict[str, None] = field(default_factory=dict)

    def run(self, source: Path, name: str, fields: Mapping[str, str], *key: str) -> Run:
        """Return the run of this source and key, the name by default, new on the first call."""
        identity = (str(source), *(key or (name,)))
        if identity not in self.runs:
            place = {"name": name, "file": source.stem, "folder": source.parent.name}
            self.runs[identity] = Run(name, str(source), {**place, **fields})
        return self.runs[identity]

    def note(self, sentence: str) -> None:
        """Keep a sentence for the user, once."""
        self.notices[sentence] = None


class Reader(Protocol):
    """A module that reads one format."""

    SUMMARY: str
    IN_ORDER: bool
    """Whether points come in the order of time, so that a repeated step is a resumed run."""

    def points(self, files: Sequence[Path], request: Request, log: Log) -> Iterator[Point]:
        """Yield every point of the files; raise ValueError for what cannot be read."""
        ...


def folder_name(folder: Path) -> str:
    """Return the name of a run that is a folder: its path as the user gave it."""
    return folder.as_posix() if folder.name else folder.absolute().name


def number(text: str) -> float | None:
    """Return the number that a cell states, NaN and infinity included; None for an empty cell.

    Raises:
        ValueError: The text is no number; Python's own extensions (1_000) are none either.

    >>> number("1.50"), number(" NaN "), number("")
    (1.5, nan, None)
    """
    text = text.strip()
    if not text:
        return None
    if _NUMBER.fullmatch(text):
        return float(text)
    word = text.lower().lstrip("+-")
    if word in _NOT_FINITE and len(text) - len(word) <= 1:
        return -_NOT_FINITE[word] if text.startswith("-") else _NOT_FINITE[word]
    raise ValueError(f"{shown(text)} is no number")


def shown(text: str) -> str:
    """Return a text from a file as it may be printed: quoted, without control signs, cut."""
    return repr(text if len(text) <= 120 else f"{text[:117]}...")


def listed(names: Iterable[str], most: int = _MOST_LISTED) -> str:
    """Return different names for a sentence, the first eight of many.

    >>> listed(["b", "a"]), listed([str(i) for i in range(10)])[-14:]
    ("'b', 'a'", "'7' and 2 more")
    """
    different = list(dict.fromkeys(names))
    text = ", ".join(shown(name) for name in different[:most]) or "none"
    rest = len(different) - most
    return f"{text} and {rest} more" if rest > 0 else text


def require_file(path: Path) -> None:
    """Raise ValueError unless the path is an ordinary file; a pipe would never end."""
    if not path.exists():
        raise ValueError(f"{path}: does not exist")
    if not path.is_file():
        raise ValueError(f"{path}: is no ordinary file; give a file of the format named")
