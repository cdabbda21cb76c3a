"""Dunnett's comparisons of several arms with one baseline, which they share."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special, stats

from .arms import FloatArray, seed_values, summarise
from .degenerate import RESOLUTION, NoTestError, Reason
from .student import Alternative, check_alternative

_NODES = 64
_TAIL = 1e-16
_NEARLY_ONE = 1 - 2.0**-53


@dataclass(frozen=True)
class DunnettResult:
    """One t and one adjusted p for each arm, in the order given, on the pooled variance."""

    alternative: Alternative
    t: FloatArray
    p: FloatArray
    df: int


def dunnett(
    arms: Sequence[ArrayLike], baseline: ArrayLike, alternative: Alternative = "less"
) -> DunnettResult:
    """Compare every arm with the baseline; p is adjusted for all of them together.

    It assumes equal variances, unlike Welch's test, and gains by the correlation that the
    shared baseline brings. Raises NoTestError for degenerate data. Source: C. W. Dunnett, "A
    Multiple Comparison Procedure for Comparing Several Treatments with a Control", 1955,
    https://doi.org/10.1080/01621459.1955.10501294.

    >>> result = dunnett([[20.1, 20.2, 20.3], [20.4, 20.6, 20.5]], [20.5, 20.6, 20.7])
    >>> result.p.round(4)
    array([0.0024, 0.2137])
    """
    check_alternative(alternative)
    if not arms:
        raise ValueError("Dunnett's comparisons need at least one arm besides the baseline.")
    values = [seed_values(arm, "an arm") for arm in arms] + [seed_values(baseline, "baseline")]
    n = np.array([len(arm) for arm in values])
    summaries = [summarise(arm) for arm in values]
    means = np.array([summary.mean for summary in summaries])
    _require(n, means)
    df = int(n.sum()) - len(n)
    spread = np.array([summary.sd for summary in summaries]) * np.sqrt(n - 1)
    sd = math.hypot(*spread) / math.sqrt(df)
    if sd <= RESOLUTION * np.abs(means).max():
        raise NoTestError(Reason.BOTH_CONSTANT)
    t = (means[:-1] - means[-1]) / (sd * np.sqrt(1 / n[:-1] + 1 / n[-1]))
    # corr(T_i, T_j) = loading_i * loading_j, by the baseline that both subtract.
    loading = np.sqrt(n[:-1] / (n[:-1] + n[-1]))
    p = np.array([_probability_beyond(value, loading, df, alternative) for value in t])
    return DunnettResult(alternative, t, p, df)


def _require(n: np.ndarray, means: FloatArray) -> None:
    if n.min() < 1:
        raise NoTestError(Reason.NO_DATA)
    if not np.isfinite(means).all():
        raise NoTestError(Reason.NON_FINITE)
    if n.min() < 2:
        raise NoTestError(Reason.ONE_RUN)


def _probability_beyond(t: float, loading: FloatArray, df: int, alternative: Alternative) -> float:
    """P(some T_i is at least as extreme as t), over the baseline's mean and the pooled spread."""
    shared, weight_shared = _nodes(*special.ndtri([_TAIL, 1 - _TAIL]))
    weight_shared *= np.exp(-(shared**2) / 2) / math.sqrt(2 * math.pi)
    # The spread is a root of chi2 / df; its logarithm resolves the small values that make t large.
    chi = stats.chi(df, scale=1 / math.sqrt(df))
    log_spread, weight_spread = _nodes(math.log(chi.ppf(_TAIL)), math.log(chi.isf(_TAIL)))
    spread = np.exp(log_spread)
    weight_spread *= chi.pdf(spread) * spread
    shift = loading * shared[:, None, None]
    own = np.sqrt(1 - loading**2)
    bound = (abs(t) if alternative == "two-sided" else -t if alternative == "less" else t) * spread
    outside = special.ndtr((shift - bound[:, None]) / own)
    if alternative == "two-sided":
        outside = outside + special.ndtr((-shift - bound[:, None]) / own)
    # 1 - product(1 - outside), without losing the digits of a small probability.
    some = -np.expm1(np.log1p(-np.minimum(outside, _NEARLY_ONE)).sum(axis=2))
    return float(weight_shared @ some @ weight_spread)


def _nodes(low: float, high: float) -> tuple[FloatArray, FloatArray]:
    points, weights = np.polynomial.legendre.leggauss(_NODES)
    return low + (points + 1) / 2 * (high - low), weights * (high - low) / 2
