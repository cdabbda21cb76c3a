"""Declared pooled evidence: one comparison over all its grid cells; secondary, never a verdict."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from .family import Comparison
from .student import quantile
from .study import Study

COLUMNS = [
    *("comparison", "metric", "split", "method", "cells", "difference", "ci_level"),
    *("ci_low", "ci_high", "p", "alternative", "note"),
]


def pooled_evidence(
    table: pd.DataFrame, comparisons: pd.DataFrame, study: Study
) -> pd.DataFrame | None:
    """Return the pooled rows of every comparison that the study declares so, ``None`` if none.

    Methods: the count of cells on the declared side, random effects over the cells' differences,
    and a mixed model over the runs. A cell without a test is left out and counted in the note.
    """
    if not study.family.pooled:
        return None
    rows = [
        row
        for name in study.family.pooled
        for (metric, split), cells in comparisons.groupby(["metric", "split"], sort=False)
        for row in _pool(name, str(metric), str(split), cells, table, study)
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def _pool(
    name: str, metric: str, split: str, rows: pd.DataFrame, table: pd.DataFrame, study: Study
) -> list[dict[str, Any]]:
    # statsmodels takes a second to import, and few studies pool.
    from .pooled import mixed_model, random_effects, sign_consistency

    mine = [c for c in study.declared_comparisons() if c.name.startswith(f"{name} [")]
    cells = rows[rows["comparison"].isin([c.name for c in mine]) & rows["p"].notna()]
    left_out = len(mine) - len(cells)
    excluded = f"{left_out} cells without a test are left out" if left_out else ""
    common: dict[str, Any] = {
        "comparison": name,
        "metric": metric,
        "split": split,
        "cells": len(cells),
        "alternative": study.family.alternative,
        "note": excluded,
    }
    if len(cells) < 2:
        return [common | {"method": "none", "note": "fewer than two cells have a test"}]
    level, alternative = 1 - study.family.alpha, study.family.alternative
    signs = sign_consistency(cells["difference"], alternative)
    side = "on one side" if alternative == "two-sided" else "on the declared side"
    on_side = f"{signs.on_side} of {signs.cells} cells {side}"
    # Not difference / t, which is 0 / 0 where two means are equal.
    half = (cells["ci_high"] - cells["ci_low"]) / 2
    se = half / -quantile(study.family.alpha / 2, cells["df"].to_numpy(dtype=float))
    effects = random_effects(cells["difference"], se, alternative, level)
    kept = [c for c in mine if c.name in set(cells["comparison"])]
    runs = _runs(table, kept, metric, split)
    fit = mixed_model(runs["value"], runs["treated"], runs["cell"], runs["seed"], level)
    pooled = [
        ("sign consistency", math.nan, math.nan, math.nan, signs.p, on_side),
        ("random effects (Hartung-Knapp)", effects.difference, effects.ci_low, effects.ci_high,
         effects.p, f"tau {effects.tau:.3g}"),
        ("mixed model", fit.difference, fit.ci_low, fit.ci_high, fit.p,
         "; ".join(["two-sided", *fit.notes])),
    ]  # fmt: skip
    return [
        common
        | {"method": method, "difference": difference, "ci_level": level}
        | {"ci_low": low, "ci_high": high, "p": p}
        | {"note": "; ".join(filter(None, [excluded, note]))}
        for method, difference, low, high, p, note in pooled
    ]


def _runs(
    table: pd.DataFrame, comparisons: list[Comparison], metric: str, split: str
) -> pd.DataFrame:
    """Return one row per run of the comparisons' cells, marked by arm and cell."""
    done = table[(table["metric"] == metric) & (table["status"] == "done")]
    if "split" in done:
        done = done[done["split"] == split]
    parts = []
    for comparison in comparisons:
        rows = done
        for axis, value in comparison.where.items():
            rows = rows[rows[axis].astype(str) == str(value)]
        for arm, treated in ((comparison.treatment, 1), (comparison.baseline, 0)):
            part = rows[rows["arm"] == arm][["seed", "value"]]
            parts.append(part.assign(treated=treated, cell=comparison.name))
    return pd.concat(parts, ignore_index=True)
