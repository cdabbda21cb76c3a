"""Sums of doubles compared without rounding, so that a tie is a tie."""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from .arms import FloatArray


def integers(values: FloatArray) -> NDArray[np.object_]:
    """Return the doubles times their least common power of two, as exact Python integers.

    >>> integers(np.array([0.5, 1.25])).tolist()
    [2, 5]
    """
    fractions = [Fraction(float(value)) for value in values]
    scale = max((fraction.denominator for fraction in fractions), default=1)
    exact = np.empty(len(fractions), dtype=np.object_)
    exact[:] = [int(fraction * scale) for fraction in fractions]
    return exact


def centred(exact: NDArray[np.object_]) -> FloatArray:
    """Return integers as doubles, centred and divided by their largest magnitude.

    >>> centred(integers(np.array([1e300, 3e300]))).tolist()
    [-1.0, 1.0]
    """
    count = len(exact)
    total = sum(exact)
    shifted = [int(value) * count - int(total) for value in exact]
    largest = max((abs(value) for value in shifted), default=0) or 1
    return np.array([value / largest for value in shifted], dtype=np.float64)
