"""Makes the results folder of a finished study of many runs, as `cqk run` would have left it.

Training is skipped: every run's loss is drawn, and its curve falls towards it.

Example:
    python benchmarks/make_results.py 10000 /tmp/many
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np

from analysis.freeze import freeze
from analysis.records import Result, Spec, to_json
from runner.folder import RunFolder
from runner.launch import freeze_plan
from runner.plan import PlannedRun
from runner.study_run import read

ARMS, CELLS, CURVE_POINTS = 10, 10, 20
STUDY = """
[study]
name = "many"
question = "Does the bookkeeping keep up?"

[data]
corpus = "path:{text}"

[model]
preset = "tiny"

[train]
seq_len = 16
batch = 4
tokens = 6400
lr = 1e-3

[seeds]
values = [{seeds}]

[grid]
width = [{widths}]
"""
ARM = """
[[arms]]
name = "arm {number}"
coupling = {{ name = "affine", hidden = {hidden} }}
"""
FAMILY = """
[family]
metric = "loss"
split = "valid"
replicate_on = "test"
"""
COMPARISON = """
[[family.comparisons]]
name = "arm {number} against arm 0"
treatment = "arm {number}"
baseline = "arm 0"
"""


def study_file(folder: Path, runs: int) -> Path:
    """Write a study of that many runs: ten arms, ten widths, the rest seeds."""
    folder.mkdir(parents=True, exist_ok=True)
    text = folder / "text.txt"
    text.write_text("some words to read, again and again\n" * 400, encoding="utf-8")
    seeds = ", ".join(map(str, range(1, runs // (ARMS * CELLS) + 1)))
    widths = ", ".join(str(64 + 8 * cell) for cell in range(CELLS))
    parts = [STUDY.format(text=text, seeds=seeds, widths=widths)]
    parts += [ARM.format(number=number, hidden=number + 1) for number in range(ARMS)]
    parts += [FAMILY, *(COMPARISON.format(number=number) for number in range(1, ARMS))]
    path = folder / "many.toml"
    path.write_text("".join(parts), encoding="utf-8")
    return path


def make(runs: int, folder: Path) -> Path:
    """Write the study and the results of all its runs; return the folder of its results."""
    plan = read(str(study_file(folder, runs)), folder / "results")
    plan.results.mkdir(parents=True, exist_ok=True)
    freeze(plan.text, str(plan.origin), plan.results, reason=None, time="2026-01-01T00:00:00Z")
    freeze_plan(plan.results, plan.runs)
    rng = np.random.default_rng(0)
    for run in plan.runs:
        _write_run(RunFolder(plan.results / "runs" / run.run_id), run, rng)
    return plan.results


def _write_run(folder: RunFolder, run: PlannedRun, rng: np.random.Generator) -> None:
    """Write what a run leaves behind; without waiting for the disk, which takes a minute here."""
    folder.path.mkdir(parents=True, exist_ok=True)
    named = {"run_id": run.run_id, "study": run.study, "arm": run.arm, "seed": run.seed}
    spec = Spec(**named, cell=run.cell, settings=run.settings.model_dump(mode="json"))
    loss_nats = 3.0 - 0.01 * int(run.arm.split()[1]) + float(rng.normal(0.0, 0.02))
    schedule = run.settings.train
    result = Result(
        **named,
        status="done",
        steps=schedule.steps,
        tokens=schedule.tokens,
        params=100_000,
        metrics={"valid": _metrics(loss_nats), "test": _metrics(loss_nats + 0.05)},
        data_fingerprint=f"{run.seed:064x}",
        weights_sha256="0" * 64,
        timing={"train_seconds": 1.0},
    )
    _write(folder.spec_path, to_json(spec.model_dump(by_alias=True)))
    _write(folder.result_path, to_json(result.model_dump(by_alias=True)))
    where = {"host": "made", "device": "cpu", "threads": 1, "torch": "0", "code_sha256": "0" * 64}
    attempt = [{"event": "start", "attempt": 1, **where}, {"event": "end", "reason": "done"}]
    _write(folder.attempts_path, _lines(attempt))
    _write(folder.metrics_path, _lines(_curve(loss_nats, schedule.steps)))


def _metrics(loss_nats: float) -> dict[str, float]:
    return {"loss": loss_nats, "ppl": float(np.exp(loss_nats))}


def _curve(loss_nats: float, steps: int) -> list[dict[str, object]]:
    every = max(1, steps // CURVE_POINTS)
    return [
        {
            "step": step,
            "tokens": 64 * step,
            "split": "train",
            "metric": "loss",
            "value": loss_nats + 1.0 / step,
        }
        for step in range(every, steps + 1, every)
    ]


def _lines(records: list[dict[str, object]]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python benchmarks/make_results.py RUNS FOLDER")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    print(make(int(sys.argv[1]), Path(sys.argv[2])))
