"""Every mean and deviation that printed figures or raw values leave open, and the p behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from .arms import FloatArray, summarise
from .rounding import Printed
from .spread import SpreadKind, sd_from_spread
from .student import Alternative, p_value, satterthwaite

Method = Literal["welch", "student", "normal"]
_SPREADS = 65  # points tried across a printed spread, its ends among them
_CENTRES = 200  # points tried for the value towards which raw values are drawn together


@dataclass(frozen=True)
class Box:
    """Attainable pairs of mean and deviation of one arm of n runs; the first pair is as printed."""

    mean: FloatArray
    sd: FloatArray
    n: int


@dataclass(frozen=True)
class Recomputed:
    """A test as recomputed from the printed figures, and the range of its p over all they allow."""

    t: float
    df: float
    p: float
    p_min: float
    p_max: float


def summary_box(mean: str, spread: str, n: int, spread_kind: SpreadKind) -> Box:
    """Return what a printed mean and spread leave open; a spread goes down to 0.

    >>> box = summary_box("20.1", "0.1", 3, "sd")
    >>> box.mean.min().round(2), box.sd.max().round(2)
    (np.float64(20.05), np.float64(0.15))
    """
    centre, spread_ = Printed(mean), Printed(spread)
    low = max(spread_.value - spread_.half_unit, 0.0)
    spreads = np.linspace(low, spread_.value + spread_.half_unit, _SPREADS)
    means = centre.value + centre.half_unit * np.array([-1.0, 1.0])
    sd = sd_from_spread(np.append(spread_.value, np.tile(spreads, 2)), n, spread_kind)
    return Box(np.append(centre.value, np.repeat(means, _SPREADS)), sd, n)


def value_box(values: FloatArray, half_units: FloatArray) -> Box:
    """Return mean and deviation of raw values, and of all that rounds to them.

    Where p grows or falls with the deviation, the extreme values either lie at the ends of their
    intervals, split at one point, or are drawn together towards one point; so that no other
    choice of values within their intervals has a smaller or a larger p. Both families are tried.

    >>> box = value_box(np.array([1.0, 2.0]), np.array([0.5, 0.5]))
    >>> box.sd.min(), box.mean.max()
    (np.float64(0.0), np.float64(2.0))
    """
    order = np.argsort(values)
    values, half = values[order], half_units[order]
    n = len(values)
    choices = [values]
    if half.any():
        up = np.arange(n) >= np.arange(n + 1)[:, None]
        choices += list(values + np.where(up, half, -half))
        ends = np.concatenate([values - half, values + half])
        centres = np.unique(np.quantile(ends, np.linspace(0, 1, _CENTRES)))
        choices += list(np.clip(centres[:, None], values - half, values + half))
    summaries = [summarise(choice) for choice in choices]
    return Box(np.array([s.mean for s in summaries]), np.array([s.sd for s in summaries]), n)


def raw_values(texts: Sequence[str], rounded: bool) -> tuple[FloatArray, FloatArray]:
    """Return printed values and the half units of their last digits; 0 where they are exact."""
    printed = [Printed(text) for text in texts]
    values = np.array([figure.value for figure in printed], dtype=np.float64)
    half = [figure.half_unit if rounded else 0.0 for figure in printed]
    return values, np.array(half, dtype=np.float64)


def two_arms(
    x: Box, y: Box, alternative: Alternative, method: Method, difference: float
) -> Recomputed:
    """Return the test of two arms; ``difference`` is the printed one, in all its digits."""
    n_x, n_y = x.n, y.n
    sd_x, sd_y = x.sd[:, None], y.sd[None, :]
    se, df = satterthwaite(sd_x, n_x, sd_y, n_y)
    if method == "student":
        pooled = np.sqrt(((n_x - 1) * sd_x**2 + (n_y - 1) * sd_y**2) / (n_x + n_y - 2))
        se, df = pooled * np.sqrt(1 / n_x + 1 / n_y), np.full_like(pooled, n_x + n_y - 2)
    differences = x.mean[:, None] - y.mean[None, :]
    differences[0, 0] = difference
    return recompute(differences, se, _limit(df, method), alternative)


def one_arm(
    box: Box, target: float, alternative: Alternative, method: Method, difference: float
) -> Recomputed:
    """Return the test of one arm, or of paired differences, against a constant."""
    differences = box.mean - target
    differences[0] = difference
    df = np.full(len(box.mean), box.n - 1.0)
    return recompute(differences, box.sd / np.sqrt(box.n), _limit(df, method), alternative)


def decimal_difference(x: str, y: str) -> float:
    """Subtract printed figures as decimals, which loses none of their digits."""
    return float(Decimal(x) - Decimal(y))


def recompute(
    difference: ArrayLike, se: ArrayLike, df: ArrayLike, alternative: Alternative
) -> Recomputed:
    """Return t, df and p of the first element, and the range of p over all elements.

    Where the standard error is 0 there is no test, but p tends to 0 or 1 as it shrinks.

    >>> recompute([-2.0, -2.1, -1.9], 1.0, 4.0, "less").p_max.__round__(4)
    0.0651
    """
    difference, se, df = np.broadcast_arrays(
        *(np.asarray(array, dtype=np.float64) for array in (difference, se, df))
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(se > 0, difference / se, np.nan)
        p = p_value(t, df, alternative)
    towards = {"less": -difference, "greater": difference, "two-sided": np.abs(difference)}
    limit = np.where(towards[alternative] > 0, 0.0, 1.0)
    p_all = np.where(se > 0, p, limit)
    crosses = alternative == "two-sided" and difference.min() <= 0 <= difference.max()
    return Recomputed(
        t=float(t.flat[0]),
        df=float(df.flat[0]) if se.flat[0] > 0 else float("nan"),
        p=float(p.flat[0]),
        p_min=float(p_all.min()),
        p_max=1.0 if crosses else float(p_all.max()),
    )


def _limit(df: FloatArray, method: Method) -> FloatArray:
    return np.full_like(df, np.inf) if method == "normal" else df
