"""Data that admit no test: which they are, and the error that says so."""

import math
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .arms import Summary

# A standard error below this many units in the last place of the means is rounding noise.
RESOLUTION = 10 * np.finfo(np.float64).eps


class Reason(StrEnum):
    """Why a comparison has no test."""

    NO_DATA = "no_data"
    NON_FINITE = "non_finite"
    ONE_RUN = "one_run"
    BOTH_CONSTANT = "both_constant"
    CONSTANT_DIFFERENCE = "constant_difference"


_SENTENCES = {
    Reason.NO_DATA: "An arm has no values; a Welch test needs at least two runs per arm.",
    Reason.NON_FINITE: (
        "An arm holds a value that is not finite; a failed or diverged run has to be settled "
        "by the declared policy before the test."
    ),
    Reason.ONE_RUN: (
        "An arm has one value and so no spread; run more seeds, or compare the one run with "
        "many by Crawford-Howell, as exploration."
    ),
    Reason.BOTH_CONSTANT: (
        "The spread of both arms together is zero to double precision, so no p value exists; "
        "check that the seed was applied, and report the difference alone."
    ),
    Reason.CONSTANT_DIFFERENCE: (
        "The paired differences are equal to double precision, so no p value exists; check that "
        "the two arms are not one run copied, and report the difference alone."
    ),
}


class NoTestError(ValueError):
    """Degenerate data: `reason` says which, `difference` holds what can still be reported."""

    def __init__(self, reason: Reason, difference: float = math.nan) -> None:
        super().__init__(_SENTENCES[reason])
        self.reason = reason
        self.difference = difference


def reasons(
    mean_x: ArrayLike,
    sd_x: ArrayLike,
    n_x: ArrayLike,
    mean_y: ArrayLike,
    sd_y: ArrayLike,
    n_y: ArrayLike,
) -> NDArray[np.str_]:
    """Return for each pair of arms why no test exists, or an empty text where one does.

    >>> reasons([1.0, 1.0], 0.1, [3, 1], 2.0, 0.1, 3).tolist()
    ['', 'one_run']
    """
    mean_x, sd_x, n_x, mean_y, sd_y, n_y = np.broadcast_arrays(
        *(np.asarray(value, np.float64) for value in (mean_x, sd_x, n_x, mean_y, sd_y, n_y))
    )
    fewest = np.minimum(n_x, n_y)
    means_finite = np.isfinite(mean_x) & np.isfinite(mean_y)
    sds_finite = np.isfinite(sd_x) & np.isfinite(sd_y)
    with np.errstate(invalid="ignore", divide="ignore"):
        se = np.hypot(sd_x / np.sqrt(n_x), sd_y / np.sqrt(n_y))
        resolution = RESOLUTION * np.maximum(np.abs(mean_x), np.abs(mean_y))
        constant = ((sd_x == 0) & (sd_y == 0)) | (se < resolution)
    return np.select(
        [fewest < 1, ~means_finite, fewest < 2, ~sds_finite, constant],
        [
            Reason.NO_DATA,
            Reason.NON_FINITE,
            Reason.ONE_RUN,
            Reason.NON_FINITE,
            Reason.BOTH_CONSTANT,
        ],
        default="",
    )


def require_test(x: Summary, y: Summary, difference: float = math.nan) -> None:
    """Raise NoTestError unless both arms together have a spread that a test can use."""
    reason = str(reasons(x.mean, x.sd, x.n, y.mean, y.sd, y.n))
    if reason:
        raise NoTestError(Reason(reason), difference)
