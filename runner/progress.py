"""Progress of a plan on stderr: a bar with an honest remaining time, or plain lines when piped."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from .executors.local import Event
from .plan import PlannedRun


class PlanProgress:
    """Shows how far a plan is; on a terminal as one bar, elsewhere as one line per ended run.

    The remaining time is the steps left, divided by the steps that all slots together have taken
    per second so far. Evaluation at the end of a run counts as its share of the run's own time once
    a first run has shown how long it takes.
    """

    def __init__(self, runs: dict[Path, PlannedRun]) -> None:
        self._runs = runs
        self._steps = {folder: run.settings.train.steps for folder, run in runs.items()}
        self._taken: dict[Path, int] = {}
        self._resumed_at: dict[Path, int] = {}
        self._ended: dict[Path, str] = {}
        self._begun = time.monotonic()
        self._bar = self._make_bar() if sys.stderr.isatty() else None

    @staticmethod
    def _make_bar() -> Progress:
        text = TextColumn("{task.description}"), TextColumn("{task.fields[left]}")
        return Progress(text[0], BarColumn(), text[1], console=Console(stderr=True))

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
            self._task = self._bar.add_task("", total=sum(self._steps.values()), left="")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._bar:
            self._bar.stop()

    def __call__(self, event: Event) -> None:
        """Take a run's report into account."""
        if event.ended:
            self._end(event)
        else:
            self._resumed_at.setdefault(event.folder, event.step)
            self._taken[event.folder] = event.step
        if self._bar:
            done = sum(self._taken.values())
            self._bar.update(
                self._task,
                completed=done,
                description=f"{len(self._ended)} of {len(self._runs)} runs over",
                left=self.remaining(),
            )

    def _end(self, event: Event) -> None:
        self._ended[event.folder] = event.ended
        if event.ended in ("done", "diverged", "busy"):
            self._taken[event.folder] = self._steps[event.folder]
        run = self._runs[event.folder]
        detail = f": {event.detail}" if event.detail else ""
        line = (
            f"[{len(self._ended)}/{len(self._runs)}] {run.arm} seed {run.seed} "
            f"{event.ended}{detail} ({run.run_id}); {self.remaining()}"
        )
        print(line, file=sys.stderr, flush=True) if not self._bar else self._bar.print(line)

    def remaining(self) -> str:
        """Return the remaining time in words; nothing is claimed before runs have shown a pace."""
        resumed = sum(self._resumed_at.values())
        taken = sum(self._taken.values()) - resumed
        left = sum(self._steps.values()) - sum(self._taken.values())
        elapsed = time.monotonic() - self._begun
        if left <= 0:
            return f"{spoken(elapsed)} in all"
        if taken <= 0 or elapsed < 3:
            return "remaining time not known yet"
        return f"about {spoken(left * elapsed / taken)} left"


def spoken(seconds: float) -> str:
    """Return a duration in the two units that matter.

    >>> spoken(42), spoken(125), spoken(7300)
    ('42 s', '2 min 5 s', '2 h 2 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
