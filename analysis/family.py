"""The analysis plan in a study file: the declared comparisons, and the rule that judges them."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from .section import Name, Positive, Section

POCOCK_FIRST_LOOK = 5


Test = Literal["welch", "paired_t"]


class Comparison(Section):
    """[[family.comparisons]]: treatment against baseline, within the grid cells of ``where``.

    ``test`` is the family's where none is given: two arms may be compared by both tests, and each
    counts as a comparison of its own.
    """

    name: Name
    treatment: str
    baseline: str
    where: dict[str, Any] = Field(default_factory=dict)
    test: Test | None = None

    @model_validator(mode="after")
    def _two_arms(self) -> Self:
        if self.treatment == self.baseline:
            raise ValueError(f"treatment and baseline are both {self.treatment!r}")
        return self


class Looks(Section):
    """[family.looks]: a group-sequential plan, tested at each of these numbers of seeds per arm."""

    seeds: Annotated[list[int], Field(min_length=2)]
    spending: Literal["obrien_fleming", "pocock"] = "obrien_fleming"

    @model_validator(mode="after")
    def _pocock_starts_late(self) -> Self:
        # Simulated at standard deviations in ratio 3 to 10: up to twice alpha at a look of three.
        if self.spending == "pocock" and self.seeds[0] < POCOCK_FIRST_LOOK:
            raise ValueError(
                f"with Pocock's spending the first look must be at {POCOCK_FIRST_LOOK} seeds or "
                "more, since Welch's test exceeds its level with fewer noisy runs; start later, "
                'or take spending = "obrien_fleming"'
            )
        return self

    @field_validator("seeds")
    @classmethod
    def _rising(cls, seeds: list[int]) -> list[int]:
        if seeds[0] < 2 or any(later <= earlier for earlier, later in itertools.pairwise(seeds)):
            raise ValueError(f"the looks must be rising numbers of seeds from 2 on, got {seeds}")
        return seeds


class Family(Section):
    """[family]: the tests that were declared, and the rule that judges them.

    ``test`` is Welch's, or the paired t of arms aligned by seed. ``margin`` is the difference, in
    the metric's unit, within which two arms count as equivalent. ``deterministic`` says that an arm
    may rightly have equal values on all seeds. ``size`` may declare more comparisons than the file
    lists. ``pooled`` names comparisons whose grid cells are also pooled, as secondary evidence.
    """

    comparisons: Annotated[list[Comparison], Field(min_length=1)]
    metric: str = "loss"
    split: str = "valid"
    test: Test = "welch"
    alternative: Literal["less", "greater", "two-sided"] = "less"
    alpha: Annotated[float, Field(gt=0, lt=0.5)] = 0.05
    correction: Literal["bonferroni", "holm", "fixed_sequence", "dunnett"] = "bonferroni"
    replicate_on: str | None = None
    failed_runs: Literal["incomplete", "delete_seed"] = "incomplete"
    size: Positive | None = None
    margin: Annotated[float, Field(gt=0)] | None = None
    deterministic: bool = False
    looks: Looks | None = None
    pooled: list[str] = Field(default_factory=list)

    @model_validator(mode="after")
    def _rules_fit_together(self) -> Self:
        if self.looks is not None and self.correction != "bonferroni":
            raise ValueError("a plan of looks shares alpha by Bonferroni; set that correction")
        baselines = {(c.baseline, repr(c.where)) for c in self.comparisons}
        tests = {c.test or self.test for c in self.comparisons}
        if self.correction == "dunnett" and (len(baselines) > 1 or tests != {"welch"}):
            raise ValueError(
                "Dunnett's correction compares arms with one common baseline, unpaired; declare "
                "one baseline, or correct by bonferroni or holm"
            )
        return self

    @field_validator("comparisons")
    @classmethod
    def _distinct_names(cls, comparisons: list[Comparison]) -> list[Comparison]:
        for name, times in Counter(c.name for c in comparisons).items():
            if times > 1:
                raise ValueError(f"comparison {name!r} is declared {times} times")
        return comparisons
