"""The one rule that turns recomputed evidence into a verdict on a published claim."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from .claim import Claim
from .claim_boxes import Recomputed
from .claim_evidence import Evidence, Reading
from .claimed import ClaimedP, claimed_p
from .rounding import Printed

CONSISTENT, INCONSISTENT = "consistent", "inconsistent"
UNDECIDABLE, REFUSED = "undecidable", "refused"
VERDICTS = (CONSISTENT, INCONSISTENT, UNDECIDABLE, REFUSED)
LARGEST_FAMILY = 1_000_000  # beyond this nobody declares; a smaller p survives it all the same

Outcome = Literal["fits", "open", "fails"]
_ANY_P = Recomputed(math.nan, math.nan, math.nan, 0.0, 1.0)


@dataclass(frozen=True)
class Judgement:
    """A verdict with what it rests on.

    ``outcomes`` holds for each reading whether it fits the printed p and the claimed survival;
    ``shown`` is the test to print: the first reading that may fit, with the range over all.
    """

    verdict: str
    outcomes: tuple[tuple[Reading, Outcome, Outcome], ...] = ()
    shown: Recomputed | None = None
    largest_family: int | None = None

    @property
    def fitting(self) -> list[Reading]:
        """Return the readings that are not ruled out."""
        return [reading for reading, *both in self.outcomes if "fails" not in both]


def judge(claim: Claim, found: Evidence) -> Judgement:
    """Return the verdict on a claim.

    Consistent: what is printed lies within what rounding allows, under every reading, and the
    claimed survival holds. Inconsistent: under no reading. Refused: no test exists for such data.
    Undecidable: anything between.
    """
    if found.refusal:
        return Judgement(REFUSED)
    if claim.kind == "percent":
        return Judgement(_percent(claim, found))
    readings = found.readings or (Reading("", "two-sided", _ANY_P),)
    outcomes = tuple(
        (reading, fits_p(claim, reading.recomputed), _survives(claim, found, reading.recomputed))
        for reading in readings
    )
    judged = Judgement(_verdict(claim, found, outcomes), outcomes)
    if not found.readings:
        return replace(judged, largest_family=_largest(alpha_of(claim, found), claim))
    shown = (judged.fitting or list(readings))[0].recomputed
    ranges = [reading.recomputed for reading in readings]
    whole = replace(shown, p_min=min(r.p_min for r in ranges), p_max=max(r.p_max for r in ranges))
    family = largest_family(shown.p, alpha_of(claim, found))
    return replace(judged, shown=whole, largest_family=family)


def alpha_of(claim: Claim, found: Evidence) -> float:
    """Return the level of the claim, by default that of the results folder."""
    return found.alpha if found.alpha is not None else claim.alpha


def fits_p(claim: Claim, recomputed: Recomputed) -> Outcome:
    """Return whether the printed p fits: a number must be reached, a bound must hold throughout."""
    if claim.claimed_p is None:
        return "fits"
    allowed = claimed_p(claim.claimed_p, claim.alpha)
    if not allowed.meets(recomputed.p_min, recomputed.p_max):
        return "fails"
    return "fits" if allowed.exact or allowed.holds(recomputed.p_min, recomputed.p_max) else "open"


def largest_family(p: float, alpha: float) -> int | None:
    """Return the largest family in which p survives Bonferroni, 0 for none.

    >>> largest_family(0.003, 0.05), largest_family(0.05 / 11, 0.05), largest_family(0.2, 0.05)
    (16, 11, 0)
    """
    if math.isnan(p):
        return None
    if p <= alpha / LARGEST_FAMILY:
        return LARGEST_FAMILY
    size = math.floor(alpha / p) + 1
    while size and p > alpha / size:
        size -= 1
    return size


def _largest(alpha: float, claim: Claim) -> int | None:
    """Return the family that a printed p alone survives, taken as it is printed."""
    if claim.claimed_p is None or not (allowed := claimed_p(claim.claimed_p, claim.alpha)).exact:
        return None
    return largest_family((allowed.low + allowed.high) / 2, alpha)


def _survives(claim: Claim, found: Evidence, recomputed: Recomputed) -> Outcome:
    """Return whether the claimed survival fits the p that evidence and printed p leave over."""
    size = claim.family_size or found.family_size
    if claim.claimed_survives is None:
        return "fits"
    if size is None:
        return "open"
    low, high = recomputed.p_min, recomputed.p_max
    if claim.claimed_p is not None and fits_p(claim, recomputed) != "fails":
        allowed = claimed_p(claim.claimed_p, claim.alpha)
        low, high = max(low, allowed.low), min(high, allowed.high)
    share = alpha_of(claim, found) / size
    survives = ClaimedP(0.0, share) if claim.claimed_survives else ClaimedP(share, 1.0, True)
    if not survives.meets(low, high):
        return "fails"
    return "fits" if survives.holds(low, high) else "open"


def _verdict(
    claim: Claim, found: Evidence, outcomes: tuple[tuple[Reading, Outcome, Outcome], ...]
) -> str:
    both = [(p, survival) for _, p, survival in outcomes]
    if found.contradiction or all("fails" in pair for pair in both):
        return INCONSISTENT
    nothing = claim.claimed_p is None and claim.claimed_survives is None
    if nothing or not found.readings or any(pair != ("fits", "fits") for pair in both):
        return UNDECIDABLE
    return CONSISTENT


def _percent(claim: Claim, found: Evidence) -> str:
    """Judge a printed percentage, or the side of the change where none is printed."""
    low, high = found.percent_range
    if math.isnan(low):
        return UNDECIDABLE
    if claim.claimed_percent is not None:
        printed = Printed(claim.claimed_percent)
        reach = printed.half_unit + 1e-9 * max(abs(printed.value), 1.0)
        fits = low - reach <= printed.value <= high + reach
        return CONSISTENT if fits else INCONSISTENT
    if claim.alternative not in ("less", "greater"):
        return UNDECIDABLE
    if (high < 0) if claim.alternative == "less" else (low > 0):
        return CONSISTENT
    wrong = low >= 0 if claim.alternative == "less" else high <= 0
    return INCONSISTENT if wrong else UNDECIDABLE
