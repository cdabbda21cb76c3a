"""Tidy table + declared family -> one row per declared comparison and split, with its verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .arms import summarise
from .multiplicity import adjust, survives
from .samples import Sample, samples
from .study import Study
from .verdict import verdict
from .welch import WelchColumns, welch_many

FloatArray = NDArray[np.float64]

COLUMNS = [
    *("comparison", "treatment", "baseline", "metric", "split", "alternative"),
    *("n_treatment", "n_baseline", "mean_treatment", "mean_baseline"),
    *("sd_treatment", "sd_baseline", "difference", "difference_percent"),
    *("ci_level", "ci_low", "ci_high", "ci_one_sided", "t", "df", "p", "family_size"),
    *("p_bonferroni", "p_holm", "alpha", "survives_bonferroni", "survives_holm"),
    *("hedges_g", "g_low", "g_high", "p_permutation", "permutation_floor"),
    *("minimum_detectable", "verdict", "flags"),
]


def compare(
    table: pd.DataFrame,
    family: Study,
    *,
    metric: str | None = None,
    split: str | None = None,
    flags: Mapping[str, Sequence[str]] | None = None,
) -> pd.DataFrame:
    """Return one row per declared comparison, for the declared split and its replication.

    The family is judged on each split by itself, with the declared size. ``flags`` maps the name
    of a comparison to what is known of it from elsewhere (provenance, amendments).

    Raises:
        ValueError: The table holds no such metric, split or arm.
    """
    declared = family.family
    splits = [split] if split else [declared.split]
    if split is None and declared.replicate_on is not None:
        splits.append(declared.replicate_on)
    frames = [
        _split_rows(
            samples(table, family, metric or declared.metric, name), family, flags or {}
        ).assign(metric=metric or declared.metric, split=name)
        for name in splits
    ]
    return pd.concat(frames, ignore_index=True)[COLUMNS]
