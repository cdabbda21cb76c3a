"""One run against many: exploration where a Welch test has no spread to use."""

import math
from dataclasses import dataclass

from numpy.typing import ArrayLike

from .arms import seed_values, summarise
from .degenerate import RESOLUTION, NoTestError, Reason
from .student import Alternative, check_alternative, p_value


@dataclass(frozen=True)
class SingleResult:
    """One run against the mean of many, on the spread of the many."""

    alternative: Alternative
    difference: float
    t: float
    df: float
    p: float


def crawford_howell(one: float, many: ArrayLike, alternative: Alternative = "less") -> SingleResult:
    """Test one run against n runs; it assumes that the one has their variance.

    'less' asks whether the one lies below. Raises NoTestError for degenerate data.
    Source: J. R. Crawford and D. C. Howell, "Comparing an Individual's Test Score Against Norms
    Derived from Small Samples", 1998, https://doi.org/10.1076/clin.12.4.482.7241.

    >>> result = crawford_howell(20.0, [20.4, 20.5, 20.6])
    >>> round(result.t, 3), round(result.p, 4)
    (-4.33, 0.0247)
    """
    check_alternative(alternative)
    summary = summarise(seed_values(many, "many"))
    difference = one - summary.mean
    if summary.n == 0:
        raise NoTestError(Reason.NO_DATA)
    if not math.isfinite(difference):
        raise NoTestError(Reason.NON_FINITE)
    if summary.n == 1:
        raise NoTestError(Reason.ONE_RUN, difference)
    se = summary.sd * math.sqrt(1 + 1 / summary.n)
    if summary.sd == 0 or se < RESOLUTION * max(abs(one), abs(summary.mean)):
        raise NoTestError(Reason.BOTH_CONSTANT, difference)
    t, df = difference / se, summary.n - 1.0
    return SingleResult(alternative, difference, t, df, float(p_value(t, df, alternative)))
