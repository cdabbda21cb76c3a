"""How large a difference is: in percent, as a ratio, and in standard deviations."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from .arms import FloatArray, Pair, seed_values, summarise_pair
from .degenerate import require_test
from .noncentral import noncentrality_for
from .student import Alternative, check_alternative, check_confidence, quantile, satterthwaite

Convention = Literal["delacre", "welch", "pooled"]


@dataclass(frozen=True)
class Ratio:
    """Geometric mean of x over geometric mean of y, with its interval."""

    ratio: float
    ci_low: float
    ci_high: float


@dataclass(frozen=True)
class EffectSize:
    """A difference in units of `standardizer`; the open end of a one-sided interval is infinite."""

    estimate: float
    ci_low: float
    ci_high: float
    standardizer: float
    df: float
    correction: float


def percent_of_baseline(difference: ArrayLike, mean_baseline: ArrayLike) -> FloatArray:
    """Return the difference in percent of the baseline's magnitude; NaN for a baseline of 0.

    >>> percent_of_baseline([-0.4], [20.0])
    array([-2.])
    """
    baseline = np.abs(np.asarray(mean_baseline, dtype=np.float64))
    return (
        100 * np.asarray(difference, dtype=np.float64) / np.where(baseline == 0, np.nan, baseline)
    )


def log_ratio(
    x: ArrayLike, y: ArrayLike, confidence: float = 0.95, alternative: Alternative = "two-sided"
) -> Ratio:
    """Return the ratio of geometric means, by Welch's interval on the logarithms.

    Raises ValueError unless every value is positive, NoTestError for degenerate data.

    >>> result = log_ratio([20.1, 20.2, 20.0], [20.5, 20.6, 20.4])
    >>> round(result.ratio, 4), round(result.ci_low, 4), round(result.ci_high, 4)
    (0.9805, 0.9696, 0.9915)
    """
    check_alternative(alternative)
    check_confidence(confidence)
    x, y = seed_values(x, "x"), seed_values(y, "y")
    for name, arm in (("x", x), ("y", y)):
        if (arm <= 0).any():
            raise ValueError(f"A ratio needs positive values; {name} holds {arm.min()}.")
    pair = _tested_pair(np.log(x), np.log(y))
    se, df = satterthwaite(pair.x.sd, pair.x.n, pair.y.sd, pair.y.n)
    outside = (1 - confidence) / (2 if alternative == "two-sided" else 1)
    reach = -float(quantile(outside, df) * se)
    low = -math.inf if alternative == "less" else pair.difference - reach
    high = math.inf if alternative == "greater" else pair.difference + reach
    unit = 2.0**pair.exponent
    ratio, ci_low, ci_high = np.exp(np.array([pair.difference, low, high]) * unit)
    return Ratio(float(ratio), float(ci_low), float(ci_high))


def hedges_g(
    x: ArrayLike,
    y: ArrayLike,
    convention: Convention = "delacre",
    confidence: float = 0.95,
    alternative: Alternative = "two-sided",
    corrected: bool = True,
) -> EffectSize:
    """Return Hedges' g, the difference in standard deviations, with its noncentral t interval.

    'delacre' and 'welch' divide by the root of the average variance, and take the degrees of
    freedom of Delacre et al. or of Welch's test; 'pooled' assumes equal variances. Without
    the small-sample correction the estimate is Cohen's d. Raises NoTestError for degenerate
    data, ValueError where the degrees of freedom are 1 or fewer.
    Source: M. Delacre, D. Lakens, C. Ley, L. Liu, C. Leys, "Why Hedges' g*s Based on the
    Non-Pooled Standard Deviation Should Be Reported with Welch's t-Test", 2021,
    https://doi.org/10.31234/osf.io/tu6mp.

    >>> g = hedges_g([20.1, 20.2, 20.15], [20.4, 20.5, 20.6])
    >>> round(g.estimate, 2), round(g.ci_low, 2), round(g.ci_high, 2)
    (-3.18, -5.85, -0.5)
    """
    check_alternative(alternative)
    check_confidence(confidence)
    if convention not in get_args(Convention):
        known = ", ".join(get_args(Convention))
        raise ValueError(f"convention must be one of {known}; got {convention!r}.")
    pair = _tested_pair(seed_values(x, "x"), seed_values(y, "y"))
    standardizer, se, df = _scale(pair, convention)
    if df <= 1:
        raise ValueError("Hedges' g needs more than one degree of freedom; run more seeds.")
    correction = _small_sample_correction(df)
    factor = correction if corrected else 1.0
    outside = (1 - confidence) / (2 if alternative == "two-sided" else 1)
    t = pair.difference / se
    low, high = -math.inf, math.inf
    if alternative != "less":
        low = noncentrality_for(t, df, 1 - outside) * factor * se / standardizer
    if alternative != "greater":
        high = noncentrality_for(t, df, outside) * factor * se / standardizer
    return EffectSize(
        estimate=factor * pair.difference / standardizer,
        ci_low=low,
        ci_high=high,
        standardizer=math.ldexp(standardizer, pair.exponent),
        df=df,
        correction=correction,
    )


def bonett_d(x: ArrayLike, y: ArrayLike, confidence: float = 0.95) -> EffectSize:
    """Return Cohen's d over the average variance, with Bonett's normal interval.

    Raises NoTestError for degenerate data. Source: D. G. Bonett, "Confidence Intervals for
    Standardized Linear Contrasts of Means", 2008, https://doi.org/10.1037/1082-989X.13.2.99.

    >>> d = bonett_d([20.1, 20.2, 20.15], [20.4, 20.5, 20.6])
    >>> round(d.estimate, 2), round(d.ci_low, 2), round(d.ci_high, 2)
    (-4.43, -8.51, -0.35)
    """
    check_confidence(confidence)
    pair = _tested_pair(seed_values(x, "x"), seed_values(y, "y"))
    standardizer, _, df = _scale(pair, "delacre")
    d = pair.difference / standardizer
    # Shares of the average variance, so that no fourth power of a deviation is formed.
    shares = [((arm.sd / standardizer) ** 2, arm.n - 1) for arm in (pair.x, pair.y)]
    variance = sum(d**2 * share**2 / (8 * nu) + share / nu for share, nu in shares)
    reach = float(special.ndtri((1 + confidence) / 2)) * math.sqrt(variance)
    return EffectSize(
        estimate=d,
        ci_low=d - reach,
        ci_high=d + reach,
        standardizer=math.ldexp(standardizer, pair.exponent),
        df=df,
        correction=1.0,
    )


def _tested_pair(x: FloatArray, y: FloatArray) -> Pair:
    pair = summarise_pair(x, y)
    require_test(pair.x, pair.y, math.ldexp(pair.difference, pair.exponent))
    return pair


def _scale(pair: Pair, convention: Convention) -> tuple[float, float, float]:
    """Return standardizer, standard error of the difference and degrees of freedom."""
    (n_x, sd_x), (n_y, sd_y) = (pair.x.n, pair.x.sd), (pair.y.n, pair.y.sd)
    if convention == "pooled":
        df = n_x + n_y - 2
        pooled = math.hypot(math.sqrt((n_x - 1) / df) * sd_x, math.sqrt((n_y - 1) / df) * sd_y)
        return pooled, pooled * math.sqrt(1 / n_x + 1 / n_y), float(df)
    average = math.hypot(sd_x, sd_y) / math.sqrt(2)
    se, welch_df = satterthwaite(sd_x, n_x, sd_y, n_y)
    if convention == "welch":
        return average, float(se), float(welch_df)
    share_x, share_y = (sd_x / average) ** 2 / 2, (sd_y / average) ** 2 / 2
    return average, float(se), 1 / (share_x**2 / (n_x - 1) + share_y**2 / (n_y - 1))


def _small_sample_correction(df: float) -> float:
    """Hedges' exact J, gamma(v/2) / (sqrt(v/2) gamma((v-1)/2))."""
    return math.exp(math.lgamma(df / 2) - math.lgamma((df - 1) / 2)) / math.sqrt(df / 2)
