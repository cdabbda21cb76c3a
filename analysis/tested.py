"""Samples -> one row each: means, declared test, intervals, effect size, exact test, power."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .arms import summarise_pair
from .degenerate import NoTestError
from .effect import hedges_g, percent_of_baseline
from .family import Family
from .paired import MOST_PAIRS, align, paired_t, sign_flip_test
from .power import minimum_detectable, minimum_detectable_paired
from .resample import permutation_floor, permutation_test
from .samples import Sample
from .welch import welch_many

FloatArray = NDArray[np.float64]

TARGET_POWER = 0.8
MOST_LABELLINGS = 200_000  # beyond that an exact p would take seconds for each comparison
_DETAILS = ("hedges_g", "g_low", "g_high", "p_permutation", "minimum_detectable")


def tested_rows(samples: Sequence[Sample], family: Family) -> pd.DataFrame:
    """Return the means and the declared test of every sample.

    Beside the columns of comparisons.csv there are ``se``, ``reason`` (why no test exists, or
    empty) and ``constant`` (an arm whose values are all equal).
    """
    rows = _welch_rows(samples, family)
    at = [i for i, sample in enumerate(samples) if sample.comparison.test == "paired_t"]
    if at:
        paired = pd.DataFrame([_paired(samples[i], family) for i in at], index=at)
        rows.loc[at, paired.columns] = paired
    return rows


def _welch_rows(samples: Sequence[Sample], family: Family) -> pd.DataFrame:
    """Return the Welch tests of all samples, made in one call."""
    pairs = [summarise_pair(sample.treatment, sample.baseline) for sample in samples]
    exponent = np.array([pair.exponent for pair in pairs])

    def column(arm: str, figure: str) -> FloatArray:
        return np.array([getattr(getattr(pair, arm), figure) for pair in pairs], dtype=np.float64)

    tests = welch_many(
        column("x", "mean"), column("x", "sd"), column("x", "n"),
        column("y", "mean"), column("y", "sd"), column("y", "n"),
        family.alternative, 1 - family.alpha, np.array([pair.difference for pair in pairs]),
    )  # fmt: skip
    bounds = {"less": tests.ci_high, "greater": tests.ci_low}
    scaled = {
        "mean_treatment": column("x", "mean"),
        "mean_baseline": column("y", "mean"),
        "sd_treatment": column("x", "sd"),
        "sd_baseline": column("y", "sd"),
        "difference": tests.difference,
        "se": tests.se,
        "ci_low": tests.ci_two_sided_low,
        "ci_high": tests.ci_two_sided_high,
        "ci_one_sided": bounds.get(family.alternative, np.full(len(pairs), math.nan)),
    }
    rows = pd.DataFrame({name: np.ldexp(values, exponent) for name, values in scaled.items()})
    difference, baseline = rows["difference"].to_numpy(), rows["mean_baseline"].to_numpy()
    return rows.assign(
        comparison=[sample.comparison.name for sample in samples],
        treatment=[sample.comparison.treatment for sample in samples],
        baseline=[sample.comparison.baseline for sample in samples],
        n_treatment=[pair.x.n for pair in pairs],
        n_baseline=[pair.y.n for pair in pairs],
        difference_percent=percent_of_baseline(difference, baseline),
        t=tests.t,
        df=tests.df,
        p=tests.p,
        reason=tests.reason,
        constant=tests.constant_arm,
    )


def _paired(sample: Sample, family: Family) -> dict[str, Any]:
    """Return what the paired t test replaces in a row."""
    missing = dict.fromkeys(("se", "ci_low", "ci_high", "ci_one_sided", "t", "df", "p"), math.nan)
    if set(sample.seeds_treatment) != set(sample.seeds_baseline):
        return missing | {"reason": "unequal_seeds"}
    treatment = dict(zip(sample.seeds_treatment, sample.treatment.tolist(), strict=True))
    baseline = dict(zip(sample.seeds_baseline, sample.baseline.tolist(), strict=True))
    try:
        test = paired_t(treatment, baseline, family.alternative, 1 - family.alpha)
    except NoTestError as error:
        return missing | {"reason": str(error.reason)}
    low, high = test.ci_two_sided
    bounds = {"less": test.ci_high, "greater": test.ci_low}
    return {
        "se": test.se,
        "ci_low": low,
        "ci_high": high,
        "ci_one_sided": bounds.get(family.alternative, math.nan),
        "t": test.t,
        "df": test.df,
        "p": test.p,
        "reason": "",
    }


def detail_rows(
    samples: Sequence[Sample], family: Family, size: int, skip: Sequence[bool]
) -> pd.DataFrame:
    """Return what describes each comparison beside its test; NaN where ``skip`` says so."""
    return pd.DataFrame(
        [
            dict.fromkeys(_DETAILS, math.nan)
            | {"permutation_floor": _floor(sample, family)}
            | ({} if skipped else _detail(sample, family, size))
            for sample, skipped in zip(samples, skip, strict=True)
        ]
    )


def _detail(sample: Sample, family: Family, size: int) -> dict[str, float]:
    x, y = sample.treatment, sample.baseline
    sd_x, sd_y = (float(np.std(arm, ddof=1)) if np.ptp(arm) else 0.0 for arm in (x, y))
    detail: dict[str, float] = {}
    if (min(sd_x, sd_y) > 0 or min(len(x), len(y)) > 2) and max(sd_x, sd_y) > 0:
        g = hedges_g(x, y, confidence=1 - family.alpha)
        detail = {"hedges_g": g.estimate, "g_low": g.ci_low, "g_high": g.ci_high}
    if sample.comparison.test == "paired_t":
        return detail | _paired_detail(sample, family, size)
    if math.comb(len(x) + len(y), len(x)) <= MOST_LABELLINGS:
        detail["p_permutation"] = permutation_test(x, y, family.alternative).p
    if min(sd_x, sd_y) > 0:
        detail["minimum_detectable"] = minimum_detectable(
            sd_x, len(x), sd_y, len(y), TARGET_POWER, family.alpha / size, family.alternative
        )
    return detail


def _paired_detail(sample: Sample, family: Family, size: int) -> dict[str, float]:
    x_by_seed = dict(zip(sample.seeds_treatment, sample.treatment.tolist(), strict=True))
    y_by_seed = dict(zip(sample.seeds_baseline, sample.baseline.tolist(), strict=True))
    x, y = align(x_by_seed, y_by_seed)
    detail: dict[str, float] = {}
    if len(x) <= MOST_PAIRS:
        detail["p_permutation"] = sign_flip_test(x_by_seed, y_by_seed, family.alternative).p
    sd = float(np.std(x - y, ddof=1))
    if sd > 0:
        detail["minimum_detectable"] = minimum_detectable_paired(
            sd, len(x), TARGET_POWER, family.alpha / size, family.alternative
        )
    return detail


def _floor(sample: Sample, family: Family) -> float:
    """Return the smallest p that the exact test of these sizes can give."""
    n_x, n_y = len(sample.treatment), len(sample.baseline)
    if not min(n_x, n_y):
        return math.nan
    if sample.comparison.test == "paired_t":
        return math.ldexp(2.0 if family.alternative == "two-sided" else 1.0, -n_x)
    return permutation_floor(n_x, n_y, family.alternative)
