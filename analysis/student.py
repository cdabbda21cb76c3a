"""Student's t with fractional degrees of freedom: tails, their logarithms, quantiles."""

from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from .arms import FloatArray

Alternative = Literal["less", "greater", "two-sided"]

# Below this a tail is close enough to underflow that its logarithm needs the continued fraction.
_SMALLEST_SAFE_TAIL = 1e-280
_FRACTION_LEVELS = 30


def check_alternative(alternative: str) -> None:
    """Raise ValueError unless the side is 'less', 'greater' or 'two-sided'."""
    if alternative not in get_args(Alternative):
        raise ValueError(
            f"alternative must be 'less', 'greater' or 'two-sided'; got {alternative!r}."
        )


def check_confidence(confidence: ArrayLike) -> None:
    """Raise ValueError unless every confidence level lies strictly between 0 and 1."""
    levels = np.asarray(confidence, dtype=np.float64)
    if not ((levels > 0) & (levels < 1)).all():
        raise ValueError(f"confidence must lie between 0 and 1, such as 0.95; got {confidence!r}.")


def satterthwaite(
    sd_x: ArrayLike, n_x: ArrayLike, sd_y: ArrayLike, n_y: ArrayLike
) -> tuple[FloatArray, FloatArray]:
    """Return the standard error of a difference of means and its degrees of freedom.

    Counts must be 2 or more; where both deviations are 0 the degrees of freedom are NaN.
    Source: F. E. Satterthwaite, "An Approximate Distribution of Estimates of Variance
    Components", 1946, https://doi.org/10.2307/3002019.

    >>> se, df = satterthwaite(1.0, 5, 1.0, 5)
    >>> float(df)
    8.0
    """
    nu_x = np.asarray(n_x, dtype=np.float64) - 1
    nu_y = np.asarray(n_y, dtype=np.float64) - 1
    se_x = np.asarray(sd_x, dtype=np.float64) / np.sqrt(nu_x + 1)
    se_y = np.asarray(sd_y, dtype=np.float64) / np.sqrt(nu_y + 1)
    se = np.hypot(se_x, se_y)
    with np.errstate(invalid="ignore", divide="ignore"):
        # Shares of the variance, not variances: se**4 leaves the range of doubles at 1e77.
        share_x, share_y = (se_x / se) ** 2, (se_y / se) ** 2
        df = 1 / (share_x**2 / nu_x + share_y**2 / nu_y)
    return se, np.clip(df, np.minimum(nu_x, nu_y), nu_x + nu_y)


def p_value(t: ArrayLike, df: ArrayLike, alternative: Alternative) -> FloatArray:
    """Return the probability of a t at least as far on the alternative's side.

    >>> float(p_value(-2.0, 4.0, "less").round(4))
    0.0581
    """
    t, df = np.broadcast_arrays(np.asarray(t, np.float64), np.asarray(df, np.float64))
    if alternative == "two-sided":
        return np.asarray(np.minimum(2 * _lower_tail(-np.abs(t), df), 1.0))
    return _lower_tail(t if alternative == "less" else -t, df)


def log10_p_value(t: ArrayLike, df: ArrayLike, alternative: Alternative) -> FloatArray:
    """Return log10 of `p_value`, finite where p itself underflows to 0.

    >>> float(log10_p_value(-244.643360966, 798, "two-sided").round(3))
    -751.992
    """
    t, df = np.broadcast_arrays(np.asarray(t, np.float64), np.asarray(df, np.float64))
    p = p_value(t, df, alternative)
    with np.errstate(divide="ignore"):
        log_p = np.asarray(np.log(p))
    large = p > 0.5
    if large.any():  # through 1 - p, which keeps the digits of a p that is nearly 1
        log_p[large] = np.log1p(-_complement(t[large], df[large], alternative))
    tiny = p < _SMALLEST_SAFE_TAIL
    if tiny.any():
        sides = 2.0 if alternative == "two-sided" else 1.0
        log_p[tiny] = np.log(sides) + _log_tail(np.abs(t[tiny]), df[tiny])
    return np.asarray(log_p / np.log(10.0))


def quantile(probability: ArrayLike, df: ArrayLike) -> FloatArray:
    """Return the value that t stays below with the given probability.

    >>> float(quantile(0.975, 4.0).round(4))
    2.7764
    """
    probability = np.asarray(probability, dtype=np.float64)
    return np.asarray(special.stdtrit(np.asarray(df, dtype=np.float64), probability))


def _lower_tail(t: FloatArray, df: FloatArray) -> FloatArray:
    """P(T < t), down to the smallest subnormal."""
    tail = np.asarray(special.stdtr(df, t))
    tiny = tail < _SMALLEST_SAFE_TAIL
    if tiny.any():
        tail[tiny] = np.exp(_log_tail(np.abs(t[tiny]), df[tiny]))
    return tail


def _complement(t: FloatArray, df: FloatArray, alternative: Alternative) -> FloatArray:
    """1 - p, accurate where it is small."""
    if alternative != "two-sided":
        return _lower_tail(-t if alternative == "less" else t, df)
    square = np.square(t)
    return np.asarray(special.betainc(0.5, df / 2, square / (df + square)))


def _log_tail(t: FloatArray, df: FloatArray) -> FloatArray:
    """Natural log of P(T > t) for large t.

    P(T > t) = I_z(a, 1/2) / 2 with a = df/2 and z = df / (df + t^2), and
    I_z(a, 1/2) = z^a (1 - z)^(-1/2) F(1, 1/2; a + 1; -df/t^2) / (a B(a, 1/2)).
    Source: DLMF 8.17.8 and 15.8.1, https://dlmf.nist.gov/8.17.
    """
    a, w = df / 2, df / np.square(t)
    log_z = -np.log1p(1 / w)
    log_scale = a * log_z + np.log1p(w) / 2 - np.log(a) - special.betaln(a, 0.5)
    return np.asarray(log_scale - np.log(2.0) + np.log(_gauss_fraction(a + 1, w)))


def _gauss_fraction(c: FloatArray, w: FloatArray) -> FloatArray:
    """F(1, 1/2; c; -w) by Gauss's continued fraction, https://dlmf.nist.gov/15.7."""
    value = np.ones_like(w)
    for m in range(_FRACTION_LEVELS, 0, -1):
        even = m * (c - 1.5 + m) / ((c + 2 * m - 2) * (c + 2 * m - 1))
        odd = (m - 0.5) * (c + m - 2) / ((c + 2 * m - 3) * (c + 2 * m - 2))
        value = 1 + odd * w / (1 + even * w / value)
    return 1 / value
