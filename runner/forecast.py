"""How long a plan still takes, from the pace that its own runs have shown."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass


@dataclass
class _Task:
    kind: Hashable
    size: int
    begun_at: float | None = None
    resumed_at: int | None = None
    reported_at: float = 0.0
    done: int = 0
    total: int | None = None
    over: bool = False

    @property
    def work(self) -> int:
        """Return what was done since the run began or resumed."""
        return self.done - (self.resumed_at or 0)

    @property
    def seconds(self) -> float:
        """Return the time in which that was done."""
        return self.reported_at - (self.begun_at or 0.0)

    def expected(self, work_per_size: float) -> float:
        """Return the work of the whole run; one that has not said is as long as the others are."""
        return self.size * work_per_size if self.total is None else self.total


class Forecast:
    """Predicts the end of a plan of runs that are laid on a number of slots.

    Runs of one kind (arm and grid cell) share a pace; a kind that has not run yet is given the pace
    of all that have. The runs left are laid on the slots in turn, so that a last one counts alone.
    Scoring is work like training (see workload.py), and of a resumed run only what is left counts.

    ``kinds`` and ``sizes`` (target tokens) hold one value per run; a run is known by its index.

    >>> clock = iter([0.0, 1.0, 11.0, 11.0])
    >>> forecast = Forecast(["a", "a"], [100, 100], slots=1, clock=lambda: next(clock))
    >>> forecast.begin(0)
    >>> forecast.progress(0, done=0, total=300)
    >>> forecast.progress(0, done=150, total=300)
    >>> forecast.seconds_left()
    33.0
    """

    def __init__(
        self,
        kinds: Sequence[Hashable],
        sizes: Sequence[int],
        slots: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tasks = [_Task(kind, size) for kind, size in zip(kinds, sizes, strict=True)]
        self._slots, self._clock = slots, clock

    def begin(self, run: int) -> None:
        """Note that a run has started: what a start costs is part of the pace."""
        task = self._tasks[run]
        task.begun_at = task.reported_at = self._clock()
        task.resumed_at, task.done = None, 0

    def progress(self, run: int, *, done: int, total: int) -> None:
        """Note how far a run is; its first report says where it resumed."""
        task = self._tasks[run]
        if task.resumed_at is None:
            task.resumed_at = done
        task.done, task.total, task.reported_at = done, total, self._clock()

    def end(self, run: int) -> None:
        """Note that a run needs no more time, however it ended."""
        self._tasks[run].over = True

    def fraction(self) -> float:
        """Return how much of the work of all runs is done, from 0 to 1."""
        per_size = self._work_per_size()
        totals = [task.expected(per_size) for task in self._tasks]
        left = sum(
            max(0.0, total - task.done)
            for task, total in zip(self._tasks, totals, strict=True)
            if not task.over
        )
        return 1.0 - left / max(1.0, sum(totals))

    def seconds_left(self) -> float | None:
        """Return the predicted time to the end, ``None`` before any run has shown a pace."""
        paces = self._paces()
        if not paces:
            return None
        now, per_size = self._clock(), self._work_per_size()
        free_at, waiting = [], []
        for task in self._tasks:
            if not task.over:
                pace = paces.get(task.kind, paces[None])
                seconds = (task.expected(per_size) - task.done) / pace
                if task.begun_at is None:
                    waiting.append(seconds)
                else:
                    free_at.append(max(0.0, seconds - (now - task.reported_at)))
        free_at += [0.0] * (self._slots - len(free_at))
        heapq.heapify(free_at)
        for seconds in waiting:
            heapq.heapreplace(free_at, free_at[0] + seconds)
        return max(free_at, default=0.0)

    def _paces(self) -> dict[Hashable, float]:
        """Return the work per second of every kind that has shown one; ``None`` is all of them."""
        shown: dict[Hashable, tuple[int, float]] = {}
        for task in self._tasks:
            if task.work and task.seconds > 0:
                for kind in (task.kind, None):
                    work, seconds = shown.get(kind, (0, 0.0))
                    shown[kind] = (work + task.work, seconds + task.seconds)
        return {kind: work / seconds for kind, (work, seconds) in shown.items()}

    def _work_per_size(self) -> float:
        known = [(task.total, task.size) for task in self._tasks if task.total is not None]
        size = sum(size for _, size in known)
        return sum(total for total, _ in known) / size if size else 1.0
