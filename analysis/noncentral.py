"""The noncentral t distribution: its tails, and the noncentrality that explains a given t."""

import math
from collections.abc import Callable

from scipy import optimize, special

# From here on the limit below has more digits than the library's series.
_LARGE_NONCENTRALITY = 1e4


def noncentral_below(t: float, df: float, noncentrality: float) -> float:
    """Return P(T <= t) for T = (Z + noncentrality) / sqrt(chi2 / df).

    >>> round(noncentral_below(2.0, 4.0, 1.0), 4)
    0.7646
    """
    if abs(noncentrality) < _LARGE_NONCENTRALITY:
        value = float(special.nctdtr(df, noncentrality, t))
        # The series gives NaN where the probability is 0 or 1 to 16 digits; the limit says which.
        if not math.isnan(value):
            return value
    return _without_noise(t, df, noncentrality)


def noncentral_above(t: float, df: float, noncentrality: float) -> float:
    """Return P(T > t), accurate where it is small.

    >>> round(noncentral_above(2.0, 4.0, 1.0), 4)
    0.2354
    """
    return noncentral_below(-t, df, -noncentrality)


def _without_noise(t: float, df: float, noncentrality: float) -> float:
    """The limit of large noncentrality, where Z no longer matters."""
    if noncentrality < 0:
        return 1 - _without_noise(-t, df, -noncentrality)
    if t <= 0:
        return 0.0
    return float(special.gammaincc(df / 2, df / 2 * (noncentrality / t) ** 2))


def noncentrality_for(t: float, df: float, below: float) -> float:
    """Return the noncentrality under which T falls at or below t with the given probability.

    >>> round(noncentrality_for(0.0, 4.0, 0.025), 6)
    1.959964
    """
    return decreasing_root(lambda value: noncentral_below(t, df, value) - below, start=t)


def decreasing_root(function: Callable[[float], float], start: float) -> float:
    """Return where a decreasing function crosses zero, searching outwards from the start."""
    step = 1.0 + abs(start) / 2
    low, high = start - step, start + step
    while function(low) < 0:
        step *= 2
        low -= step
    while function(high) > 0:
        step *= 2
        high += step
    return float(optimize.brentq(function, low, high, xtol=1e-13, rtol=1e-14))
