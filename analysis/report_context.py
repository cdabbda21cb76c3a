"""What a report is told beside its rows: the declared family, the runs and their origin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

Record = Mapping[str, object]


@dataclass(frozen=True, kw_only=True)
class DeclaredComparison:
    """One comparison of the family, as declared; `where` fixes grid axes (columns of runs.csv)."""

    name: str
    treatment: str
    baseline: str
    where: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class FamilyDeclaration:
    """The declared family: what is tested, on which side, at which level, over how many.

    `split` is "" for a table whose values carry no split.
    """

    metric: str
    split: str
    alternative: str
    alpha: float
    correction: str
    family_size: int
    replicate_on: str | None
    failed_runs: str
    comparisons: tuple[DeclaredComparison, ...]

    @property
    def where(self) -> dict[str, Mapping[str, object]]:
        """Return the grid axes that each comparison fixes, by its name."""
        return {comparison.name: comparison.where for comparison in self.comparisons}

    @property
    def splits(self) -> tuple[str, ...]:
        """Return the declared split and, when there is one, the held-out split."""
        return (self.split, *([self.replicate_on] if self.replicate_on else []))


@dataclass(frozen=True, kw_only=True)
class ReportContext:
    """What a report says beside its rows: the declaration, its hashes, the runs and their origin.

    `run_counts` maps a status (done, diverged, failed, missing) to a number of runs;
    `flag_explanations` maps a flag to a sentence that ends in what it does to the verdict;
    `curves`, when given, has the columns run_id, arm, seed, step, tokens, split, metric, value,
    `diagnostics` those of diagnostics.columns, and `costs` those of cost.from_records;
    `pooled` are rows of secondary evidence over grid cells, which decide nothing.
    """

    study: str
    question: str
    family: FamilyDeclaration
    study_sha256: str
    family_sha256: str
    version: str
    run_counts: Mapping[str, int]
    flag_explanations: Mapping[str, str]
    amendments: Sequence[Record] = ()
    provenance: Sequence[Record] = ()
    notices: Sequence[str] = ()
    pooled: Sequence[Record] = ()
    curves: pd.DataFrame | None = None
    diagnostics: pd.DataFrame | None = None
    costs: pd.DataFrame | None = None
