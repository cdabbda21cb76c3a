"""How a study stands, read from its files alone: what is done, running, failed, missing."""

from __future__ import annotations

import fcntl
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from analysis.records import PlanEntry, read_plan, read_run


@dataclass(frozen=True)
class RunStatus:
    """One planned run and how it stands; ``detail`` is the last error of a failed one."""

    run_id: str
    arm: str
    seed: int
    status: str
    detail: str = ""


def read_status(results: Path) -> list[RunStatus]:
    """Return the status of every planned run, in the order of the plan.

    Raises:
        ValueError: The folder has no plan, or a record in it is broken.
    """
    plan = read_plan(results) if results.is_dir() else None
    if plan is None:
        raise ValueError(f"{results}: has no plan.json; start `cqk run` first, or name its results")
    return list(_statuses(results, plan.runs))


def _statuses(results: Path, entries: list[PlanEntry]) -> Iterator[RunStatus]:
    for entry in entries:
        folder = results / "runs" / entry.run_id
        status, detail = "missing", ""
        if (folder / "spec.json").exists():
            record = read_run(folder)
            status = record.status
            if status not in ("done", "diverged") and is_locked(folder):
                status = "running"
            if status == "failed":
                detail = str(record.attempts[-1].get("error", ""))
        yield RunStatus(entry.run_id, entry.arm, entry.seed, status, detail)


def is_locked(folder: Path) -> bool:
    """Return whether a process holds the run's lock at this moment."""
    try:
        with open(folder / ".lock", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def counts(statuses: list[RunStatus]) -> dict[str, int]:
    """Return how many runs stand how, in a fixed order, without the empty ones."""
    tally = Counter(status.status for status in statuses)
    order = ("done", "diverged", "running", "stopped", "failed", "missing")
    return {name: tally[name] for name in order if tally[name]}
