"""One arm's values, one per seed: checked and summarised without losing digits."""

import math
from dataclasses import dataclass
from itertools import chain, repeat

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Summary:
    """Count, mean and standard deviation of one arm; the mean is the unrounded sum of two parts."""

    n: int
    mean: float
    mean_rest: float
    sd: float


@dataclass(frozen=True)
class Pair:
    """Two arms, summarised in units of 2**exponent so that their squares stay in range."""

    x: Summary
    y: Summary
    difference: float
    exponent: int


def seed_values(values: ArrayLike, name: str) -> FloatArray:
    """Return the arm's values as a 1-D float64 array, one value per seed.

    Raises ValueError when they are not numbers in one row.
    """
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold numbers, one per seed; {error}.") from None
    if array.ndim != 1:
        raise ValueError(
            f"{name} must be one row of numbers, one per seed; it has shape {array.shape}. "
            "Average inside each seed first."
        )
    return array


def summarise(values: FloatArray) -> Summary:
    """Return count, mean and standard deviation (n - 1), each within one rounding of exact.

    A missing figure is NaN: the mean of no values, the deviation of fewer than two, and
    everything once a value is not finite. Equal values have a deviation of exactly 0.

    >>> summarise(np.array([0.1, 0.1, 0.1])).sd
    0.0
    """
    n = len(values)
    if n == 0 or not np.isfinite(values).all():
        return Summary(n, math.nan, math.nan, math.nan)
    mean = math.fsum(values) / n
    # The sum of x - mean is exact in fsum, so mean + mean_rest has twice the digits of a double.
    mean_rest = math.fsum(chain(values, repeat(-mean, n))) / n
    if n == 1:
        return Summary(n, mean, mean_rest, math.nan)
    if values.max() == values.min():
        return Summary(n, mean, mean_rest, 0.0)
    spread = math.hypot(*(values - mean - mean_rest))
    return Summary(n, mean, mean_rest, spread / math.sqrt(n - 1))


def summarise_pair(x: FloatArray, y: FloatArray) -> Pair:
    """Return both summaries in units of 2**exponent, with the difference of the means.

    A power of two changes no digit, and keeps squares of 1e200 or 1e-200 inside doubles.

    >>> pair = summarise_pair(np.array([1e200, 3e200]), np.array([4e200, 4e200]))
    >>> float(np.ldexp(pair.difference, pair.exponent))
    -2e+200
    """
    largest = max(float(np.max(np.abs(arm), initial=0.0)) for arm in (x, y))
    exponent = math.frexp(largest)[1] if math.isfinite(largest) else 0
    arm_x, arm_y = summarise(np.ldexp(x, -exponent)), summarise(np.ldexp(y, -exponent))
    difference = (arm_x.mean - arm_y.mean) + (arm_x.mean_rest - arm_y.mean_rest)
    return Pair(arm_x, arm_y, difference, exponent)
