"""The test behind each kind of evidence, with everything that its printed figures leave open."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from .arms import FloatArray, summarise_pair
from .claim import Claim
from .claim_boxes import (
    Box,
    Method,
    Recomputed,
    decimal_difference,
    one_arm,
    raw_values,
    recompute,
    summary_box,
    two_arms,
    value_box,
)
from .degenerate import NoTestError, Reason, require_test
from .rounding import Printed
from .spread import SpreadKind
from .student import Alternative


def recomputed(claim: Claim, spread: SpreadKind, side: Alternative, method: Method) -> Recomputed:
    """Return the claim's test under one reading of its spread, side and method.

    Raises:
        NoTestError: Raw values are constant, or not all finite.
    """
    return _TESTS[claim.kind](claim, spread, side, method)


def counts(claim: Claim) -> tuple[int | None, int | None]:
    """Return the number of runs in both arms, as listed or as stated."""
    return (
        len(claim.treatment) or claim.n_treatment,
        len(claim.baseline) or claim.n_baseline,
    )


def _from_t(claim: Claim, spread: SpreadKind, side: Alternative, method: Method) -> Recomputed:
    assert claim.t is not None
    t = Printed(claim.t)
    ends = t.value + t.half_unit * np.array([0.0, -1.0, 1.0])
    df = np.full(1, np.inf) if method == "normal" else _df(claim)
    return recompute(ends[:, None], np.ones(1), df, side)


def _df(claim: Claim) -> FloatArray:
    """Return df as printed and its ends, or the ends that the numbers of runs allow."""
    if claim.df is not None:
        df = Printed(claim.df)
        # A whole number is n - 1 or n + n - 2 and exact; Welch's is printed with decimals.
        half = df.half_unit if "." in claim.df else 0.0
        return np.array([df.value, max(df.value - half, 1e-9), df.value + half])
    n_x, n_y = counts(claim)
    assert n_x is not None
    if n_y is None:
        return np.array([n_x - 1.0])
    return np.array([n_x + n_y - 2.0, min(n_x, n_y) - 1.0])


def _from_summary(
    claim: Claim, spread: SpreadKind, side: Alternative, method: Method
) -> Recomputed:
    assert claim.mean_treatment is not None
    assert claim.mean_baseline is not None
    difference = decimal_difference(claim.mean_treatment, claim.mean_baseline)
    x = _summary_arm(claim.mean_treatment, claim.spread_treatment, claim.n_treatment, spread)
    y = _summary_arm(claim.mean_baseline, claim.spread_baseline, claim.n_baseline, spread)
    return two_arms(x, y, side, method, difference)


def _summary_arm(mean: str, spread: str | None, n: int | None, kind: SpreadKind) -> Box:
    assert spread is not None
    assert n is not None
    return summary_box(mean, spread, n, kind)


def _from_one_sample(
    claim: Claim, spread: SpreadKind, side: Alternative, method: Method
) -> Recomputed:
    assert claim.target is not None
    target = float(claim.target)
    if not claim.treatment:
        assert claim.mean_treatment is not None
        box = _summary_arm(claim.mean_treatment, claim.spread_treatment, claim.n_treatment, spread)
        difference = decimal_difference(claim.mean_treatment, claim.target)
        return one_arm(box, target, side, method, difference)
    values, half = raw_values(claim.treatment, claim.rounded)
    constant = np.array([target, target])
    pair = summarise_pair(values, constant)
    require_test(pair.x, pair.y)
    difference = math.ldexp(pair.difference, pair.exponent)
    return one_arm(value_box(values, half), target, side, method, difference)


def _from_values(claim: Claim, spread: SpreadKind, side: Alternative, method: Method) -> Recomputed:
    x, half_x = raw_values(claim.treatment, claim.rounded)
    y, half_y = raw_values(claim.baseline, claim.rounded)
    pair = summarise_pair(x, y)
    require_test(pair.x, pair.y)
    difference = math.ldexp(pair.difference, pair.exponent)
    return two_arms(value_box(x, half_x), value_box(y, half_y), side, method, difference)


def _from_pairs(claim: Claim, spread: SpreadKind, side: Alternative, method: Method) -> Recomputed:
    arms = [raw_values(arm, claim.rounded) for arm in (claim.treatment, claim.baseline)]
    if not all(np.isfinite(values).all() for values, _ in arms):
        raise NoTestError(Reason.NON_FINITE)
    pairs = zip(claim.treatment, claim.baseline, strict=True)
    differences = np.array([decimal_difference(x, y) for x, y in pairs])
    if np.ptp(differences) == 0:
        raise NoTestError(Reason.CONSTANT_DIFFERENCE, float(differences[0]))
    box = value_box(differences, arms[0][1] + arms[1][1])
    return one_arm(box, 0.0, side, method, float(box.mean[0]))


_TESTS: dict[str, Callable[[Claim, SpreadKind, Alternative, Method], Recomputed]] = {
    "t_df": _from_t,
    "summary": _from_summary,
    "one_sample": _from_one_sample,
    "values": _from_values,
    "paired": _from_pairs,
}
