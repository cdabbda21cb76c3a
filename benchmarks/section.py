"""Writes one section of RESULTS.md: figures, with the machine, its load and the command beside."""

from __future__ import annotations

import os
import platform
import re
import shlex
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import torch

RESULTS = Path(__file__).parent / "RESULTS.md"


@dataclass(frozen=True)
class Figure:
    """One measured figure; ``wanted`` and ``reached`` stay empty where nothing was promised."""

    what: str
    measured: str
    wanted: str = ""
    reached: bool | None = None

    def row(self) -> str:
        """Return the figure as a row of a Markdown table."""
        verdict = {True: "yes", False: "**no**", None: ""}[self.reached]
        return f"| {self.what} | {self.measured} | {self.wanted} | {verdict} |"


def at_most(what: str, value: float, limit: float, shown: str | None = None) -> Figure:
    """Return a figure that is reached when it is no more than its limit."""
    return Figure(what, shown or f"{value:.3f}", f"at most {limit:g}", value <= limit)


def at_least(what: str, value: float, limit: float, shown: str | None = None) -> Figure:
    """Return a figure that is reached when it is no less than its limit."""
    return Figure(what, shown or f"{value:.3f}", f"at least {limit:g}", value >= limit)


@dataclass
class Section:
    """A section in the making; the load is taken when it begins and when it is written."""

    title: str
    figures: list[Figure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    load_before: float = field(default_factory=lambda: os.getloadavg()[0])

    def add(self, *figures: Figure) -> None:
        """Keep figures, and show them at once."""
        for figure in figures:
            print(figure.row(), flush=True)
            self.figures.append(figure)

    def note(self, sentence: str) -> None:
        """Keep a sentence that will stand under the table."""
        print(sentence, flush=True)
        self.notes.append(sentence)

    def write(self, path: Path = RESULTS) -> None:
        """Put the section in the place of the one with its title, or at the end."""
        text = path.read_text(encoding="utf-8")
        path.write_text(replaced(text, self.title, self._body()), encoding="utf-8")

    def _body(self) -> str:
        command = shlex.join(["python", *sys.argv])
        load = f"load {self.load_before:.1f} before, {os.getloadavg()[0]:.1f} after"
        lines = [
            f"`{command}` · {machine()} · {torch.get_num_threads()} thread(s) · {load} · "
            f"{time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC",
            "",
            "| figure | measured | wanted | reached |",
            "|---|---|---|---|",
            *(figure.row() for figure in self.figures),
        ]
        for note in self.notes:
            lines += ["", note]
        return "\n".join(lines) + "\n"


def replaced(text: str, title: str, body: str) -> str:
    """Return the document with a section's body replaced, or the section appended.

    >>> print(replaced("# R\\n\\n## A\\n\\nold\\n\\n## B\\n\\nkept\\n", "A", "new\\n"))
    # R
    <BLANKLINE>
    ## A
    <BLANKLINE>
    new
    <BLANKLINE>
    ## B
    <BLANKLINE>
    kept
    <BLANKLINE>
    """
    section = f"## {title}\n\n{body}"
    pattern = re.compile(rf"^## {re.escape(title)}\n.*?(?=^## |\Z)", flags=re.M | re.S)
    if pattern.search(text):
        text = pattern.sub(lambda _: f"{section}\n", text)
    else:
        text = f"{text.rstrip()}\n\n{section}"
    return text.rstrip() + "\n"


def machine() -> str:
    """Return processor or GPU, cores and torch's version in one line."""
    name = platform.processor() or platform.machine()
    if torch.cuda.is_available():
        name = torch.cuda.get_device_name()
    elif Path("/proc/cpuinfo").exists():
        found = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), flags=re.M)
        name = found.group(1) if found else name
    cores = len(os.sched_getaffinity(0))
    return f"{name}, {cores} cores, Python {platform.python_version()}, torch {torch.__version__}"
