"""Declared pooled evidence: one comparison over all its grid cells; secondary, never a verdict."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pandas as pd

from .family import Comparison
from .student import quantile
from .study import Study

if TYPE_CHECKING:
    from .pooled import MixedModel

ESTIMATES = ("difference", "ci_low", "ci_high", "p")
FITTED_DIGITS = 8  # later ones differ from processor to processor
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
    runs = _runs(table, [c for c in mine if c.name in set(cells["comparison"])], metric, split)
    return [
        common | row | {"note": "; ".join(filter(None, [excluded, row["note"]]))}
        for row in _pooled_rows(cells, runs, study)
    ]


def _pooled_rows(cells: pd.DataFrame, runs: pd.DataFrame, study: Study) -> Iterator[dict[str, Any]]:
    # statsmodels takes a second to import, and few studies pool.
    from .pooled import mixed_model, random_effects, sign_consistency

    level, alternative = 1 - study.family.alpha, study.family.alternative
    signs = sign_consistency(cells["difference"], alternative)
    side = "on one side" if alternative == "two-sided" else "on the declared side"
    yield {
        "method": "sign consistency",
        "ci_level": level,
        "p": signs.p,
        "note": f"{signs.on_side} of {signs.cells} cells {side}",
    }
    # Not difference / t, which is 0 / 0 where two means are equal.
    half = (cells["ci_high"] - cells["ci_low"]) / 2
    se = half / -quantile(study.family.alpha / 2, cells["df"].to_numpy(dtype=float))
    effects = random_effects(cells["difference"], se, alternative, level)
    yield {
        "method": "random effects (Hartung-Knapp)",
        "ci_level": level,
        "note": f"tau {effects.tau:.3g}",
        **{key: getattr(effects, key) for key in ESTIMATES},
    }
    fit = mixed_model(runs["value"], runs["treated"], runs["cell"], runs["seed"], level)
    yield {"method": "mixed model", "ci_level": level, **_fitted(fit)}


def _fitted(fit: MixedModel) -> dict[str, Any]:
    """Return the digits of a fit that its stopping rule vouches for, and none of a failed one."""
    if not fit.converged:
        return {"note": "two-sided; the fit did not converge, so it has no figures"}
    figures = {key: float(f"{getattr(fit, key):.{FITTED_DIGITS}g}") for key in ESTIMATES}
    return figures | {"note": "; ".join(["two-sided", *fit.notes])}


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
