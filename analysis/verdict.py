"""The one rule that turns a comparison's row into a verdict, and what every flag does to it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Effect = Literal["refuses", "incomplete", "blocks", "notes"]

SUPPORTED = "supported"
SUGGESTIVE = "suggestive"
NOT_SUPPORTED = "not supported"
EQUIVALENT = "equivalent"
INCOMPLETE = "incomplete"
REFUSED = "refused"

_CONSEQUENCE = {
    "refuses": "The comparison is refused.",
    "incomplete": "The comparison is incomplete.",
    "blocks": "The comparison cannot be supported; at best it is suggestive.",
    "notes": "The verdict is not changed.",
}


@dataclass(frozen=True)
class Flag:
    """A circumstance of a comparison: what it does to the verdict, and why."""

    effect: Effect
    cause: str

    @property
    def sentence(self) -> str:
        """Return the cause and its consequence, for people."""
        return f"{self.cause} {_CONSEQUENCE[self.effect]}"


FLAGS = {
    "no_data": Flag("refuses", "An arm has no value of this metric and split."),
    "one_run": Flag("refuses", "An arm has a single run, and one run has no spread."),
    "non_finite": Flag("refuses", "An arm holds a value that is not finite."),
    "both_constant": Flag(
        "refuses",
        "The values of both arms do not vary beyond the resolution of the numbers, so no test "
        "exists; a seed that was not applied is the usual cause.",
    ),
    "constant_difference": Flag(
        "refuses",
        "The paired differences do not vary beyond the resolution of the numbers, so no test "
        "exists.",
    ),
    "mixed_budget": Flag("refuses", "The runs of one arm were not trained for the same tokens."),
    "mixed_text": Flag(
        "refuses", "The runs were not scored on the same text, cut into the same tokens."
    ),
    "runs_missing": Flag("incomplete", "Declared runs are missing."),
    "runs_failed": Flag("incomplete", "Declared runs failed."),
    "runs_diverged": Flag("incomplete", "Declared runs diverged and have no value."),
    "constant_arm": Flag(
        "blocks",
        "The values of one arm are all equal; a copied run, rounding or a seed that was not "
        "applied is the usual cause.",
    ),
    "two_runs": Flag("blocks", "An arm has two runs, too few for more than a description."),
    "seeds_undeclared": Flag(
        "blocks",
        "The study file declares no seeds, so nothing shows that their number was fixed before "
        "the results were seen.",
    ),
    "optional_stopping": Flag(
        "blocks", "Seeds were added or removed after the study was frozen (type I error grows)."
    ),
    "side_changed": Flag("blocks", "The side of the test was changed after the study was frozen."),
    "family_amended": Flag(
        "blocks", "The comparison or its rule was declared or changed after the study was frozen."
    ),
    "seeds_deleted": Flag(
        "notes",
        "By the declared policy a seed without a value was left out of both arms, so the "
        "comparison speaks of runs that finish.",
    ),
    "undeclared_runs": Flag(
        "notes", "The table holds runs of seeds that were not declared; they are left out."
    ),
    "equal_values": Flag(
        "notes", "Two runs of an arm agree to the last digit (rounding, or a copied run)."
    ),
    "identical_arms": Flag("notes", "Both arms hold the same values (a copied file?)."),
    "noisy_small_arm": Flag(
        "notes",
        "The arm with fewer runs has more than twice the other's spread, where the Welch test "
        "errs more often than alpha says.",
    ),
    "heavy_divergence": Flag("notes", "More than a tenth of the declared runs diverged or failed."),
    "declared_constant": Flag(
        "notes", "The values of one arm are all equal, as the study declares they may be."
    ),
    "look_pending": Flag(
        "incomplete", "No look of the declared sequential plan has rejected, and looks remain."
    ),
    "interim_look": Flag(
        "notes", "Judged at an interim look of the declared plan, against that look's own level."
    ),
    "unequal_seeds": Flag(
        "refuses", "A paired test was declared, but the two arms were not run on the same seeds."
    ),
    "exploratory": Flag(
        "blocks", "This metric or split is not the one that the family was declared for."
    ),
    "rests_on_normality": Flag(
        "notes",
        "With so few runs no exact permutation test can reach the corrected level; the result "
        "rests on the assumption that seeds vary normally.",
    ),
    "unequal_budget": Flag("notes", "The two arms were trained for different numbers of tokens."),
    "different_batches": Flag(
        "notes", "The arms of a seed did not see the same batches in the same order."
    ),
    "mixed_code": Flag("notes", "The runs were made by different versions of the code."),
    "mixed_hardware": Flag("notes", "The runs were made on different hardware or threads."),
}


def verdict(
    *, survives: bool, p: float, alpha: float, flags: Iterable[str], equivalent: bool = False
) -> str:
    """Return the verdict of one comparison.

    ``survives`` says whether p passes the declared correction and ``p`` is the test's own, NaN
    where there is none; ``equivalent`` whether two one-sided tests placed the difference inside a
    declared margin.

    >>> verdict(survives=True, p=0.003, alpha=0.05, flags=[])
    'supported'
    >>> verdict(survives=False, p=0.03, alpha=0.05, flags=["equal_values"])
    'suggestive'
    >>> verdict(survives=True, p=0.003, alpha=0.05, flags=["optional_stopping"])
    'suggestive'
    >>> verdict(survives=False, p=float("nan"), alpha=0.05, flags=["runs_missing"])
    'incomplete'
    """
    effects = {FLAGS[flag].effect for flag in flags}
    if "refuses" in effects:
        return REFUSED
    if "incomplete" in effects:
        return INCOMPLETE
    if survives and "blocks" not in effects:
        return SUPPORTED
    if p <= alpha:
        return SUGGESTIVE
    return EQUIVALENT if equivalent and "blocks" not in effects else NOT_SUPPORTED
