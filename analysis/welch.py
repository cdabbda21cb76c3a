"""Welch's t test: two arms, unequal variances, from values or from mean, spread and n."""

import math
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .arms import FloatArray, Pair, Summary, seed_values, summarise_pair
from .degenerate import NoTestError, Reason, reasons
from .spread import SpreadKind, sd_from_spread
from .student import (
    Alternative,
    check_alternative,
    check_confidence,
    log10_p_value,
    p_value,
    quantile,
    satterthwaite,
)


@dataclass(frozen=True)
class WelchResult:
    """One Welch test of x against y; `ci_low` and `ci_high` bound the test's own side."""

    alternative: Alternative
    confidence: float
    n_x: int
    mean_x: float
    sd_x: float
    n_y: int
    mean_y: float
    sd_y: float
    difference: float
    se: float
    t: float
    df: float
    p: float
    log10_p: float
    ci_low: float
    ci_high: float
    ci_two_sided: tuple[float, float]
    constant_arm: bool


@dataclass(frozen=True)
class WelchColumns:
    """Many Welch tests, one element each; NaN and a reason where no test exists."""

    difference: FloatArray
    se: FloatArray
    t: FloatArray
    df: FloatArray
    p: FloatArray
    log10_p: FloatArray
    ci_low: FloatArray
    ci_high: FloatArray
    ci_two_sided_low: FloatArray
    ci_two_sided_high: FloatArray
    reason: NDArray[np.str_]
    constant_arm: NDArray[np.bool_]


def welch(
    x: ArrayLike,
    y: ArrayLike,
    alternative: Alternative = "less",
    confidence: float = 0.95,
) -> WelchResult:
    """Test the mean of x against the mean of y; 'less' asks whether x lies below y.

    x and y hold one value per seed. Raises NoTestError, a ValueError, for degenerate data.
    Source: B. L. Welch, "The Generalization of 'Student's' Problem when Several Different
    Population Variances are Involved", 1947, https://doi.org/10.1093/biomet/34.1-2.28.

    >>> result = welch([20.1, 20.2, 20.15], [20.4, 20.5, 20.6])
    >>> round(result.t, 3), round(result.df, 2), round(result.p, 4)
    (-5.422, 2.94, 0.0065)
    """
    pair = summarise_pair(seed_values(x, "x"), seed_values(y, "y"))
    return _test(pair, alternative, confidence)


def welch_from_summary(
    mean_x: float,
    spread_x: float,
    n_x: int,
    mean_y: float,
    spread_y: float,
    n_y: int,
    spread_kind: SpreadKind = "sd",
    alternative: Alternative = "less",
    confidence: float = 0.95,
) -> WelchResult:
    """Test two arms given as mean, spread and number of runs.

    The spread is 'sd' (n - 1), 'se', 'sd0' (divided by n), or half a 95 % interval by the
    t ('ci95_t') or the normal ('ci95_z') quantile. Raises ValueError for a negative spread
    or a count that is no whole number, NoTestError for degenerate data.

    >>> round(welch_from_summary(20.1, 0.1, 3, 20.5, 0.1, 3).p, 4)
    0.004
    """
    for name, n in (("n_x", n_x), ("n_y", n_y)):
        if n != math.floor(n) or n < 0:
            raise ValueError(f"{name} must be a whole number of runs; got {n}.")
    sd_x, sd_y = sd_from_spread([spread_x, spread_y], [n_x, n_y], spread_kind)
    arm_x = Summary(int(n_x), mean_x, 0.0, float(sd_x))
    arm_y = Summary(int(n_y), mean_y, 0.0, float(sd_y))
    return _test(
        Pair(arm_x, arm_y, _decimal_difference(mean_x, mean_y), 0), alternative, confidence
    )


