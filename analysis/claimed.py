"""A p value as a paper prints it: the numbers that round to it, or that lie below or above it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .rounding import Printed

_FORM = re.compile(
    r"(?:p\s*)?(<=|>=|≤|≥|<|>|=)?\s*(\d*\.\d+(?:e[+-]?\d+)?|\d+e-\d+)", re.IGNORECASE
)


@dataclass(frozen=True)
class ClaimedP:
    """The p values that a printed one allows, from ``low`` to ``high``; an open end is excluded."""

    low: float
    high: float
    low_open: bool = False
    high_open: bool = False

    @property
    def exact(self) -> bool:
        """Return whether a number was printed, rather than a bound."""
        return not (self.low_open or self.high_open) and 0 < self.high < 1

    def meets(self, p_min: float, p_max: float) -> bool:
        """Return whether some p between p_min and p_max is allowed."""
        above = p_max > self.low or (p_max == self.low and not self.low_open)
        below = p_min < self.high or (p_min == self.high and not self.high_open)
        return above and below

    def holds(self, p_min: float, p_max: float) -> bool:
        """Return whether every p between p_min and p_max is allowed."""
        above = p_min > self.low or (p_min == self.low and not self.low_open)
        below = p_max < self.high or (p_max == self.high and not self.high_open)
        return above and below


def claimed_p(text: str, alpha: float = 0.05) -> ClaimedP:
    """Return the p values that a printed p allows; "n.s." says that p is above alpha.

    Raises:
        ValueError: It is no p value: no number between 0 and 1 with decimals, plain or after a
            sign such as <.

    >>> allowed = claimed_p("0.003")
    >>> allowed.low, allowed.high
    (0.0025, 0.0035)
    >>> claimed_p("p < .05").holds(0.01, 0.05)
    False
    """
    if text.strip().lower() in ("ns", "n.s."):
        return ClaimedP(alpha, 1.0, low_open=True)
    found = _FORM.fullmatch(text.strip())
    if found is None:
        raise ValueError(f'{text!r} is no p value; write it as printed, such as "0.003" or "<0.05"')
    printed = Printed(found[2])
    sign = {"≤": "<=", "≥": ">="}.get(found[1], found[1] or "=")
    if printed.value > 1:
        raise ValueError(f"{text!r} is no p value: it is above 1")
    if sign == "=":
        # Half units in decimal, so that 0.0025 is the double that is written 0.0025.
        half = float(f"{printed.half_unit:.1e}")
        low, high = (float(f"{printed.value + change:.15g}") for change in (-half, half))
        return ClaimedP(max(low, 0.0), min(high, 1.0))
    if sign[0] == "<":
        return ClaimedP(0.0, printed.value, high_open=sign == "<")
    return ClaimedP(printed.value, 1.0, low_open=sign == ">")
