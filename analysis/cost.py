"""What each treatment cost beside its baseline: step time, memory and parameters, run by run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from . import digits, tables
from .records import RunRecord

INTRODUCTION = (
    "Treatment over baseline of the same seed and cell, as the runs were trained: median, and "
    "range over the seeds (number of seeds). Memory is the peak of the whole process, libraries "
    "included. Runs share machines and may have met different ones, so a time here is an "
    "impression, and no part of any verdict; cqk bench measures in turn."
)
RATIOS = {
    "params": "parameters",
    "step_seconds": "step time",
    "peak_memory_bytes": "peak memory",
}


def from_records(records: Sequence[RunRecord]) -> pd.DataFrame | None:
    """Return one row per run that is done: run_id, seed, and what a step of it took.

    ``step_seconds`` is of the last attempt; what a run did not record is missing. None when no run
    recorded anything.
    """
    rows = []
    for record in records:
        if record.result is None or record.result.status != "done":
            continue
        schedule, timing = record.spec.settings.get("train", {}), record.result.timing
        tokens = schedule.get("seq_len", math.nan) * schedule.get("batch", math.nan)
        speed = timing.get("tokens_per_second", math.nan)
        rows.append(
            {
                "run_id": record.spec.run_id,
                "seed": record.spec.seed,
                "params": float(record.result.params),
                "step_seconds": tokens / speed if speed > 0 else math.nan,
                "peak_memory_bytes": timing.get("peak_memory_bytes", math.nan),
            }
        )
    found = pd.DataFrame(rows)
    return None if found.empty or found["step_seconds"].isna().all() else found


def ratios(
    costs: pd.DataFrame, runs: pd.DataFrame, pairs: Sequence[tuple[str, str]]
) -> pd.DataFrame:
    """Return the ratios of each pair of arms: n, median, low and high over its seeds.

    ``runs`` are those that are judged, with the columns run_id, arm and cell; each of ``pairs`` is
    a treatment and its baseline. Columns: cell, treatment, baseline, quantity, n, median, low,
    high.
    """
    places = runs[["run_id", "arm", "cell"]].drop_duplicates()
    known = places.merge(costs, on="run_id").set_index(["cell", "arm", "seed"]).sort_index()
    rows = []
    for cell in runs["cell"].unique():
        for treatment, baseline in dict.fromkeys(pairs):
            try:
                ours, theirs = known.loc[cell, treatment], known.loc[cell, baseline]
            except KeyError:
                continue
            for quantity in RATIOS:
                over = (ours[quantity] / theirs[quantity]).dropna()
                if len(over):
                    place = {"cell": cell, "treatment": treatment, "baseline": baseline}
                    rows.append({**place, "quantity": quantity, **_summary(over)})
    columns = ["cell", "treatment", "baseline", "quantity", "n", "median", "low", "high"]
    return pd.DataFrame(rows, columns=columns)


def _summary(values: pd.Series[float]) -> dict[str, float]:
    return {
        "n": len(values),
        "median": values.median(),
        "low": values.min(),
        "high": values.max(),
    }


def table(rows: pd.DataFrame) -> tables.Table:
    """Return the ratios as a table, a line per pair of arms and a column per quantity."""
    shown: dict[tuple[str, str, str], dict[str, str]] = {}
    for row in tables.records(rows):
        place = (row["treatment"], row["baseline"], row["cell"])
        shown.setdefault(place, {})[row["quantity"]] = _worded(row)
    celled = any(cell for _, _, cell in shown)
    lines = [
        (*place[: 3 if celled else 2], *(found.get(q, digits.DASH) for q in RATIOS))
        for place, found in shown.items()
    ]
    header = ("treatment", "baseline", *(["cell"] if celled else []), *RATIOS.values())
    return tables.Table(header, tuple(lines))


def _worded(row: Mapping[str, Any]) -> str:
    median = f"{row['median']:.3f}"
    if row["low"] == row["high"]:
        return f"{median} ({row['n']:.0f})"
    return f"{median}, {row['low']:.3f} to {row['high']:.3f} ({row['n']:.0f})"