def welch_many(
    mean_x: ArrayLike,
    sd_x: ArrayLike,
    n_x: ArrayLike,
    mean_y: ArrayLike,
    sd_y: ArrayLike,
    n_y: ArrayLike,
    alternative: Alternative = "less",
    confidence: ArrayLike = 0.95,
    difference: ArrayLike | None = None,
) -> WelchColumns:
    """Run many Welch tests at once; the arguments broadcast against one another.

    Deviations have divisor n - 1, and are exactly 0 for an arm whose values are all equal.
    `difference` replaces mean_x - mean_y where the caller has it with more digits. Intervals
    at k levels come from a confidence of shape (k, 1). Raises ValueError for a level outside
    (0, 1) or an unknown alternative; degenerate rows are NaN with their reason.

    >>> columns = welch_many([1.0, 2.0], [0.1, 0.0], [3, 3], 1.5, [0.1, 0.0], 3)
    >>> columns.p.round(4), columns.reason.tolist()
    (array([0.0018,    nan]), ['', 'both_constant'])
    """
    check_alternative(alternative)
    check_confidence(confidence)
    columns = (mean_x, sd_x, n_x, mean_y, sd_y, n_y)
    mean_x, sd_x, n_x, mean_y, sd_y, n_y = np.broadcast_arrays(
        *(np.asarray(column, dtype=np.float64) for column in columns)
    )
    with np.errstate(invalid="ignore", over="ignore"):
        difference = np.asarray(mean_x - mean_y if difference is None else difference)
    reason = reasons(mean_x, sd_x, n_x, mean_y, sd_y, n_y)
    good = reason == ""
    se, df = satterthwaite(
        np.where(good, sd_x, np.nan),
        np.where(good, n_x, 2),
        np.where(good, sd_y, np.nan),
        np.where(good, n_y, 2),
    )
    t = difference / se
    low, high = _interval(difference, se, df, confidence, "two-sided")
    own_low, own_high = (
        (low, high)
        if alternative == "two-sided"
        else _interval(difference, se, df, confidence, alternative)
    )
    return WelchColumns(
        difference=difference,
        se=se,
        t=t,
        df=df,
        p=p_value(t, df, alternative),
        log10_p=log10_p_value(t, df, alternative),
        ci_low=own_low,
        ci_high=own_high,
        ci_two_sided_low=low,
        ci_two_sided_high=high,
        reason=reason,
        constant_arm=good & ((sd_x == 0) | (sd_y == 0)),
    )


def _decimal_difference(mean_x: float, mean_y: float) -> float:
    """Subtract as decimals: 2.919458 - 2.919946 loses four digits in binary."""
    if not (math.isfinite(mean_x) and math.isfinite(mean_y)):
        return math.nan
    return float(Decimal(str(mean_x)) - Decimal(str(mean_y)))


def _interval(
    difference: FloatArray,
    se: FloatArray,
    df: FloatArray,
    confidence: ArrayLike,
    alternative: Alternative,
) -> tuple[FloatArray, FloatArray]:
    """Return the interval's ends; the open end of a one-sided interval is infinite."""
    outside = 1 - np.asarray(confidence, dtype=np.float64)
    if alternative == "two-sided":
        outside = outside / 2
    # The upper quantile is minus the lower one, and the lower keeps the digits of a small tail.
    reach = -quantile(outside, df) * se
    unbounded = np.where(np.isnan(reach), np.nan, np.inf)
    low = -unbounded if alternative == "less" else difference - reach
    high = unbounded if alternative == "greater" else difference + reach
    return low, high


def _test(pair: Pair, alternative: Alternative, confidence: float) -> WelchResult:
    def unit(value: float | FloatArray) -> float:
        return float(np.ldexp(value, pair.exponent))

    x, y = pair.x, pair.y
    columns = welch_many(
        x.mean, x.sd, x.n, y.mean, y.sd, y.n, alternative, confidence, pair.difference
    )
    if columns.reason:
        raise NoTestError(Reason(str(columns.reason)), unit(pair.difference))
    return WelchResult(
        alternative=alternative,
        confidence=float(confidence),
        n_x=x.n,
        mean_x=unit(x.mean),
        sd_x=unit(x.sd),
        n_y=y.n,
        mean_y=unit(y.mean),
        sd_y=unit(y.sd),
        difference=unit(pair.difference),
        se=unit(columns.se),
        t=float(columns.t),
        df=float(columns.df),
        p=float(columns.p),
        log10_p=float(columns.log10_p),
        ci_low=unit(columns.ci_low),
        ci_high=unit(columns.ci_high),
        ci_two_sided=(unit(columns.ci_two_sided_low), unit(columns.ci_two_sided_high)),
        constant_arm=bool(columns.constant_arm),
    )
