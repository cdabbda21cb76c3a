"""What printed figures leave open: the range of p over everything that rounds to them."""

import math
from dataclasses import dataclass

import numpy as np

from .arms import FloatArray
from .spread import SpreadKind, sd_from_spread
from .student import Alternative, check_alternative
from .welch import welch_many

# Ends, middles and eighths of every printed figure's half unit are among the points tried.
_POINTS = 65


@dataclass(frozen=True)
class Printed:
    """A figure as it was printed, such as '20.10', and half the unit of its last digit."""

    text: str

    @property
    def value(self) -> float:
        """The number itself."""
        return float(self.text)

    @property
    def half_unit(self) -> float:
        """Half the unit of the last printed digit.

        >>> Printed("20.10").half_unit, Printed("2201").half_unit, Printed("1.5e-3").half_unit
        (0.005, 0.5, 5e-05)
        """
        mantissa, _, exponent = self.text.strip().lower().partition("e")
        decimals = len(mantissa.partition(".")[2])
        return 5.0 * 10.0 ** (int(exponent or 0) - decimals - 1)


@dataclass(frozen=True)
class PRange:
    """Smallest and largest p that printed figures allow."""

    p_min: float
    p_max: float


def rounding_range(
    mean_x: str,
    spread_x: str,
    n_x: int,
    mean_y: str,
    spread_y: str,
    n_y: int,
    spread_kind: SpreadKind = "sd",
    alternative: Alternative = "less",
) -> PRange:
    """Return the range of Welch's p over means and spreads that round to the printed ones.

    Figures are given as printed, since '20.10' says more than '20.1'; a spread goes down to 0.
    Raises ValueError for figures that are no numbers, or fewer than two runs an arm.

    >>> bounds = rounding_range("20.1", "0.1", 3, "20.5", "0.1", 3, alternative="two-sided")
    >>> round(bounds.p_min, 5), round(bounds.p_max, 3)
    (0.00026, 0.07)
    """
    check_alternative(alternative)
    if min(n_x, n_y) < 2:
        raise ValueError(f"Welch's test needs two runs per arm; got {n_x} and {n_y}.")
    means = [_printed(mean_x), _printed(mean_y)]
    centre = means[0].value - means[1].value
    reach = means[0].half_unit + means[1].half_unit
    # p is monotone in the difference, or in its magnitude: the ends and the nearest to 0 suffice.
    differences = np.array(
        [centre - reach, min(max(0.0, centre - reach), centre + reach), centre + reach]
    )
    sd_x = sd_from_spread(_spread_points(spread_x), n_x, spread_kind)
    sd_y = sd_from_spread(_spread_points(spread_y), n_y, spread_kind)
    p = _p_over_box(differences, sd_x, n_x, sd_y, n_y, alternative)
    return PRange(float(p.min()), float(p.max()))


def _printed(text: str) -> Printed:
    try:
        printed = Printed(text)
        finite = math.isfinite(printed.value + printed.half_unit)
    except (ValueError, AttributeError):
        finite = False
    if not finite:
        raise ValueError(f"A printed figure must be text that is a number; got {text!r}.")
    return printed


def _spread_points(text: str) -> FloatArray:
    spread = _printed(text)
    if spread.value < 0:
        raise ValueError(f"A spread cannot be negative; got {text}.")
    low = max(spread.value - spread.half_unit, 0.0)
    return np.linspace(low, spread.value + spread.half_unit, _POINTS)


def _p_over_box(
    differences: FloatArray,
    sd_x: FloatArray,
    n_x: int,
    sd_y: FloatArray,
    n_y: int,
    alternative: Alternative,
) -> FloatArray:
    columns = welch_many(
        differences[:, None, None], sd_x[:, None], n_x, 0.0, sd_y, n_y, alternative
    )
    # Two spreads of 0 leave no test; their limit is a p of 0 or 1 by the side of the difference.
    towards = {"less": -differences, "greater": differences, "two-sided": abs(differences)}
    limit = np.where(towards[alternative] > 0, 0.0, 1.0)[:, None, None]
    return np.where(np.isnan(columns.p), limit, columns.p)
