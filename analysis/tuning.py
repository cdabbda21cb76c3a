"""Tuned axes of a grid: each arm is judged at its own best value, chosen on a split of its own.

The chosen value is a part of the arm, as if it had been declared; what was chosen is shown.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pandas as pd

from .study import Study

COLUMNS = ["seeds", "score", "chosen"]


def judged(rows: pd.DataFrame, table: pd.DataFrame, study: Study) -> pd.DataFrame:
    """Return those of ``rows`` that are of runs with the values chosen by the whole ``table``.

    All of them where nothing is tuned. Of an arm in a cell that still lacks runs nothing is chosen
    and no row is left, so that its comparisons are incomplete.
    """
    if not study.tuned:
        return rows
    chosen = candidates(table, study)
    keys = ["arm", *study.grid]
    wanted = set(_keys(chosen[chosen["chosen"].astype(bool)], keys))
    return rows[[key in wanted for key in _keys(rows, keys)]]


def candidates(table: pd.DataFrame, study: Study) -> pd.DataFrame:
    """Return one row per arm, cell and tuned value: how many seeds are done, score, and choice.

    ``score`` is the mean over the seeds that are done. A candidate with fewer of them, since runs
    diverged, loses against one with more; equal scores go to the value that is declared first.

    Raises:
        ValueError: The table lacks an axis, or the metric by which the values are chosen.
    """
    for axis in study.grid:
        if axis not in table:
            raise ValueError(f"the table has no column for the grid axis {axis!r}")
    for rule in study.tuned.values():
        split = table["split"] if "split" in table else pd.Series("", index=table.index)
        if not ((table["metric"] == rule.lowest) & (split == rule.split)).any():
            raise ValueError(
                f"the table has no {rule.lowest} on {rule.split}, by which the tuned axes "
                f"{', '.join(study.tuned)} are chosen"
            )
    by = ["arm", *study.crossed]
    rows = [
        row
        for key, group in table.groupby(by, sort=False, dropna=False)
        for row in _judged(dict(zip(by, key, strict=True)), group, study)
    ]
    return pd.DataFrame(rows, columns=[*by, *study.tuned, *COLUMNS])


def tuning_notices(study: Study) -> list[str]:
    """Return a sentence for each tuned axis that says how its value was chosen.

    >>> from .study import parse_study
    >>> tuning_notices(parse_study('''
    ... study = { name = "s" }
    ... grid.lr = { values = [0.1, 0.2] }
    ... family = { split = "test", comparisons = [{ name = "c", treatment = "a", baseline = "b" }] }
    ... '''))
    ['lr was tuned: each arm counts, in each cell, with the value of lowest mean loss on valid.']
    """
    return [
        f"{axis} was tuned: each arm counts, in each cell, with the value of lowest mean "
        f"{rule.lowest} on {rule.split}."
        for axis, rule in study.tuned.items()
    ]


def edge_notices(chosen: pd.DataFrame, study: Study) -> list[str]:
    """Return a sentence for each end of a tuned axis that was chosen: the best may lie beyond.

    ``chosen`` are the rows of :func:`candidates`; an axis of words, or of one value, has no end.
    """
    found = []
    best = chosen[chosen["chosen"].astype(bool)]
    for axis, rule in study.tuned.items():
        if not all(isinstance(v, int | float) for v in rule.values) or len(set(rule.values)) < 2:
            continue
        for end, name in ((min(rule.values), "lowest"), (max(rule.values), "highest")):
            at = best[best[axis].astype(str) == str(end)]
            if len(at):
                arms = ", ".join(dict.fromkeys(at["arm"].astype(str)))
                found.append(
                    f"{axis}: {len(at)} of {len(best)} choices are the {name} value tried, {end} "
                    f"({arms}); a better one may lie beyond it."
                )
    return found


def _judged(about: dict[str, Any], group: pd.DataFrame, study: Study) -> Iterator[dict[str, Any]]:
    values = [
        {axis: cell[axis] for axis in study.tuned}
        for cell in study.cells()
        if all(str(cell[axis]) == str(about[axis]) for axis in study.crossed)
    ]
    found = [_candidate(group, value, study) for value in values]
    over = all(complete for _, _, complete in found)
    order = [(-seeds, score) for seeds, score, _ in found]
    best = min(range(len(found)), key=order.__getitem__) if over and found else -1
    for i, (value, (seeds, score, _)) in enumerate(zip(values, found, strict=True)):
        yield {**about, **value, "seeds": seeds, "score": score, "chosen": i == best}


def _candidate(group: pd.DataFrame, value: dict[str, Any], study: Study) -> tuple[int, float, bool]:
    """Return how many seeds are done, their mean score, and whether all runs are over."""
    rule = next(iter(study.tuned.values()))
    rows = group[(group["metric"] == rule.lowest) & (group["split"] == rule.split)]
    for axis, wanted in value.items():
        rows = rows[rows[axis].astype(str) == str(wanted)]
    done = rows[rows["status"] == "done"]
    over = set(rows.loc[rows["status"] != "failed", "seed"])
    declared = set(study.seeds.tolist()) if study.seeds else over
    score = float(done["value"].mean()) if len(done) else math.inf
    return len(done), score, bool(over) and declared <= over


def _keys(rows: pd.DataFrame, columns: list[str]) -> list[tuple[str, ...]]:
    return list(zip(*(rows[column].astype(str) for column in columns), strict=True))
