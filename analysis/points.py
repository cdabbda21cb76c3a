"""The runs behind a comparison: what a table or a figure shows of them, picked and counted."""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from . import arms, student

Where = Mapping[str, Mapping[str, Any]]
"""Comparison name -> the grid axes (columns of runs.csv) that it fixes."""

Beaten = Mapping[tuple[str, str, str, str], frozenset[str]]
"""(arm, cell in words, metric, split) -> the baselines it was shown to be better than there."""

_COLUMNS = ("run_id", "preset", "params", "corpus", "tokenizer", "seq_len", "tokens")
_PART = r"_(?:distance|pairs)_\d+$"  # a metric of some answers only, as accuracy_distance_16
_CELL_AXES = ("preset", "seq_len", "tokens", "corpus", "tokenizer")


def completed(frame: pd.DataFrame, split: str) -> pd.DataFrame:
    """Return the frame with every column that a report reads; a table of others may lack some.

    A run without an id is told apart by its arm, seed and cell. A table without the column split
    is taken to hold the declared `split`; a split left empty is "".
    """
    if "split" not in frame:
        frame = frame.assign(split=split)
    absent = [column for column in _COLUMNS if column not in frame and "arm" in frame]
    frame = frame.assign(**dict.fromkeys(absent))
    splits = frame["split"].astype(object)
    return frame.assign(split=splits.where(splits.notna(), "").astype(str))


def cell_axes(runs: pd.DataFrame, where: Where) -> list[str]:
    """Return the columns that tell cells apart: grid axes and settings in which the runs differ."""
    declared = [axis for fixed in where.values() for axis in fixed]
    candidates = dict.fromkeys([*declared, *_CELL_AXES])
    return [axis for axis in candidates if runs[axis].nunique() > 1]


def cell_label(row: Mapping[Any, Any], axes: Sequence[str]) -> str:
    """Return the cell of a row in words.

    >>> cell_label({"preset": "60m", "seq_len": 1024}, ["preset", "seq_len"])
    'preset=60m, seq_len=1024'
    """
    return ", ".join(f"{axis}={_short(row[axis])}" for axis in axes)


def with_cell(frame: pd.DataFrame, axes: Sequence[str]) -> pd.DataFrame:
    """Return the frame with a column `cell`, the cell of every row in words."""
    keys = zip(*(frame[axis] for axis in axes), strict=True) if axes else [()] * len(frame)
    cells = [cell_label(dict(zip(axes, key, strict=True)), axes) for key in keys]
    return frame.assign(cell=pd.Series(cells, index=frame.index, dtype=object))


def arm_summary(runs: pd.DataFrame, confidence: float = 0.95) -> pd.DataFrame:
    """Return count, mean, sd and interval of the mean for every arm, cell, metric and split.

    `runs` has the column `cell`. `n` counts the runs with a value and `runs` all of them; `ci_low`
    and `ci_high` are the two-sided t interval, NaN below two values, as is `sd`.
    """
    keys = ["arm", "cell", "metric", "split"]
    distinct = runs.drop_duplicates(["arm", "cell", "run_id", "seed"])
    total = distinct.groupby(["arm", "cell"]).size().rename("runs").reset_index()
    rows = [
        {**dict(zip(keys, key, strict=True)), **_summary(values, confidence)}
        for key, values in runs.groupby(keys, sort=False)["value"]
    ]
    columns = [*keys, "n", "mean", "sd", "ci_low", "ci_high"]
    return pd.DataFrame(rows, columns=columns).merge(total, on=["arm", "cell"])


def seed_points(runs: pd.DataFrame, comparisons: pd.DataFrame, where: Where) -> pd.DataFrame:
    """Return every treatment run as its distance from the baseline's mean.

    Columns: comparison, seed, difference (in the metric's unit); runs without a value are absent.
    """
    by_arm, found = _by_arm(runs), []
    for row in comparisons.to_dict("records"):
        chosen = _chosen(by_arm, row, "treatment", where)
        differences = chosen["value"] - row["mean_baseline"]
        found += [
            {"comparison": row["comparison"], "seed": seed, "difference": difference}
            for seed, difference in zip(chosen["seed"], differences, strict=True)
        ]
    return pd.DataFrame(found, columns=["comparison", "seed", "difference"]).dropna()


def gain_points(
    runs: pd.DataFrame, comparisons: pd.DataFrame, where: Where, column: str
) -> pd.DataFrame:
    """Return the comparisons with `x`, the baseline's `column` (params or seq_len), and `series`.

    A series is a pair of arms in the same cell but for the axes that move x; kept are those that
    were compared at two or more values of x, sorted by it.
    """
    by_arm = _by_arm(runs)
    gains = comparisons.assign(
        x=[
            _only_value(_chosen(by_arm, row, "baseline", where), column)
            for row in comparisons.to_dict("records")
        ]
    ).dropna(subset=["x", "difference"])
    if gains.empty:
        return gains.assign(series="")
    fixed = pd.DataFrame([where.get(name, {}) for name in gains["comparison"]], index=gains.index)
    still = [axis for axis in map(str, fixed) if not _moves(fixed, gains, axis)]
    pair = gains["treatment"] + " against " + gains["baseline"]
    cells = with_cell(fixed, still)["cell"]
    gains["series"] = pair.where(cells == "", pair + ", " + cells)
    several = gains.groupby("series")["x"].transform("nunique") > 1
    return gains[several].sort_values(["series", "x"])


