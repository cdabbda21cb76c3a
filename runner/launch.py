"""Runs a plan: freezes it, executes what is missing, and says how every run stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from analysis.records import Plan, PlanEntry, Spec, read_lines, to_json, write_atomically

from .executors import local
from .folder import RunFolder
from .plan import PlannedRun
from .progress import PlanProgress

OVER = ("done", "diverged")


@dataclass(frozen=True)
class Summary:
    """How the selected runs stand after a launch; ``failures`` maps run id -> reason."""

    done: int
    diverged: int
    failed: int
    stopped: int
    trained_now: int
    failures: dict[str, str]

    @property
    def sentence(self) -> str:
        """Return the outcome in one line, and one more for every failure."""
        stand = f"{self.done} done, {self.diverged} diverged, {self.failed} failed"
        rest = f", {self.stopped} stopped (start `cqk run` again)" if self.stopped else ""
        lines = [f"{stand}{rest}; {self.trained_now} trained now"]
        lines += [f"run {run_id} failed: {why}" for run_id, why in self.failures.items()]
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """Return the outcome as plain values."""
        return asdict(self)

    @property
    def exit_code(self) -> int:
        """Return 0 when every run is over, 1 when some failed, 75 when some stopped."""
        if self.failed:
            return 1
        return 75 if self.stopped else 0


def freeze_plan(results: Path, runs: Sequence[PlannedRun]) -> None:
    """Write plan.json: the runs that count for this study, in the order of the plan."""
    entries = [PlanEntry(run_id=r.run_id, arm=r.arm, seed=r.seed, cell=r.cell) for r in runs]
    plan = Plan(study=runs[0].study, runs=entries)
    text = to_json(plan.model_dump(by_alias=True))
    path = results / "plan.json"
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        write_atomically(path, text)


def folder_of(results: Path, run: PlannedRun) -> RunFolder:
    """Return the folder of a planned run."""
    return RunFolder(results / "runs" / run.run_id)


def launch_local(
    results: Path,
    runs: Sequence[PlannedRun],
    slots: local.Slots,
) -> Summary:
    """Execute the missing ones of ``runs`` on this machine.

    Raises:
        ValueError: A run's folder holds other settings than the plan.
    """
    missing = [run for run in runs if not folder_of(results, run).result_path.exists()]
    by_folder: dict[Path, PlannedRun] = {}
    for run in missing:
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
        by_folder[folder.path] = run
    ended: dict[Path, str] = {}
    if by_folder:
        with PlanProgress(by_folder) as progress:
            ended = local.run_all(list(by_folder), slots, progress)
    return _summary(results, runs, ended)


def _summary(results: Path, runs: Sequence[PlannedRun], ended: dict[Path, str]) -> Summary:
    over = [ended.get(folder_of(results, run).path, "") for run in runs]
    failures = {
        folder.name: last_error(folder)
        for folder, status in ended.items()
        if status in ("failed", "killed")
    }
    statuses = [_final_status(folder_of(results, run)) for run in runs]
    return Summary(
        done=statuses.count("done"),
        diverged=statuses.count("diverged"),
        failed=len(failures),
        stopped=sum(status in ("stopped", "interrupted", "busy") for status in over),
        trained_now=sum(status in OVER for status in over),
        failures=failures,
    )


def _final_status(folder: RunFolder) -> str:
    return folder.read_result().status if folder.result_path.exists() else ""


def last_error(folder: Path) -> str:
    """Return why the last attempt of a run failed."""
    lines = list(read_lines(folder / "attempts.jsonl"))
    if lines and lines[-1]["event"] == "end":
        return str(lines[-1].get("error", "no reason recorded"))
    return "the process was killed"
