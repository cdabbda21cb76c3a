"""Training curves of several seeds on one axis of tokens: aligned, smoothed, and as a band.

Curves are rows: run_id, arm, seed, step, tokens, split, metric, value. Runs are summarised within
each arm, split and metric.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from . import student

FloatArray = NDArray[np.float64]
_CURVE = ["arm", "split", "metric"]
_RUN = [*_CURVE, "run_id"]


def align(curves: pd.DataFrame) -> pd.DataFrame:
    """Return every run's curve at all the token counts that the runs of its arm logged.

    Between two logged points the value is interpolated linearly; nothing is extrapolated, and a
    curve ends before its first value that is not finite, so a diverged run stops being counted
    instead of bending the mean. Columns: arm, split, metric, run_id, tokens, value.

    Raises ValueError when a run logged two values for one token count.

    >>> rows = [("a", 0, 4.0), ("a", 10, 2.0), ("b", 0, 5.0), ("b", 5, 4.0), ("b", 10, 3.0)]
    >>> curves = pd.DataFrame(rows, columns=["run_id", "tokens", "value"])
    >>> aligned = align(curves.assign(arm="x", split="train", metric="loss"))
    >>> aligned.loc[aligned["run_id"] == "a", "value"].tolist()
    [4.0, 3.0, 2.0]
    """
    _refuse_repeated(curves)
    aligned = []
    for curve, group in curves.sort_values("tokens").groupby(_CURVE):
        grid = np.unique(group["tokens"].to_numpy(dtype=np.float64))
        for run_id, run in group.groupby("run_id"):
            about = {**dict(zip(_CURVE, curve, strict=True)), "run_id": run_id}
            frame = pd.DataFrame({**about, "tokens": grid, "value": _on_grid(grid, run)})
            aligned.append(frame.dropna(subset=["value"]))
    return pd.concat(aligned, ignore_index=True)


def smooth(aligned: pd.DataFrame, span: float) -> pd.DataFrame:
    """Return aligned curves under an exponential moving average over `span` logged points.

    The weights are normalised from the first point on, so the start is not pulled towards 0; a
    span of 1 changes nothing. Raises ValueError for a span below 1.
    """
    if not span >= 1:
        raise ValueError(f"span must be a number of logged points, 1 or more; got {span}.")
    runs = aligned.groupby(_RUN)["value"]
    return aligned.assign(value=runs.transform(lambda value: value.ewm(span=span).mean()))


def band(aligned: pd.DataFrame, confidence: float = 0.95) -> pd.DataFrame:
    """Return mean and two-sided t interval over the runs at every token count.

    Columns: arm, split, metric, tokens, n, mean, low, high; with fewer than two runs at a point
    there is no interval and low and high are NaN.
    """
    student.check_confidence(confidence)
    points = aligned.groupby([*_CURVE, "tokens"])["value"]
    rows = points.agg(n="count", mean="mean", sd="std").reset_index()
    n = rows["n"].to_numpy(dtype=np.float64)
    # One run leaves no degrees of freedom; its sd is NaN already, and so is its interval.
    quantile = student.quantile((1 + confidence) / 2, np.maximum(n - 1, 1))
    reach = quantile * rows["sd"] / np.sqrt(n)
    rows["low"], rows["high"] = rows["mean"] - reach, rows["mean"] + reach
    return rows[[*_CURVE, "tokens", "n", "mean", "low", "high"]]


def difference(treatment: pd.DataFrame, baseline: pd.DataFrame) -> pd.DataFrame:
    """Return one arm's aligned curves minus another's, by seed, where both have a value.

    Both frames have the columns of `align` and `seed`; so has the result, whose arm names both
    and whose run_id is the seed.

    >>> row = {"split": "train", "metric": "loss", "run_id": "a", "seed": 1, "tokens": 10.0}
    >>> arms = [pd.DataFrame([{"arm": x, "value": v, **row}]) for x, v in (("x", 2), ("y", 5))]
    >>> difference(*arms)[["arm", "tokens", "value"]].to_dict("records")
    [{'arm': 'x - y', 'tokens': 10.0, 'value': -3}]
    """
    same = ["split", "metric", "seed", "tokens"]
    pair = treatment.merge(baseline, on=same, suffixes=("", "_y"), validate="one_to_one")
    return pair.assign(
        arm=pair["arm"] + " - " + pair["arm_y"],
        run_id=pair["seed"].astype(str),
        value=pair["value"] - pair["value_y"],
    )[[*_RUN, "seed", "tokens", "value"]]


def _refuse_repeated(curves: pd.DataFrame) -> None:
    repeated = curves[curves.duplicated([*_RUN, "tokens"])]
    if len(repeated):
        row = repeated.iloc[0]
        raise ValueError(
            f"run {row['run_id']!r} of arm {row['arm']!r} logged {row['metric']} on "
            f"{row['split']} twice at {row['tokens']} tokens; keep one value for each count."
        )


def _on_grid(grid: FloatArray, run: pd.DataFrame) -> FloatArray:
    """Return the run's values on the grid, NaN outside the stretch that it covers."""
    tokens = run["tokens"].to_numpy(dtype=np.float64)
    values = run["value"].to_numpy(dtype=np.float64)
    broken = np.flatnonzero(~np.isfinite(values))
    end = broken[0] if len(broken) else len(values)
    if end == 0:
        return np.full_like(grid, np.nan)
    return np.asarray(np.interp(grid, tokens[:end], values[:end], left=np.nan, right=np.nan))
