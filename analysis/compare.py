"""Tidy table + declared family -> one row per declared comparison and split, with its verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .equivalence import tost_many
from .family import Family
from .multiplicity import adjust, fixed_sequence, survives
from .samples import Sample, samples
from .sequential import decide, sequential_plan
from .student import quantile
from .study import Study
from .tested import detail_rows, tested_rows
from .verdict import FLAGS, verdict

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]
Flags = list[list[str]]

COLUMNS = [
    *("comparison", "treatment", "baseline", "metric", "split", "alternative"),
    *("n_treatment", "n_baseline", "mean_treatment", "mean_baseline"),
    *("sd_treatment", "sd_baseline", "difference", "difference_percent"),
    *("ci_level", "ci_low", "ci_high", "ci_one_sided", "t", "df", "p", "family_size"),
    *("p_bonferroni", "p_holm", "alpha", "survives_bonferroni", "survives_holm"),
    *("hedges_g", "g_low", "g_high", "p_permutation", "permutation_floor"),
    *("minimum_detectable", "verdict", "flags"),
]
_TESTED = ["ci_low", "ci_high", "ci_one_sided", "t", "df", "p", "se"]
_DERIVED = ["p_bonferroni", "p_holm", "p_permutation", "hedges_g", "g_low", "g_high"]
_NOISY_RATIO = 2.0


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
    metric, declared = metric or family.family.metric, declared_splits(family)
    frames = []
    for name in [split] if split else declared:
        known = {key: list(own) for key, own in (flags or {}).items()}
        if metric != family.family.metric or name not in declared:
            for comparison in family.declared_comparisons():
                known.setdefault(comparison.name, []).append("exploratory")
        rows = _looked_at(table, family, metric, name, known)
        frames.append(rows.assign(metric=metric, split=name))
    return pd.concat(frames, ignore_index=True)[COLUMNS]


def declared_splits(family: Study) -> list[str]:
    """Return the split that is judged and, where declared, the one that must replicate it."""
    splits = [family.family.split, family.family.replicate_on]
    return list(dict.fromkeys(split for split in splits if split is not None))


def simultaneous_intervals(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the two-sided intervals that hold for the whole family at once, by Bonferroni.

    ``rows`` are those of ``compare``; each interval leaves alpha / m outside.
    """
    alpha, df = rows["alpha"].to_numpy(dtype=float), rows["df"].to_numpy(dtype=float)
    middle = (rows["ci_low"] + rows["ci_high"]) / 2
    wider = quantile(alpha / rows["family_size"] / 2, df) / quantile(alpha / 2, df)
    half = (rows["ci_high"] - rows["ci_low"]) / 2 * wider
    return pd.DataFrame(
        {"ci_simultaneous_low": middle - half, "ci_simultaneous_high": middle + half}
    )


def _looked_at(
    table: pd.DataFrame, study: Study, metric: str, split: str, outside: Mapping[str, Sequence[str]]
) -> pd.DataFrame:
    """Judge all seeds at once, or by the declared looks: the first that rejects decides."""
    looks = study.family.looks
    if looks is None:
        return _rows(samples(table, study, metric, split), study, outside)
    share = study.family.alpha / study.family_size
    two_sided = study.family.alternative == "two-sided"
    plan = sequential_plan(looks.seeds, share, looks.spending, two_sided)
    taken = [
        _rows(samples(table, study, metric, split, first), study, outside, level)
        for first, level in zip(looks.seeds, plan.levels, strict=True)
    ]
    chosen = []
    for i in range(len(taken[0])):
        p = [float(rows["p"].iloc[i]) for rows in taken]
        reached = next((k for k, value in enumerate(p) if math.isnan(value)), len(p))
        decision = decide(plan, p[:reached])
        last = max(decision.look if decision.rejected else reached, 1) - 1
        row = taken[last].iloc[i].copy()
        if reached and not decision.rejected and decision.looks_left:
            row["flags"] = ";".join(filter(None, [row["flags"], "look_pending"]))
            row["verdict"] = "incomplete"
            row[[*_TESTED, *_DERIVED]] = math.nan
        elif reached and last + 1 < len(taken):
            row["flags"] = ";".join(filter(None, [row["flags"], "interim_look"]))
        chosen.append(row)
    return pd.DataFrame(chosen).reset_index(drop=True).infer_objects()


