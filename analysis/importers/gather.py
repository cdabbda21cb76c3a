"""Files of one format + the user's request -> one row per arm, seed and metric."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from ..digits import plural
from ..nearest import nearest
from .contract import Log, Point, Reader, Run, listed, shown
from .identify import Identity, extra_columns, identities
from .request import Request
from .steps import Best, Kept, StepError, StepRule

COLUMNS = ["arm", "seed", "metric", "value", "status", "step", "run_id", "source"]
MOST_METRICS = 10_000
MOST_RUNS = 100_000


@dataclass(frozen=True)
class Imported:
    """The tidy table of foreign results, and what the user should know about it."""

    table: pd.DataFrame
    notices: list[str]

    @property
    def sentence(self) -> str:
        """Return what the table holds."""
        runs = self.table.drop_duplicates(["run_id", "source"])
        counts = self.table["status"].value_counts()
        values = ", ".join(f"{count} {status}" for status, count in counts.items())
        return (
            f"{plural(len(runs), 'run')} of {plural(self.table['arm'].nunique(), 'arm')}; "
            f"{plural(len(self.table), 'value')}: {values}"
        )

    def as_json(self) -> str:
        """Return one JSON document: the rows, missing numbers as null, and the notices."""
        rows = self.table.astype(object).where(self.table.notna(), None).to_dict(orient="records")
        return json.dumps({"runs": rows, "notices": self.notices}, indent=1, allow_nan=False)


@dataclass
class _Collected:
    """What one pass over the files keeps: a value for each run and metric, and the names seen."""

    kept: dict[tuple[Run, str], Kept] = field(default_factory=dict)
    metrics: dict[str, None] = field(default_factory=dict)


def gather(reader: Reader, files: Sequence[Path], request: Request) -> Imported:
    """Read the files and return their tidy table.

    Raises:
        ValueError: Something cannot be decided or read; the message names file, run and remedy.
    """
    log = Log()
    steps = _best_steps(reader, files, request, log)
    found = _collect(reader, files, request, log, steps)
    runs = list(log.runs.values())
    if not runs:
        raise ValueError(f"{', '.join(map(str, files))}: holds no run")
    for wanted in request.metrics.values():
        if wanted not in found.metrics:
            names = list(found.metrics)
            raise ValueError(f"no run has the metric {shown(wanted)}; {nearest(wanted, names)}")
    over = [run for run in runs if run.status != "unfinished"]
    _note_states(runs, log)
    extra = extra_columns(over, request)
    rows = list(_rows(over, found, request, extra))
    table = pd.DataFrame(rows, columns=[*COLUMNS[:2], *extra, *COLUMNS[2:]])
    table = table.astype({"seed": "int64", "value": float, "step": float})
    if table.empty:
        raise ValueError(f"{', '.join(map(str, files))}: no run is over that has a metric")
    _require_step(table, request.step)
    _note_values(table, request.step, log)
    return Imported(table, list(log.notices))


def _points(reader: Reader, files: Sequence[Path], request: Request, log: Log) -> Iterator[Point]:
    for point in reader.points(files, request, log):
        if len(log.runs) > MOST_RUNS:
            raise ValueError(f"{point.run.source}: holds more than {MOST_RUNS:,} runs")
        yield point


def _best_steps(
    reader: Reader, files: Sequence[Path], request: Request, log: Log
) -> dict[Run, float | None]:
    """Return the step that counts for each run, where the best one on a metric was declared."""
    rule = request.step
    if rule is None or rule.kind not in ("min", "max"):
        return {}
    best: dict[Run, Best] = {}
    seen: dict[str, None] = {}
    for point in _points(reader, files, request, log):
        _remember(point, seen)
        if point.metric == rule.metric:
            sign = 1 if rule.kind == "min" else -1
            _add(best.setdefault(point.run, Best(sign, reader.IN_ORDER)), point)
    if not best:
        raise ValueError(
            f"--step {rule.kind}:{rule.metric}: no run has that metric; "
            f"{nearest(rule.metric, list(seen))}"
        )
    return {run: best[run].step if run in best else None for run in log.runs.values()}


def _collect(
    reader: Reader,
    files: Sequence[Path],
    request: Request,
    log: Log,
    steps: dict[Run, float | None],
) -> _Collected:
    found = _Collected()
    wanted = set(request.metrics.values())
    for point in _points(reader, files, request, log):
        _remember(point, found.metrics)
        if wanted and point.metric not in wanted:
            continue
        key = point.run, point.metric
        if key not in found.kept:
            rule = request.step
            if steps:
                at = steps[point.run]
                rule = StepRule("at", step=math.nan if at is None else at)
            found.kept[key] = Kept(rule, reader.IN_ORDER)
        _add(found.kept[key], point)
    return found


def _remember(point: Point, seen: dict[str, None]) -> None:
    seen[point.metric] = None
    if len(seen) > MOST_METRICS:
        raise ValueError(f"{point.run.source}: names more than {MOST_METRICS:,} metrics")


def _add(chosen: Kept | Best, point: Point) -> None:
    """Take a point into account; what is wrong with its step is said with file, run and metric."""
    try:
        chosen.add(point.step, point.value)
    except StepError as error:
        run = point.run
        raise ValueError(
            f"{run.source}: run {shown(run.name)}: {shown(point.metric)} {error}"
        ) from None


def _rows(
    runs: Sequence[Run], found: _Collected, request: Request, extra: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    """Yield a row for each identity and each metric that its arm has."""
    groups: dict[Identity, list[Run]] = {}
    for run, identity in identities(runs, request, extra).items():
        groups.setdefault(identity, []).append(run)
    expected = _expected(groups, found, request)
    for identity, members in groups.items():
        for name, metric in expected[identity.arm].items():
            run = _holder(identity, members, metric, found) or members[0]
            kept = found.kept.get((run, metric), Kept(None, False))
            yield {
                "arm": identity.arm,
                "seed": identity.seed,
                **dict(zip(extra, identity.extra, strict=True)),
                "metric": name,
                **_outcome(run, kept, request.step),
                "run_id": run.name,
                "source": run.source,
            }


def _expected(
    groups: Mapping[Identity, Sequence[Run]], found: _Collected, request: Request
) -> dict[str, dict[str, str]]:
    """Return for each arm the metrics that every run of it should have: new name -> old name."""
    arm_of = {run: identity.arm for identity, runs in groups.items() for run in runs}
    expected: dict[str, dict[str, str]] = {arm: dict(request.metrics) for arm in arm_of.values()}
    for run, metric in found.kept if not request.metrics else ():
        if run in arm_of:
            expected[arm_of[run]][metric] = metric
    return expected


def _holder(
    identity: Identity, members: Sequence[Run], metric: str, found: _Collected
) -> Run | None:
    """Return the one run of an identity that has the metric.

    Raises:
        ValueError: Two runs have it: one run counts once.
    """
    holders = [run for run in members if (run, metric) in found.kept]
    if len(holders) > 1:
        names = listed([f"{run.name} ({run.source})" for run in holders])
        raise ValueError(
            f"{len(holders)} runs are arm {shown(identity.arm)}, seed {identity.seed} and have "
            f"{shown(metric)}: {names}; a run counts once, so drop the others or tell them apart "
            "with --arm, --seed or --map"
        )
    return holders[0] if holders else None


def _outcome(run: Run, kept: Kept, rule: StepRule | None) -> dict[str, Any]:
    """Return value, status and step; a failed run's last value is none of the run's results."""
    value = kept.value
    # A value at a declared step was reached, whatever became of the run after it.
    reached = kept.seen and rule is not None and rule.kind == "at"
    if value is None or (run.status == "failed" and not reached):
        return {"value": math.nan, "status": "failed", "step": kept.step}
    if not math.isfinite(value):
        return {"value": math.nan, "status": "diverged", "step": kept.step}
    return {"value": value, "status": "done", "step": kept.step}


def _require_step(table: pd.DataFrame, rule: StepRule | None) -> None:
    """A declared step that no run reached is a misread unit far more often than a lost study."""
    metrics = table["metric"].unique().tolist()
    if rule is not None and rule.kind == "at" and table["step"].isna().all():
        raise ValueError(
            f"--step {rule.step:g}: no run has a value of {listed(metrics)} there; "
            "steps count as the files do"
        )


def _note_states(runs: Sequence[Run], log: Log) -> None:
    for status, what in (
        ("failed", "did not finish and count as failed"),
        ("unfinished", "are not over yet and were left out"),
    ):
        names = [f"{r.name} ({r.state})" if r.state else r.name for r in runs if r.status == status]
        if names:
            log.note(f"{len(names)} of {plural(len(runs), 'run')} {what}: {listed(names)}")


def _note_values(table: pd.DataFrame, rule: StepRule | None, log: Log) -> None:
    diverged = table[table["status"] == "diverged"]
    if len(diverged):
        names = listed(diverged["run_id"].drop_duplicates().tolist())
        count = plural(diverged["run_id"].nunique(), "run")
        log.note(f"{count} diverged (NaN or infinity): {names}")
    if rule is None or rule.kind != "last":
        return
    for metric, rows in table[table["status"] == "done"].groupby("metric", sort=False):
        ends = rows["step"].dropna()
        short = rows.loc[ends[ends < ends.max()].index, "run_id"].tolist()
        if short:
            log.note(
                f"the last {metric} is at step {ends.max():g}, but earlier in {listed(short)}; "
                "runs of different length are no seeds of one another"
            )
