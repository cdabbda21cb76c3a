"""The values that a declared comparison is entitled to: its arms, its cell, its declared seeds.

Whatever keeps a run's value out of the test is a flag of the comparison, never a silent omission.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .family import Comparison
from .nearest import nearest
from .study import Study
from .tuning import judged

FloatArray = NDArray[np.float64]
HEAVY_DIVERGENCE = 0.1
_OWN = frozenset({"value", "status", "run_id", "source"})


@dataclass(frozen=True)
class Sample:
    """One comparison's values, ordered by seed; ``complete`` arms hold every declared seed."""

    comparison: Comparison
    treatment: FloatArray
    baseline: FloatArray
    seeds_treatment: list[int]
    seeds_baseline: list[int]
    flags: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Arm:
    """One arm in one cell: seed -> value of the finished runs, seed -> status of the others."""

    values: dict[int, float]
    unfinished: dict[int, str]

    def without(self, seeds: set[int]) -> _Arm:
        return _Arm(
            {seed: value for seed, value in self.values.items() if seed not in seeds},
            {seed: status for seed, status in self.unfinished.items() if seed not in seeds},
        )


def samples(
    table: pd.DataFrame, study: Study, metric: str, split: str, first_seeds: int | None = None
) -> list[Sample]:
    """Return the sample of every declared comparison, in the declared order.

    ``first_seeds`` restricts it to so many of the declared seeds, in their order: a look.

    Raises:
        ValueError: The table holds no such metric or split, or an arm that the family names is
            nowhere in it.
    """
    rows = _rows_of(table, metric, split)
    comparisons = study.declared_comparisons()
    _require_arms(table, comparisons)
    arms = dict(_arms(judged(rows, table, study), list(study.crossed)))
    policy = study.family.failed_runs
    declared = study.seeds.tolist() if study.seeds else None
    if declared is not None and first_seeds is not None:
        later = set(declared[first_seeds:])
        declared = declared[:first_seeds]
        arms = {key: arm.without(later) for key, arm in arms.items()}
    return [_sample(comparison, arms, declared, policy) for comparison in comparisons]


def _rows_of(table: pd.DataFrame, metric: str, split: str) -> pd.DataFrame:
    metrics = table["metric"].unique().tolist()
    if metric not in metrics:
        raise ValueError(f"the table has no metric {metric!r}; {nearest(metric, metrics)}")
    rows = table[table["metric"] == metric]
    if "split" not in table:
        return rows
    splits = rows["split"].unique().tolist()
    if split not in splits:
        raise ValueError(f"the metric {metric!r} has no split {split!r}; {nearest(split, splits)}")
    return rows[rows["split"] == split]


def _require_arms(table: pd.DataFrame, comparisons: list[Comparison]) -> None:
    """A declared arm without any row is a misspelt name far more often than a lost arm."""
    known = table["arm"].unique().tolist()
    for comparison in comparisons:
        for arm in (comparison.treatment, comparison.baseline):
            if arm not in known:
                raise ValueError(
                    f"comparison {comparison.name!r}: the table has no run of the arm {arm!r}; "
                    f"{nearest(arm, known)}"
                )


def _arms(rows: pd.DataFrame, axes: list[str]) -> Iterator[tuple[tuple[str, ...], _Arm]]:
    for axis in axes:
        if axis not in rows:
            raise ValueError(f"the table has no column for the grid axis {axis!r}")
    for key, group in rows.groupby(["arm", *axes], sort=False, dropna=False):
        _refuse_second_value(group)
        done = group["status"] == "done"
        finished, others = group[done], group[~done]
        yield (
            tuple(map(str, key)),
            _Arm(
                dict(zip(finished["seed"].tolist(), finished["value"].tolist(), strict=True)),
                dict(zip(others["seed"].tolist(), others["status"].tolist(), strict=True)),
            ),
        )


def _refuse_second_value(group: pd.DataFrame) -> None:
    """One arm, cell and seed has one value; a column that tells two apart is an undeclared axis."""
    again = group[group["seed"].duplicated(keep=False)]
    if len(again):
        seed = again["seed"].iloc[0]
        same = again[again["seed"] == seed]
        differing = [c for c in same.columns if c not in _OWN and same[c].nunique() > 1]
        raise ValueError(
            f"the arm {again['arm'].iloc[0]!r} has {len(same)} values on seed {seed}, which "
            f"differ in {', '.join(differing) or 'nothing'}; declare that as an axis of [grid], "
            "or keep one"
        )


def _sample(
    comparison: Comparison,
    arms: dict[tuple[str, ...], _Arm],
    declared: list[int] | None,
    policy: str,
) -> Sample:
    cell = tuple(map(str, comparison.where.values()))
    pair = [
        arms.get((name, *cell), _Arm({}, {}))
        for name in (comparison.treatment, comparison.baseline)
    ]
    flags = list(_flags(pair, declared))
    wanted = [list(_wanted(arm, declared)) for arm in pair]
    if policy == "delete_seed" and _may_delete(pair, declared):
        kept = [seed for seed in wanted[0] if all(seed in arm.values for arm in pair)]
        if len(kept) < len(wanted[0]):
            flags = [f for f in flags if f not in ("runs_failed", "runs_diverged")]
            flags.append("seeds_deleted")
        wanted = [kept, kept]
    seeds = [
        [seed for seed in chosen if seed in arm.values]
        for arm, chosen in zip(pair, wanted, strict=True)
    ]
    treatment, baseline = (
        np.array([arm.values[seed] for seed in kept], dtype=np.float64)
        for arm, kept in zip(pair, seeds, strict=True)
    )
    flags += _value_flags(treatment, baseline)
    return Sample(comparison, treatment, baseline, seeds[0], seeds[1], flags)


def _wanted(arm: _Arm, declared: list[int] | None) -> list[int]:
    return declared if declared is not None else sorted(arm.values.keys() | arm.unfinished.keys())


def _may_delete(pair: list[_Arm], declared: list[int] | None) -> bool:
    """The policy needs the same seeds in both arms, each with an ended run: none merely missing."""
    seeds = [arm.values.keys() | arm.unfinished.keys() for arm in pair]
    wanted = set(declared) if declared is not None else seeds[0]
    return all(wanted <= present for present in seeds)


def _flags(pair: list[_Arm], declared: list[int] | None) -> Iterator[str]:
    if declared is None:
        yield "seeds_undeclared"
    else:
        present = [arm.values.keys() | arm.unfinished.keys() for arm in pair]
        if any(set(declared) - seeds for seeds in present):
            yield "runs_missing"
        if any(seeds - set(declared) for seeds in present):
            yield "undeclared_runs"
    lost = [_lost(arm, declared) for arm in pair]
    for status in ("failed", "diverged"):
        if any(status in statuses for statuses in lost):
            yield f"runs_{status}"
    runs = sum(len(_wanted(arm, declared)) for arm in pair)
    if runs and sum(map(len, lost)) > HEAVY_DIVERGENCE * runs:
        yield "heavy_divergence"


def _lost(arm: _Arm, declared: list[int] | None) -> list[str]:
    return [
        status for seed, status in arm.unfinished.items() if declared is None or seed in declared
    ]


def _value_flags(treatment: FloatArray, baseline: FloatArray) -> list[str]:
    arms: tuple[Any, ...] = (treatment, baseline)
    flags = []
    if any(1 < len(np.unique(arm)) < len(arm) for arm in arms):
        flags.append("equal_values")
    if len(treatment) > 1 and np.array_equal(np.sort(treatment), np.sort(baseline)):
        flags.append("identical_arms")
    if min(map(len, arms)) == 2:
        flags.append("two_runs")
    return flags
