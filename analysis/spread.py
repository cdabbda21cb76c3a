"""What stands after the +/- sign: five kinds of spread, and the standard deviation behind them."""

from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from .arms import FloatArray
from .student import quantile

SpreadKind = Literal["sd", "se", "sd0", "ci95_t", "ci95_z"]


def sd_from_spread(spread: ArrayLike, n: ArrayLike, spread_kind: SpreadKind) -> FloatArray:
    """Convert a printed spread of n runs to the standard deviation with divisor n - 1.

    NaN where n is below 2. Raises ValueError for a negative spread or an unknown kind.

    >>> sd_from_spread([0.04], [3], "se").round(4)
    array([0.0693])
    """
    spread = np.asarray(spread, dtype=np.float64)
    n = np.asarray(n, dtype=np.float64)
    if spread_kind not in get_args(SpreadKind):
        known = ", ".join(get_args(SpreadKind))
        raise ValueError(f"spread_kind must be one of {known}; got {spread_kind!r}.")
    if (spread < 0).any():
        raise ValueError(f"A spread cannot be negative; got {spread.min()}.")
    n = np.where(n < 2, np.nan, n)
    sd = {
        "sd": spread + 0 * n,
        "se": spread * np.sqrt(n),
        "sd0": spread * np.sqrt(n / (n - 1)),
        "ci95_t": spread * np.sqrt(n) / quantile(0.975, n - 1),
        "ci95_z": spread * np.sqrt(n) / special.ndtri(0.975),
    }[spread_kind]
    return np.asarray(sd)
