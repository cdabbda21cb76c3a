"""Power of Welch's test, seeds needed, and the smallest difference a design can detect."""

import math

import numpy as np
from scipy import optimize, special

from .noncentral import noncentral_above, noncentral_below
from .student import Alternative, check_alternative, quantile, satterthwaite

MOST_SEEDS = 1_000_000
_NODES = 64


def power(
    delta: float,
    sd_x: float,
    n_x: int,
    sd_y: float | None = None,
    n_y: int | None = None,
    alpha: float = 0.05,
    alternative: Alternative = "less",
) -> float:
    """Return the probability that Welch's test finds a true difference of delta.

    delta is positive on the alternative's side; the deviations are those of the populations.
    sd_y and n_y default to x's. The formula fixes the degrees of freedom that the test has to
    estimate: at three seeds and a small alpha it promises too much, see `exact_power`. Raises
    ValueError for a deviation that is not positive, fewer than two runs or an alpha outside
    (0, 1).
    Source: noncentral t at the Welch-Satterthwaite degrees of freedom; S.-L. Jan and G. Shieh,
    "Optimal Sample Sizes for Welch's Test under Various Allocation and Cost Considerations",
    2011, https://doi.org/10.3758/s13428-011-0095-7.

    >>> round(power(delta=0.3, sd_x=0.1, n_x=3), 4)
    0.9098
    """
    se, df, critical = _design(sd_x, n_x, sd_y, n_y, alpha, alternative)
    return _power(delta / se, df, critical, alternative)


def exact_power(
    delta: float,
    sd_x: float,
    n_x: int,
    sd_y: float | None = None,
    n_y: int | None = None,
    alpha: float = 0.05,
    alternative: Alternative = "less",
) -> float:
    """Return the same probability for normal seeds without approximation.

    Given the share U of the first arm in the scaled variances, which is a beta variable, t is
    a multiple of a noncentral t with n_x + n_y - 2 degrees of freedom; U is integrated out. A
    delta of 0 gives the test's true error rate. Raises ValueError as `power` does.
    Source: A. F. S. Lee and J. Gurland, "Size and Power of Tests for Equality of Means of Two
    Normal Populations with Unequal Variances", 1975, Journal of the American Statistical
    Association 70, 933-941.

    >>> round(exact_power(delta=0.4, sd_x=0.1, n_x=3, alpha=0.05 / 8), 3)
    0.493
    >>> round(power(delta=0.4, sd_x=0.1, n_x=3, alpha=0.05 / 8), 3)
    0.692
    """
    sd_y, n_y = sd_x if sd_y is None else sd_y, n_x if n_y is None else n_y
    se, _, _ = _design(sd_x, n_x, sd_y, n_y, alpha, alternative)
    nu_x, nu_y = n_x - 1, n_y - 1
    nodes, weights = special.roots_jacobi(_NODES, nu_y / 2 - 1, nu_x / 2 - 1)
    share = (1 + nodes) / 2
    # Standard deviations as they come out when U = share and all other chance is at its mean.
    seen_x = sd_x * np.sqrt(share * (nu_x + nu_y) / nu_x)
    seen_y = sd_y * np.sqrt((1 - share) * (nu_x + nu_y) / nu_y)
    seen_se, df = satterthwaite(seen_x, n_x, seen_y, n_y)
    tail = alpha / 2 if alternative == "two-sided" else alpha
    critical = -quantile(tail, df) * seen_se / se
    given = [_power(delta / se, nu_x + nu_y, float(bound), alternative) for bound in critical]
    return float(weights @ given / weights.sum())


def seeds_needed(
    delta: float,
    sd_x: float,
    sd_y: float | None = None,
    target_power: float = 0.8,
    alpha: float = 0.05,
    alternative: Alternative = "less",
) -> int:
    """Return the smallest number of seeds per arm, at least 2, that reaches the target power.

    Raises ValueError when delta is not positive, or a million seeds do not reach the target.

    >>> seeds_needed(delta=0.2, sd_x=0.1)
    4
    """
    _check_target(target_power, alpha)
    if not delta > 0:
        raise ValueError(f"delta must be positive, towards the alternative; got {delta}.")

    def reaches(n: int) -> bool:
        return power(delta, sd_x, n, sd_y, n, alpha, alternative) >= target_power

    high = 2
    while not reaches(high):
        if high >= MOST_SEEDS:
            raise ValueError(
                f"{MOST_SEEDS} seeds per arm do not reach a power of {target_power}; "
                f"delta is {delta} against a deviation of {sd_x}."
            )
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reaches(middle) else (middle, high)
    return max(high, 2)


