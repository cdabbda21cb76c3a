"""Seeds needed by a pilot, which knows its deviations only roughly."""

import math
from dataclasses import dataclass

from scipy import special

from .power import exact_power, seeds_needed
from .student import Alternative

# Ten runs know a deviation within -31 and +83 % at 95 % confidence; three, within -48 and +528 %.
SMALL_PILOT = 10


@dataclass(frozen=True)
class PilotPlan:
    """Seeds per arm by a pilot's deviations, and by the upper bounds of those deviations.

    `exact_power` is what the first number truly has, were the deviations those of the pilot.
    """

    seeds: int
    exact_power: float
    seeds_cautious: int
    sd_x_upper: float
    sd_y_upper: float
    small_pilot: bool


def plan_from_pilot(
    delta: float,
    sd_x: float,
    n_x: int,
    sd_y: float,
    n_y: int,
    target_power: float = 0.8,
    alpha: float = 0.05,
    alternative: Alternative = "less",
) -> PilotPlan:
    """Return the seeds needed by a pilot of n_x and n_y runs, with the doubt of a small one.

    The cautious count replaces each deviation by its upper 80 % limit.
    Source: R. H. Browne, "On the Use of a Pilot Sample for Sample Size Determination", 1995,
    https://doi.org/10.1002/sim.4780141709.

    >>> plan = plan_from_pilot(delta=0.1, sd_x=0.1, n_x=3, sd_y=0.1, n_y=3)
    >>> plan.seeds, plan.seeds_cautious, plan.small_pilot
    (14, 57, True)
    """
    upper_x, upper_y = upper_sd(sd_x, n_x), upper_sd(sd_y, n_y)
    seeds = seeds_needed(delta, sd_x, sd_y, target_power, alpha, alternative)
    return PilotPlan(
        seeds=seeds,
        exact_power=exact_power(delta, sd_x, seeds, sd_y, seeds, alpha, alternative),
        seeds_cautious=seeds_needed(delta, upper_x, upper_y, target_power, alpha, alternative),
        sd_x_upper=upper_x,
        sd_y_upper=upper_y,
        small_pilot=min(n_x, n_y) < SMALL_PILOT,
    )


def upper_sd(sd: float, n: int, confidence: float = 0.8) -> float:
    """Return the upper confidence limit of a deviation that n normal values showed.

    Raises ValueError for fewer than two values.

    >>> round(upper_sd(0.1, n=6), 4)
    0.1461
    """
    if n < 2:
        raise ValueError(f"A pilot needs at least two runs per arm; got {n}.")
    return sd * math.sqrt((n - 1) / special.chdtri(n - 1, confidence))
