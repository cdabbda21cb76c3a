"""Training curves as figures: every arm's, and each declared pair's difference by seed."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from . import curves, figures
from .plate import Plate
from .points import Where

# A curve of more points than this per run is smoothed before seeds are averaged.
_POINTS_SHOWN = 60
# A grid of many cells would fill pages with panels that nobody compares.
_MOST_PAIRS = 12
_SMOOTHED = (
    f"Curves of more than {_POINTS_SHOWN} points are smoothed (exponential moving average). "
)


def logged_curves(runs: pd.DataFrame, logged: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return the rows of one metric's curves, each with the cell of its run."""
    cells = runs[["run_id", "cell"]].drop_duplicates()
    return cells.merge(logged[logged["metric"] == metric], on="run_id")


def of_arms(logged: pd.DataFrame, metric: str) -> Plate | None:
    """Return the curves of every arm, a panel per cell; nothing where nothing was logged."""
    if logged.empty:
        return None
    bands = [
        _band(part).assign(cell=str(cell))
        for (cell, _, _), part in logged.groupby(["cell", "arm", "split"], sort=False)
    ]
    return Plate(
        "curves",
        "Training curves",
        "Mean over seeds and, where few arms share a panel, its two-sided 95% t interval; a run "
        f"counts up to its last finite value. {_SMOOTHED}The vertical axis begins at the level "
        "reached after a quarter of the tokens.",
        figures.curves(pd.concat(bands), metric),
    )


def of_pairs(
    logged: pd.DataFrame, runs: pd.DataFrame, declared: pd.DataFrame, where: Where, metric: str
) -> Plate | None:
    """Return treatment minus baseline by seed, a panel per declared pair of arms.

    Nothing where no two arms logged on one seed, or there are too many pairs to look at.
    """
    bands = [_difference(logged, *pair) for pair in _pairs(runs, declared, where)]
    bands = [band for band in bands if len(band)]
    if not 0 < len(bands) <= _MOST_PAIRS:
        return None
    rows = pd.concat(bands)
    return Plate(
        "curve_differences",
        "Differences while training",
        "Treatment minus baseline after equally many tokens, by seed: mean over seeds and its "
        "two-sided 95% t interval, which holds at one point and not along the curve. Arms of one "
        f"seed see the same text in the same order, so its noise cancels. {_SMOOTHED}It decides "
        "nothing. One axis for all panels, as wide as what follows a quarter of the tokens.",
        figures.curve_differences(rows, metric),
        data=rows,
    )


def _pairs(
    runs: pd.DataFrame, declared: pd.DataFrame, where: Where
) -> Iterator[tuple[str, set[str], set[str]]]:
    """Yield every declared pair once: its name, and the runs of treatment and baseline."""
    seen = set()
    for row in declared.to_dict("records"):
        fixed = where.get(row["comparison"], {})
        key = (row["treatment"], row["baseline"], *fixed.items())
        if key in seen:
            continue
        seen.add(key)
        here = runs
        for axis, value in fixed.items():
            here = here[here[axis] == value]
        of = dict(iter(here.groupby("arm")["run_id"]))
        cell = "".join(f"\n{axis}={value}" for axis, value in fixed.items())
        treatment, baseline = (set(of.get(row[role], ())) for role in ("treatment", "baseline"))
        yield f"{row['treatment']} against {row['baseline']}{cell}", treatment, baseline


def _difference(
    logged: pd.DataFrame, name: str, treatment: set[str], baseline: set[str]
) -> pd.DataFrame:
    pair = [logged[logged["run_id"].isin(run_ids)] for run_ids in (treatment, baseline)]
    if any(arm.empty for arm in pair):
        return pd.DataFrame()
    differences = curves.difference(*map(_smooth, pair))
    return curves.band(differences).assign(cell=name)


def _smooth(logged: pd.DataFrame) -> pd.DataFrame:
    """Return aligned curves with the seed of each run."""
    span = max(1.0, logged.groupby("run_id").size().median() / _POINTS_SHOWN)
    seeds = logged.drop_duplicates("run_id").set_index("run_id")["seed"]
    aligned = curves.smooth(curves.align(logged), span)
    return aligned.assign(seed=aligned["run_id"].map(seeds))


def _band(logged: pd.DataFrame) -> pd.DataFrame:
    return curves.band(_smooth(logged))
