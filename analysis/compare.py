"""Tidy table + declared family -> one row per declared comparison and split, with its verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .arms import summarise_pair
from .effect import hedges_g, percent_of_baseline
from .multiplicity import adjust, survives
from .power import minimum_detectable
from .resample import permutation_floor, permutation_test
from .samples import Sample, samples
from .study import Study
from .verdict import FLAGS, verdict
from .welch import welch_many

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
TARGET_POWER = 0.8
MOST_LABELLINGS = 200_000  # beyond that the permutation p would be a random one, and is left out


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
    of a comparison to what is known of it from elsewhere (provenance, amendments). A comparison
    that is incomplete or refused keeps its means and gets no test: a p value of half the seeds
    would be a look at the data that nobody declared.

    Raises:
        ValueError: The table holds no such metric, split or arm.
    """
    metric = metric or family.family.metric
    frames = []
    for name in [split] if split else declared_splits(family):
        chosen = samples(table, family, metric, name)
        rows = _rows(chosen, family, flags or {})
        frames.append(rows.assign(metric=metric, split=name))
    return pd.concat(frames, ignore_index=True)[COLUMNS]


def declared_splits(family: Study) -> list[str]:
    """Return the split that is judged and, where declared, the one that must replicate it."""
    splits = [family.family.split, family.family.replicate_on]
    return list(dict.fromkeys(split for split in splits if split is not None))


def _rows(
    chosen: Sequence[Sample], family: Study, outside: Mapping[str, Sequence[str]]
) -> pd.DataFrame:
    declared, size = family.family, family.family_size
    rows = _tests(chosen, declared.alternative, declared.alpha)
    kept = [[*sample.flags, *outside.get(sample.comparison.name, ())] for sample in chosen]
    for flags, reason, constant in zip(kept, rows["reason"], rows["constant"], strict=True):
        # An arm that lacks runs is incomplete, not degenerate: what is there says nothing yet.
        lacking = reason in ("no_data", "one_run") and "incomplete" in _effects(flags)
        if reason and not lacking:
            flags.append(reason)
        elif constant:
            flags.append("constant_arm")
    untested = [_effects(flags) & {"refuses", "incomplete"} != set() for flags in kept]
    rows.loc[untested, ["ci_low", "ci_high", "ci_one_sided", "t", "df", "p"]] = math.nan
    p = rows["p"].to_numpy()
    blocked = np.array(["blocks" in _effects(flags) for flags in kept], dtype=bool)
    for correction in ("bonferroni", "holm"):
        rows[f"p_{correction}"] = adjust(p, correction, size)
        passed = survives(p, declared.alpha, size, correction)
        rows[f"survives_{correction}"] = passed & ~blocked
    details = [
        _detail(sample, declared.alternative, declared.alpha, size, skip)
        for sample, skip in zip(chosen, untested, strict=True)
    ]
    rows = pd.concat([rows, pd.DataFrame(details)], axis="columns")
    survived = rows[f"survives_{declared.correction}"]
    fragile = survived & (rows["permutation_floor"] > declared.alpha / size)
    for flags, rests in zip(kept, fragile, strict=True):
        flags.extend(["rests_on_normality"] if rests else [])
    rows["verdict"] = [
        verdict(survives=bool(s), p=float(value), alpha=declared.alpha, flags=flags)
        for s, value, flags in zip(survived, p, kept, strict=True)
    ]
    rows["flags"] = [";".join(dict.fromkeys(flags)) for flags in kept]
    return rows.assign(
        alternative=declared.alternative,
        alpha=declared.alpha,
        ci_level=1 - declared.alpha,
        family_size=size,
    )


def _effects(flags: Sequence[str]) -> set[str]:
    return {FLAGS[flag].effect for flag in flags}


def _tests(chosen: Sequence[Sample], alternative: Any, alpha: float) -> pd.DataFrame:
    """Return names, means, and the Welch tests of all samples in one call."""
    pairs = [summarise_pair(sample.treatment, sample.baseline) for sample in chosen]
    exponent = np.array([pair.exponent for pair in pairs])

    def column(arm: str, figure: str) -> FloatArray:
        return np.array([getattr(getattr(pair, arm), figure) for pair in pairs], dtype=np.float64)

    tests = welch_many(
        column("x", "mean"), column("x", "sd"), column("x", "n"),
        column("y", "mean"), column("y", "sd"), column("y", "n"),
        alternative, 1 - alpha, np.array([pair.difference for pair in pairs]),
    )  # fmt: skip
    one_sided = tests.ci_low if alternative == "greater" else tests.ci_high
    scaled = {
        "mean_treatment": column("x", "mean"),
        "mean_baseline": column("y", "mean"),
        "sd_treatment": column("x", "sd"),
        "sd_baseline": column("y", "sd"),
        "difference": tests.difference,
        "ci_low": tests.ci_two_sided_low,
        "ci_high": tests.ci_two_sided_high,
        "ci_one_sided": np.full(len(pairs), math.nan) if alternative == "two-sided" else one_sided,
    }
    rows = pd.DataFrame({name: np.ldexp(values, exponent) for name, values in scaled.items()})
    difference, baseline = rows["difference"].to_numpy(), rows["mean_baseline"].to_numpy()
    return rows.assign(
        comparison=[sample.comparison.name for sample in chosen],
        treatment=[sample.comparison.treatment for sample in chosen],
        baseline=[sample.comparison.baseline for sample in chosen],
        n_treatment=[pair.x.n for pair in pairs],
        n_baseline=[pair.y.n for pair in pairs],
        difference_percent=percent_of_baseline(difference, baseline),
        t=tests.t,
        df=tests.df,
        p=tests.p,
        reason=tests.reason,
        constant=tests.constant_arm,
    )


def _detail(
    sample: Sample, alternative: Any, alpha: float, size: int, skip: bool
) -> dict[str, float]:
    """Return what describes one comparison beside its test; NaN where it does not exist."""
    x, y = sample.treatment, sample.baseline
    floor = permutation_floor(len(x), len(y), alternative) if min(len(x), len(y)) else math.nan
    detail = dict.fromkeys(
        ("hedges_g", "g_low", "g_high", "p_permutation", "minimum_detectable"), math.nan
    ) | {"permutation_floor": floor}
    if skip:
        return detail
    with suppress(ValueError):  # g needs more than one degree of freedom
        g = hedges_g(x, y, confidence=1 - alpha)
        detail |= {"hedges_g": g.estimate, "g_low": g.ci_low, "g_high": g.ci_high}
    if math.comb(len(x) + len(y), len(x)) <= MOST_LABELLINGS:
        detail["p_permutation"] = permutation_test(x, y, alternative).p
    sd_x, sd_y = (float(np.std(arm, ddof=1)) for arm in (x, y))
    if min(sd_x, sd_y) > 0:
        detail["minimum_detectable"] = minimum_detectable(
            sd_x, len(x), sd_y, len(y), TARGET_POWER, alpha / size, alternative
        )
    return detail
