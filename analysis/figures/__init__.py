"""Figures of a report: each draws rows that were computed elsewhere and returns Figures.

The only place that knows matplotlib and seaborn. Figures are objects and not pyplot's: nothing is
left open, and the caller's own plotting state is not touched. More than PAGE rows make more pages.
"""

from .cells import by_distance, gain, grid_map
from .heads import lines, stacks
from .runs import curve_differences, curves, seeds
from .style import PAGE, save
from .verdicts import MARKS, differences, family, p_ladder

__all__ = [
    "MARKS",
    "PAGE",
    "by_distance",
    "curve_differences",
    "curves",
    "differences",
    "family",
    "gain",
    "grid_map",
    "lines",
    "p_ladder",
    "save",
    "seeds",
    "stacks",
]