def _rows(
    chosen: Sequence[Sample],
    study: Study,
    outside: Mapping[str, Sequence[str]],
    level: float | None = None,
) -> pd.DataFrame:
    """Return the judged rows of one split; ``level`` replaces alpha / m at a declared look."""
    family, size = study.family, study.family_size
    rows = tested_rows(chosen, family)
    flags: Flags = [[*s.flags, *outside.get(s.comparison.name, ())] for s in chosen]
    _add_flags(rows, flags, family)
    untested = [bool(_effects(own) & {"refuses", "incomplete"}) for own in flags]
    rows.loc[untested, _TESTED] = math.nan
    rows = pd.concat([rows, detail_rows(chosen, family, size, untested)], axis="columns")
    p = rows["p"].to_numpy(dtype=np.float64)
    clean = np.array(["blocks" not in _effects(own) for own in flags], dtype=bool)
    for correction in ("bonferroni", "holm"):
        rows[f"p_{correction}"] = adjust(p, correction, size)
        rows[f"survives_{correction}"] = survives(p, family.alpha, size, correction) & clean
    if level is not None:
        rows["survives_bonferroni"] = (p <= level) & clean
    passed = _passed(rows, chosen, family, clean)
    share = family.alpha / size if level is None else level
    equivalent = _equivalent(rows, family, share)
    for own, survived, floor in zip(flags, passed, rows["permutation_floor"], strict=True):
        own.extend(["rests_on_normality"] if survived and floor > share else [])
    rows["verdict"] = [
        verdict(survives=bool(s), p=float(v), alpha=family.alpha, flags=own, equivalent=bool(e))
        for s, v, own, e in zip(passed, p, flags, equivalent, strict=True)
    ]
    rows["flags"] = [";".join(dict.fromkeys(own)) for own in flags]
    return rows.assign(
        alternative=family.alternative,
        alpha=family.alpha,
        ci_level=1 - family.alpha,
        family_size=size,
    )


def _effects(flags: Sequence[str]) -> set[str]:
    return {FLAGS[flag].effect for flag in flags}


def _add_flags(rows: pd.DataFrame, flags: Flags, family: Family) -> None:
    """Add to each comparison's flags what its values and spreads give rise to."""
    small = rows["n_treatment"].to_numpy() - rows["n_baseline"].to_numpy()
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = rows["sd_treatment"].to_numpy() / rows["sd_baseline"].to_numpy()
    noisy = ((small < 0) & (ratio > _NOISY_RATIO)) | ((small > 0) & (ratio < 1 / _NOISY_RATIO))
    constant = "declared_constant" if family.deterministic else "constant_arm"
    for own, reason, is_constant, is_noisy in zip(
        flags, rows["reason"], rows["constant"], noisy, strict=True
    ):
        # An arm that lacks runs is incomplete, not degenerate: what is there says nothing yet.
        early = ("no_data", "one_run", "unequal_seeds")
        if reason and not (reason in early and "incomplete" in _effects(own)):
            own.append(reason)
        elif is_constant:
            own.append(constant)
        own.extend(["noisy_small_arm"] if is_noisy else [])


def _passed(
    rows: pd.DataFrame, chosen: Sequence[Sample], family: Family, clean: BoolArray
) -> BoolArray:
    """Return which comparisons survive the declared correction."""
    if family.correction in ("bonferroni", "holm"):
        return rows[f"survives_{family.correction}"].to_numpy(dtype=bool)
    p = rows["p"].to_numpy(dtype=np.float64)
    if family.correction == "fixed_sequence":
        return fixed_sequence(p, family.alpha) & clean
    if np.isnan(p).any():  # the joint distribution needs every arm
        return np.zeros(len(p), dtype=bool)
    from .dunnett import dunnett  # brings scipy.stats, a third of a second for the few who need it

    joint = dunnett([s.treatment for s in chosen], chosen[0].baseline, family.alternative)
    return np.asarray(joint.p <= family.alpha) & clean


def _equivalent(rows: pd.DataFrame, family: Family, share: float) -> BoolArray:
    """Return which differences two one-sided tests place inside the declared margin."""
    if family.margin is None:
        return np.zeros(len(rows), dtype=bool)
    difference, se, df = (rows[name].to_numpy(dtype=float) for name in ("difference", "se", "df"))
    p = tost_many(difference, se, df, -family.margin, family.margin)
    return np.asarray(p <= share)
