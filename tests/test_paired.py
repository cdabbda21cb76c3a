"""Paired tests: aligned by seed and never by position, equal to scipy's, and refusing."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from analysis.degenerate import NoTestError, Reason
from analysis.paired import align, paired_t, sign_flip_test

ALTERNATIVES = ("less", "greater", "two-sided")
pairs = st.lists(
    st.tuples(st.integers(-40, 40).map(lambda k: k / 10), st.integers(-40, 40)),
    min_size=2, max_size=7,
)  # fmt: skip


def test_values_are_paired_by_seed_and_not_by_position():
    x = {0: 10.0, 1: 20.0, 2: 30.0}
    y = {2: 31.0, 1: 21.5, 0: 11.25}
    result = paired_t(x, y)
    assert result.difference == pytest.approx(-1.25, rel=1e-14)
    left, right = align(x, y)
    assert (left - right).tolist() == [-1.25, -1.5, -1.0]


@given(pairs, st.randoms(use_true_random=False), st.sampled_from(ALTERNATIVES))
def test_agrees_with_scipy_in_any_order(values, order, alternative):
    x, y = map(list, zip(*values, strict=True))
    difference = np.subtract(x, y)
    assume(np.ptp(difference) > 1e-9)
    ours = paired_t(
        dict(enumerate(x)), dict(order.sample(list(enumerate(y)), len(y))), alternative, 0.9
    )
    theirs = stats.ttest_rel(x, y, alternative=alternative)
    interval = theirs.confidence_interval(0.9)
    assert ours.t == pytest.approx(theirs.statistic, rel=1e-9, abs=1e-9)
    assert ours.p == pytest.approx(theirs.pvalue, rel=1e-9)
    assert (ours.ci_low, ours.ci_high) == pytest.approx(tuple(interval), rel=1e-9, abs=1e-9)
    assert ours.df == len(x) - 1


@given(pairs, st.sampled_from(ALTERNATIVES))
def test_sign_flips_are_counted_as_rational_arithmetic_counts(values, alternative):
    x, y = (dict(enumerate(arm)) for arm in zip(*values, strict=True))
    changes = [Fraction(a) - Fraction(b) for a, b in values]
    towards = {"less": lambda s: -s, "greater": lambda s: s, "two-sided": abs}[alternative]
    count = sum(
        towards(sum(s * c for s, c in zip(signs, changes, strict=True))) >= towards(sum(changes))
        for signs in product((1, -1), repeat=len(changes))
    )
    result = sign_flip_test(x, y, alternative)
    assert (result.count, result.patterns) == (count, 2 ** len(values))
    assert result.p == count / 2 ** len(values)


def test_the_floor_of_sign_flips():
    x, y = {s: float(s) for s in range(5)}, {s: s + 10.0 + s / 7 for s in range(5)}
    assert sign_flip_test(x, y).p == sign_flip_test(x, y).floor == 1 / 32
    assert sign_flip_test(x, y, "two-sided").p == sign_flip_test(x, y, "two-sided").floor == 1 / 16


def test_a_series_indexed_by_seed_will_do():
    x = pd.Series([1.0, 2.0, 4.0], index=[3, 1, 2])
    y = pd.Series([2.5, 5.5, 2.0], index=[1, 2, 3])
    assert paired_t(x, y).difference == pytest.approx(-1.0)


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_extreme_units_stay_in_range(unit):
    x, y = ({s: v * unit for s, v in enumerate(arm)} for arm in ([1, 2, 4], [2, 5, 6]))
    plain = paired_t(dict(enumerate([1, 2, 4])), dict(enumerate([2, 5, 6])))
    assert paired_t(x, y).t == pytest.approx(plain.t, rel=1e-12)
    assert paired_t(x, y).sd == pytest.approx(plain.sd * unit, rel=1e-12)


@pytest.mark.parametrize("test", [paired_t, sign_flip_test])
@pytest.mark.parametrize(
    ("x", "y", "sentence"),
    [
        ({1: 1.0, 2: 2.0}, {1: 1.0, 3: 2.0}, "the same seeds in both arms; unmatched: 2, 3"),
        (pd.Series([1.0, 2.0], index=[7, 7]), {7: 1.0}, "x has a seed more than once: 7"),
        ({1: 1.0}, {1: 2.0}, "An arm has one value"),
        ({}, {}, "An arm has no values"),
        ({1: 1.0, 2: math.nan}, {1: 2.0, 2: 3.0}, "not finite"),
        ({1: 1.0, 2: 2.0}, {1: 2.0, 2: math.inf}, "not finite"),
    ],
)
def test_unmatched_and_degenerate_pairs_are_refused(test, x, y, sentence):
    with pytest.raises(ValueError, match=sentence):
        test(x, y)


@pytest.mark.parametrize("shift", [0.0, 0.1, 3.0])
def test_a_copied_arm_has_no_paired_test(shift):
    x = {1: 20.1, 2: 20.3, 3: 20.2}
    with pytest.raises(NoTestError) as refusal:
        paired_t(x, {seed: value + shift for seed, value in x.items()})
    assert refusal.value.reason == Reason.CONSTANT_DIFFERENCE
    assert refusal.value.difference == pytest.approx(-shift)


def test_too_many_pairs_for_sign_flips_are_refused():
    x, y = {s: float(s) for s in range(21)}, {s: s * 1.5 for s in range(21)}
    with pytest.raises(ValueError, match="21 pairs have too many sign patterns"):
        sign_flip_test(x, y)
