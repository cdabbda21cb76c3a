"""Runs a plan: freezes it, executes what is missing, and says how every run stands."""

from __future__ import annotations

import fcntl
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from analysis.records import Plan, PlanEntry, Spec, to_json, write_atomically

from .attempt import ELSEWHERE, FAILED, KILLED, OVER, STOPPED, Ended
from .executors import local, slurm
from .executors.machine import Slots
from .executors.queue import queued_runs
from .folder import RunFolder, RunIsBusy
from .plan import PlannedRun
from .profiles import Profile
from .progress import PlanProgress
from .writing import writing


@dataclass(frozen=True)
class Summary:
    """How the selected runs stand after a launch; ``failures`` maps run id -> reason.

    ``unfinished`` counts those that nobody has begun, or somebody else is at; ``signal`` is the
    one that stopped the launch.
    """

    done: int
    diverged: int
    failed: int
    stopped: int
    unfinished: int
    trained_now: int
    submitted: int = 0
    jobs: list[int] = field(default_factory=list)
    signal: int | None = None
    failures: dict[str, str] = field(default_factory=dict)

    @property
    def sentence(self) -> str:
        """Return the outcome in one line, and one more for every failure."""
        stand = f"{self.done} done, {self.diverged} diverged, {self.failed} failed"
        if self.stopped:
            stand += f", {self.stopped} stopped (start `cqk run` again)"
        if self.unfinished:
            stand += f", {self.unfinished} unfinished"
        if self.submitted:
            listed = ", ".join(map(str, self.jobs))
            stand += f"; {self.submitted} submitted to Slurm (job {listed})"
        else:
            stand += f"; {self.trained_now} trained now"
        return "\n".join([stand, *(f"run {r} failed: {why}" for r, why in self.failures.items())])

    def as_dict(self) -> dict[str, Any]:
        """Return the outcome as plain values."""
        return asdict(self)

    @property
    def exit_code(self) -> int:
        """Return 130 after Ctrl-C, 1 when some failed, 75 when some stopped, 3 when some wait."""
        if self.signal == signal.SIGINT:
            return 130
        if self.failed:
            return 1
        if self.stopped:
            return 75
        return 3 if self.unfinished else 0


@contextmanager
def holding(results: Path) -> Iterator[None]:
    """Hold a results folder while its plan is frozen or its runs are submitted, one at a time."""
    with writing(results):
        results.mkdir(parents=True, exist_ok=True)
        lock = open(results / ".lock", "a", encoding="utf-8")  # noqa: SIM115  (closed below)
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def freeze_plan(results: Path, runs: Sequence[PlannedRun]) -> None:
    """Write plan.json: the runs that count for this study, in the order of the plan."""
    entries = [PlanEntry(run_id=r.run_id, arm=r.arm, seed=r.seed, cell=r.cell) for r in runs]
    plan = Plan(study=runs[0].study, runs=entries)
    text = to_json(plan.model_dump(by_alias=True))
    path = results / "plan.json"
    with writing(path):
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            write_atomically(path, text)


def folder_of(results: Path, run: PlannedRun) -> RunFolder:
    """Return the folder of a planned run."""
    return RunFolder(results / "runs" / run.run_id)


def launch_local(results: Path, runs: Sequence[PlannedRun], slots: Slots) -> Summary:
    """Execute the missing ones of ``runs`` on this machine.

    Raises:
        ValueError: A run's folder holds other settings than the plan, or cannot be written.
    """
    missing = _missing(results, runs)
    by_folder = {create_folder(results, run).path: run for run in missing}
    if not by_folder:
        return _summary(results, runs, {})
    with PlanProgress(by_folder, slots.jobs) as progress:
        finished = local.run_all(list(by_folder), slots, progress)
    return _summary(results, runs, finished.ended, signal=finished.stopped_by)


def launch_slurm(
    results: Path, study: str, runs: Sequence[PlannedRun], profile: Profile
) -> Summary:
    """Submit the missing ones of ``runs`` that are neither queued nor running.

    Raises:
        ValueError: Slurm refuses, or does not say what is queued; then nothing is submitted.
    """
    with holding(results):
        missing = _missing(results, runs)
        queued = queued_runs(results)
        wanted = [
            run
            for run in missing
            if run.run_id not in queued and not folder_of(results, run).is_locked()
        ]
        for run in wanted:
            create_folder(results, run)
        ids = [run.run_id for run in wanted]
        jobs = slurm.submit(results, study, ids, profile, devices_of(runs)) if ids else []
    return _summary(results, runs, {}, submitted=len(wanted), jobs=[job.job_id for job in jobs])


def devices_of(runs: Sequence[PlannedRun]) -> int:
    """Return the number of devices that each of ``runs`` trains on.

    Raises:
        ValueError: They differ, so that no one choice of slots serves them.
    """
    counts = {run.settings.train.devices for run in runs}
    if len(counts) > 1:
        raise ValueError(
            f"the runs of this study train on different numbers of devices ({sorted(counts)}); "
            "give every arm and grid cell the same [train] devices"
        )
    return counts.pop()


def _missing(results: Path, runs: Sequence[PlannedRun]) -> list[PlannedRun]:
    """Return the runs that are not over; of the others, remove what a kill at their end left."""
    missing = []
    for run in runs:
        folder = folder_of(results, run)
        if not folder.result_path.exists():
            missing.append(run)
        elif not folder.is_swept():
            with suppress(RunIsBusy), folder.lock():
                folder.sweep()
    return missing


def create_folder(results: Path, run: PlannedRun) -> RunFolder:
    """Make the folder of a planned run, its settings frozen in it, and return it."""
    folder = folder_of(results, run)
    folder.create(
        Spec(
            run_id=run.run_id,
            study=run.study,
            arm=run.arm,
            seed=run.seed,
            cell=run.cell,
            settings=run.settings.model_dump(mode="json"),
        )
    )
    return folder


def _summary(
    results: Path, runs: Sequence[PlannedRun], ended: Mapping[Path, Ended], **launched: Any
) -> Summary:
    folders = [folder_of(results, run) for run in runs]
    over = [f.read_result().status for f in folders if f.result_path.exists()]
    failures = {
        path.name: end.detail for path, end in ended.items() if end.status in (FAILED, KILLED)
    }
    stopped = sum(end.status == STOPPED for end in ended.values())
    return Summary(
        done=over.count("done"),
        diverged=over.count("diverged"),
        failed=len(failures),
        stopped=stopped,
        unfinished=len(runs) - len(over) - len(failures) - stopped,
        trained_now=sum(e.status in OVER and e.detail != ELSEWHERE for e in ended.values()),
        failures=failures,
        **launched,
    )
