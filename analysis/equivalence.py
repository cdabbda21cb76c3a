"""Two one-sided tests: is a difference small enough not to matter?"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from .arms import FloatArray, seed_values, summarise_pair
from .degenerate import require_test
from .student import p_value, quantile, satterthwaite


@dataclass(frozen=True)
class EquivalenceResult:
    """Equivalence within the margin: p is the larger of two one-sided ones.

    The interval has confidence 1 - 2 alpha, and lies inside the margin when `equivalent`.
    """

    difference: float
    margin: tuple[float, float]
    p: float
    p_above_low: float
    p_below_high: float
    ci_low: float
    ci_high: float
    equivalent: bool


def tost(
    x: ArrayLike, y: ArrayLike, margin: float | tuple[float, float], alpha: float = 0.05
) -> EquivalenceResult:
    """Test by Welch whether mean(x) - mean(y) lies inside the margin, -margin to margin or a pair.

    The margin must be declared before the data are seen. Raises ValueError for an empty
    margin, NoTestError for degenerate data. Source: D. J. Schuirmann, "A Comparison of the Two
    One-Sided Tests Procedure and the Power Approach", 1987, https://doi.org/10.1007/BF01068419.

    >>> result = tost([3.01, 3.02, 3.00], [3.01, 3.00, 3.02], margin=0.05)
    >>> round(result.p, 4), result.equivalent
    (0.0018, True)
    """
    low, high = _margin(margin)
    if not 0 < alpha < 0.5:
        raise ValueError(f"alpha must lie between 0 and 0.5, such as 0.05; got {alpha}.")
    pair = summarise_pair(seed_values(x, "x"), seed_values(y, "y"))
    unit = math.ldexp(1.0, pair.exponent)
    require_test(pair.x, pair.y, pair.difference * unit)
    se, df = satterthwaite(pair.x.sd, pair.x.n, pair.y.sd, pair.y.n)
    above, below = _two_p(pair.difference, se, df, low / unit, high / unit)
    reach = -quantile(alpha, df) * se
    p = float(np.maximum(above, below))
    return EquivalenceResult(
        difference=pair.difference * unit,
        margin=(low, high),
        p=p,
        p_above_low=float(above),
        p_below_high=float(below),
        ci_low=float(pair.difference - reach) * unit,
        ci_high=float(pair.difference + reach) * unit,
        equivalent=p <= alpha,
    )


def tost_many(
    difference: ArrayLike, se: ArrayLike, df: ArrayLike, low: ArrayLike, high: ArrayLike
) -> FloatArray:
    """Return the equivalence p of many differences at once; the arguments broadcast.

    >>> tost_many([0.0, 0.1], 0.02, 4.0, -0.1, 0.1).round(4)
    array([0.0037, 0.5   ])
    """
    above, below = _two_p(difference, se, df, low, high)
    return np.maximum(above, below)


def _margin(margin: float | tuple[float, float]) -> tuple[float, float]:
    low, high = margin if isinstance(margin, tuple) else (-margin, margin)
    if not (low < high and math.isfinite(low) and math.isfinite(high)):
        raise ValueError(f"The margin must be a positive number or (low, high); got {margin}.")
    return low, high


def _two_p(
    difference: ArrayLike, se: ArrayLike, df: ArrayLike, low: ArrayLike, high: ArrayLike
) -> tuple[FloatArray, FloatArray]:
    difference = np.asarray(difference, dtype=np.float64)
    above = p_value((difference - np.asarray(low)) / np.asarray(se), df, "greater")
    below = p_value((difference - np.asarray(high)) / np.asarray(se), df, "less")
    return above, below
