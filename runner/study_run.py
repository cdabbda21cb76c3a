"""`cqk run`: a study file becomes a frozen plan, the plan becomes runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from analysis.freeze import freeze as freeze_study
from analysis.study import Study, parse_study

from . import corpora
from .executors.local import choose_slots
from .folder import timestamp
from .launch import Summary, folder_of, freeze_plan, launch_local
from .plan import PlannedRun, find_study, plan_runs


@dataclass(frozen=True)
class StudyPlan:
    """A study, where its results go, and all its runs."""

    study: Study
    results: Path
    runs: list[PlannedRun]

    def describe(self, runs: Sequence[PlannedRun], *, as_json: bool) -> str:
        """Return the plan of the selected ``runs`` for people or as JSON."""
        rows = [
            {
                "run_id": run.run_id,
                "arm": run.arm,
                "seed": run.seed,
                "cell": run.cell,
                "steps": run.settings.train.steps,
                "tokens": run.settings.train.tokens,
                "over": folder_of(self.results, run).result_path.exists(),
            }
            for run in runs
        ]
        if as_json:
            return json.dumps({"study": self.study.study.name, "runs": rows}, indent=1)
        lines = [
            f"{row['run_id']}  {'over   ' if row['over'] else 'missing'}  seed {row['seed']}  "
            f"{row['arm']}  {row['steps']} steps"
            + "".join(f"  {axis}={value}" for axis, value in dict(row["cell"]).items())
            for row in rows
        ]
        missing = [run for run, row in zip(runs, rows, strict=True) if not row["over"]]
        tokens = sum(run.settings.train.tokens for run in missing)
        lines.append(f"{len(runs)} runs, {len(missing)} missing, {tokens:,} tokens to train")
        return "\n".join(lines)


def prepare(study: str, results: Path, *, reason: str | None, freeze: bool) -> StudyPlan:
    """Read, check and, unless told not to, freeze a study into ``results/<name>``.

    Raises:
        ValueError: The study is faulty, or differs from what is frozen there.
    """
    path = find_study(study)
    text = path.read_text(encoding="utf-8")
    parsed = parse_study(text, str(path))
    folder = results / parsed.study.name
    if parsed.data is None:
        raise ValueError(f"{path}: has no [data]: nothing to train")
    runs = plan_runs(parsed, corpora.load(parsed.data.corpus).sha256)
    if freeze:
        freeze_study(text, str(path), folder, reason=reason, time=timestamp())
        freeze_plan(folder, runs)
    return StudyPlan(parsed, folder, runs)


def execute(
    plan: StudyPlan, runs: Sequence[PlannedRun], *, jobs: int | None, threads: int | None
) -> Summary:
    """Train the missing ones of ``runs`` on this machine."""
    slots = choose_slots(len(plan.runs), jobs, threads)
    return launch_local(plan.results, runs, slots)
