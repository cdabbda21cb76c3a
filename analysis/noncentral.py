"""The noncentral t distribution: its tails, and the noncentrality that explains a given t."""

import math

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
    ratio = noncentrality / t
    return float(special.gammaincc(df / 2, df / 2 * ratio * ratio))


def noncentrality_for(t: float, df: float, below: float) -> float:
    """Return the noncentrality under which T falls at or below t with the given probability.

    >>> round(noncentrality_for(0.0, 4.0, 0.025), 6)
    1.959964
    """

    def excess(noncentrality: float) -> float:
        return noncentral_below(t, df, noncentrality) - below

    step = 1.0 + abs(t) / 2
    low, high = t - step, t + step
    while excess(low) < 0:
        step *= 2
        low -= step
    while excess(high) > 0:
        step *= 2
        high += step
    return float(optimize.brentq(excess, low, high, xtol=1e-13, rtol=1e-14))