def whole(summary: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of metrics that are of all that was scored, not of a part of it.

    >>> whole(pd.DataFrame({"metric": ["loss", "accuracy_distance_16"]}))["metric"].tolist()
    ['loss']
    """
    return summary[~summary["metric"].str.contains(_PART)]


def by_distance(summary: pd.DataFrame, metric: str, split: str) -> pd.DataFrame:
    """Return mean and interval of ``metric`` by distance, `x`, sorted; empty where none is known.

    `x` is the lowest distance of its octave, in tokens.
    """
    here = summary[summary["split"] == split]
    x = here["metric"].str.extract(rf"^{re.escape(metric)}_distance_(\d+)$", expand=False)
    return (
        here.assign(x=pd.to_numeric(x)).dropna(subset=["x", "mean"]).sort_values("x", kind="stable")
    )


def of_metric(summary: pd.DataFrame, metric: str, split: str) -> dict[str, float]:
    """Return the mean of a metric that all arms share, by cell; empty where it is not recorded."""
    here = summary[(summary["metric"] == metric) & (summary["split"] == split)]
    return dict(here.groupby("cell")["mean"].mean())


def grid_points(comparisons: pd.DataFrame, where: Where) -> tuple[pd.DataFrame, list[str]]:
    """Return the comparisons with `series` and a column per grid axis, and these axes' names.

    An axis is one that differs between the comparisons; a series is a pair of arms.
    """
    fixed = pd.DataFrame(
        [where.get(name, {}) for name in comparisons["comparison"]], index=comparisons.index
    )
    axes = [str(axis) for axis in fixed if fixed[axis].nunique() > 1]
    series = comparisons["treatment"] + " against " + comparisons["baseline"]
    return comparisons.assign(series=series, **{axis: fixed[axis] for axis in axes}), axes


def beaten(runs: pd.DataFrame, comparisons: pd.DataFrame, where: Where) -> Beaten:
    """Return whom each arm beats by a supported one-sided comparison; `runs` has `cell`."""
    by_arm = _by_arm(runs)
    found: dict[tuple[str, str, str, str], frozenset[str]] = {}
    won = (comparisons["verdict"] == "supported") & (comparisons["alternative"] != "two-sided")
    for row in comparisons[won].to_dict("records"):
        for cell in _chosen(by_arm, row, "treatment", where)["cell"].unique():
            key = (row["treatment"], cell, row["metric"], row["split"])
            found[key] = found.get(key, frozenset()) | {row["baseline"]}
    return found


def unfinished(runs: pd.DataFrame) -> pd.DataFrame:
    """Return one row per run that did not end well: run_id, arm, cell, seed and status."""
    columns = ["run_id", "arm", "cell", "seed", "status"]
    rows = runs.loc[runs["status"] != "done", columns].drop_duplicates(columns)
    return rows.sort_values(["arm", "cell", "seed"])


def _by_arm(runs: pd.DataFrame) -> dict[Hashable, pd.DataFrame]:
    # Splitting once keeps a family of a thousand comparisons from scanning all runs each time.
    return {None: runs.iloc[:0], **dict(iter(runs.groupby(["arm", "metric", "split"])))}


def _chosen(
    by_arm: Mapping[Hashable, pd.DataFrame], row: Mapping[Any, Any], role: str, where: Where
) -> pd.DataFrame:
    """Return the runs of the row's treatment or baseline, within the cells it was declared for."""
    chosen = by_arm.get((row[role], row["metric"], row["split"]), by_arm[None])
    for axis, value in where.get(row["comparison"], {}).items():
        chosen = chosen[chosen[axis] == value]
    return chosen


def _only_value(chosen: pd.DataFrame, column: str) -> float:
    """Return the one value that all chosen runs share, NaN when they share none."""
    values = chosen[column].dropna().unique()
    return float(values[0]) if len(values) == 1 else math.nan


def _moves(fixed: pd.DataFrame, gains: pd.DataFrame, axis: str) -> bool:
    """Tell whether x changes when this axis changes and nothing else does."""
    others = [gains["treatment"], gains["baseline"], *(fixed[a] for a in fixed if a != axis)]
    return bool((gains["x"].groupby(others, dropna=False).nunique() > 1).any())


def _summary(values: pd.Series[float], confidence: float) -> dict[str, float]:
    summary = arms.summarise(np.asarray(values.dropna(), dtype=np.float64))
    reach = math.nan
    if summary.n > 1:
        t = float(student.quantile((1 + confidence) / 2, summary.n - 1))
        reach = t * summary.sd / math.sqrt(summary.n)
    low, high = summary.mean - reach, summary.mean + reach
    return {"n": summary.n, "mean": summary.mean, "sd": summary.sd, "ci_low": low, "ci_high": high}


def _short(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
