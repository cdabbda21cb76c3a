"""Progress of a plan on stderr: a bar with an honest remaining time, or plain lines when piped."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from .attempt import Ended
from .executors.local import Event
from .forecast import Forecast
from .plan import PlannedRun

QUIET_SECONDS = 3.0  # no remaining time is claimed before


class PlanProgress:
    """Shows how far a plan is; on a terminal as one bar, elsewhere as one line per ended run."""

    def __init__(self, runs: Mapping[Path, PlannedRun], slots: int) -> None:
        self._runs = dict(runs)
        self._index = {folder: index for index, folder in enumerate(self._runs)}
        planned = list(self._runs.values())
        kinds = [(run.arm, repr(run.cell)) for run in planned]
        sizes = [run.settings.train.tokens for run in planned]
        self.forecast = Forecast(kinds, sizes, slots)
        self._over = 0
        self._begun = time.monotonic()
        self._bar = self._make_bar() if sys.stderr.isatty() else None

    @staticmethod
    def _make_bar() -> Progress:
        text = TextColumn("{task.description}"), TextColumn("{task.fields[left]}")
        return Progress(text[0], BarColumn(), text[1], console=Console(stderr=True))

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
            self._task = self._bar.add_task("", total=1.0, left="")
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
        run = self._index[event.folder]
        if event.ended is not None:
            self.forecast.end(run)
            self._over += 1
            self._say(event.folder, event.ended)
        elif event.total:
            self.forecast.progress(run, done=event.done, total=event.total)
        else:
            self.forecast.begin(run)
        if self._bar:
            self._bar.update(
                self._task,
                completed=self.forecast.fraction(),
                description=f"{self._over} of {len(self._runs)} runs over",
                left=self.remaining(),
            )

    def _say(self, folder: Path, ended: Ended) -> None:
        run = self._runs[folder]
        detail = f": {ended.detail}" if ended.detail else ""
        line = (
            f"[{self._over}/{len(self._runs)}] {run.arm} seed {run.seed} "
            f"{ended.status}{detail} ({run.run_id}); {self.remaining()}"
        )
        print(line, file=sys.stderr, flush=True) if not self._bar else self._bar.print(line)

    def remaining(self) -> str:
        """Return the remaining time in words; nothing is claimed before runs have shown a pace."""
        elapsed = time.monotonic() - self._begun
        if self._over == len(self._runs):
            return f"{spoken(elapsed)} in all"
        left = self.forecast.seconds_left()
        if left is None or elapsed < QUIET_SECONDS:
            return "remaining time not known yet"
        return f"about {spoken(left)} left"


def spoken(seconds: float) -> str:
    """Return a duration in the two units that matter.

    >>> spoken(42), spoken(125), spoken(7300), spoken(200_000)
    ('42 s', '2 min 5 s', '2 h 2 min', '2 d 8 h')
    """
    if (whole := round(seconds)) < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if (minutes := round(seconds / 60)) < 1440:
        return f"{minutes // 60} h {minutes % 60} min"
    hours = round(seconds / 3600)
    return f"{hours // 24} d {hours % 24} h"