def minimum_detectable(
    sd_x: float,
    n_x: int,
    sd_y: float | None = None,
    n_y: int | None = None,
    target_power: float = 0.8,
    alpha: float = 0.05,
    alternative: Alternative = "less",
) -> float:
    """Return the smallest true difference that the design finds with the target power.

    Raises ValueError as `power` does, and for a target at or below alpha.

    >>> round(minimum_detectable(sd_x=0.1, n_x=5), 4)
    0.1725
    """
    _check_target(target_power, alpha)
    se, df, critical = _design(sd_x, n_x, sd_y, n_y, alpha, alternative)
    return se * _detected_shift(df, critical, target_power, alternative)


def minimum_detectable_paired(
    sd_difference: float,
    n: int,
    target_power: float = 0.8,
    alpha: float = 0.05,
    alternative: Alternative = "less",
) -> float:
    """Return the smallest true difference that a paired t test on `n` seeds finds.

    `sd_difference` is the deviation of the differences within a seed. Raises ValueError as
    `minimum_detectable` does.

    >>> round(minimum_detectable_paired(sd_difference=0.1, n=5), 4)
    0.1359
    """
    _check_target(target_power, alpha)
    _check_test(alpha, alternative)
    if not 0 < sd_difference < math.inf:
        raise ValueError(f"The deviation must be a positive number; got {sd_difference}.")
    if n < 2:
        raise ValueError(f"A paired test needs two seeds; got {n}.")
    df = float(n - 1)
    critical = _critical(df, alpha, alternative)
    shift = _detected_shift(df, critical, target_power, alternative)
    return sd_difference / math.sqrt(n) * shift


def _power(shift: float, df: float, critical: float, alternative: Alternative) -> float:
    """Power when the true difference is `shift` standard errors."""
    towards = noncentral_above(critical, df, shift)
    if alternative != "two-sided":
        return towards
    return towards + noncentral_below(-critical, df, shift)


def _design(
    sd_x: float,
    n_x: int,
    sd_y: float | None,
    n_y: int | None,
    alpha: float,
    alternative: Alternative,
) -> tuple[float, float, float]:
    """Return the standard error, degrees of freedom and critical t of a design."""
    _check_test(alpha, alternative)
    sd_y, n_y = sd_x if sd_y is None else sd_y, n_x if n_y is None else n_y
    if not (min(sd_x, sd_y) >= 0 and 0 < max(sd_x, sd_y) < math.inf):
        raise ValueError(f"The deviations must be positive numbers; got {sd_x} and {sd_y}.")
    if min(n_x, n_y) < 2:
        raise ValueError(f"Welch's test needs two runs per arm; got {n_x} and {n_y}.")
    se, df = satterthwaite(sd_x, n_x, sd_y, n_y)
    return float(se), float(df), _critical(float(df), alpha, alternative)


def _critical(df: float, alpha: float, alternative: Alternative) -> float:
    """Return the t beyond which a test rejects, on its own side."""
    return -float(quantile(alpha / 2 if alternative == "two-sided" else alpha, df))


def _check_test(alpha: float, alternative: Alternative) -> None:
    check_alternative(alternative)
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must lie between 0 and 1, such as 0.05; got {alpha}.")


def _detected_shift(
    df: float, critical: float, target_power: float, alternative: Alternative
) -> float:
    """Return the true difference, in standard errors, that is found with the target power."""

    def missing(shift: float) -> float:
        return target_power - _power(shift, df, critical, alternative)

    high = 1.0
    while missing(high) > 0:
        high *= 2
    return float(optimize.brentq(missing, 0.0, high, xtol=1e-13, rtol=1e-14))


def _check_target(target_power: float, alpha: float) -> None:
    if not alpha < target_power < 1:
        raise ValueError(
            f"The target power must lie between alpha ({alpha}) and 1; got {target_power}."
        )
