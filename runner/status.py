"""How a study stands, from its files and Slurm's queue: done, running, queued, failed, missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from analysis import archive
from analysis.records import PlanEntry, read_plan

from .attempt import FAILED, STOPPED
from .executors.queue import QueueIsSilent, queued_runs
from .folder import RunFolder

ORDER = ("done", "diverged", "running", "queued", "stopped", "failed", "missing")


@dataclass(frozen=True)
class RunStatus:
    """One planned run and how it stands; ``detail`` is why it failed, or why it waits."""

    run_id: str
    arm: str
    seed: int
    status: str
    detail: str = ""


@dataclass(frozen=True)
class StudyStatus:
    """Every planned run in the order of the plan, and what could not be found out."""

    runs: list[RunStatus]
    notice: str = ""

    @property
    def counts(self) -> dict[str, int]:
        """Return how many runs stand how, in a fixed order, without the empty ones."""
        tally = Counter(run.status for run in self.runs)
        return {name: tally[name] for name in ORDER if tally[name]}

    @property
    def over(self) -> bool:
        """Return whether nothing is left to do."""
        return all(run.status in ("done", "diverged") for run in self.runs)


def read_status(results: Path) -> StudyStatus:
    """Return how every planned run stands.

    Raises:
        ValueError: The folder has no plan, or a record in it is broken.
    """
    plan = read_plan(results) if results.is_dir() else None
    if plan is None:
        raise ValueError(f"{results}: has no plan.json; start `cqk run` first, or name its results")
    queued: Mapping[str, tuple[str, str]] = {}
    notice = ""
    try:
        queued = queued_runs(results)
    except QueueIsSilent as silence:
        notice = f"{silence}; what is in Slurm's queue is not shown"
    return StudyStatus(list(_statuses(results, plan.runs, queued)), notice)


def _statuses(
    results: Path, entries: list[PlanEntry], queued: Mapping[str, tuple[str, str]]
) -> Iterator[RunStatus]:
    archived = archive.over(results)
    for entry in entries:
        folder = RunFolder(results / "runs" / entry.run_id)
        status, detail = archived.get(entry.run_id), ""
        if status is None:
            status, detail = _status(folder, queued.get(entry.run_id))
        yield RunStatus(entry.run_id, entry.arm, entry.seed, status, detail)


def _status(folder: RunFolder, in_queue: tuple[str, str] | None) -> tuple[str, str]:
    if folder.result_path.exists():
        return folder.read_result().status, ""
    if folder.is_locked():
        return "running", ""
    if in_queue is not None:
        return in_queue
    attempts = folder.attempts()
    if not attempts:
        return "missing", ""
    last = attempts[-1]
    if last["event"] != "end":
        return FAILED, f"killed on {next(_hosts(attempts), 'an unknown machine')}"
    if last["reason"] in (STOPPED, FAILED):
        return last["reason"], str(last.get("error", ""))
    return "missing", ""  # its result was deleted


def _hosts(attempts: list[dict[str, object]]) -> Iterator[object]:
    return (line["host"] for line in reversed(attempts) if line["event"] == "start")
