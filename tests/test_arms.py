"""Summaries of an arm: exact to the last digit, and blank where nothing can be said."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.arms import seed_values, summarise, summarise_pair

values = st.lists(st.floats(-1e9, 1e9), min_size=2, max_size=9)


@given(values)
def test_mean_and_deviation_are_those_of_rational_arithmetic(arm):
    summary = summarise(np.array(arm))
    exact = [Fraction(value) for value in arm]
    mean = sum(exact) / len(exact)
    assert abs(Fraction(summary.mean) + Fraction(summary.mean_rest) - mean) <= abs(mean) * 2**-100
    variance = sum((value - mean) ** 2 for value in exact) / (len(exact) - 1)
    assert summary.sd == pytest.approx(math.sqrt(variance), rel=1e-14, abs=1e-160)


@given(st.floats(-1e300, 1e300), st.integers(2, 40))
def test_equal_values_have_no_deviation_at_all(value, n):
    assert summarise(np.full(n, value) / 64).sd == 0.0


def test_a_large_offset_costs_no_digits():
    summary = summarise(np.array([1e9 + 0.25, 1e9 + 0.5, 1e9 + 0.75]))
    assert (summary.mean, summary.sd) == (1e9 + 0.5, 0.25)


@pytest.mark.parametrize("arm", [[], [math.nan, 1.0], [1.0, math.inf], [-math.inf, math.inf]])
def test_what_has_no_mean_is_blank(arm):
    summary = summarise(np.array(arm, dtype=float))
    assert summary.n == len(arm)
    assert math.isnan(summary.mean)
    assert math.isnan(summary.sd)


def test_one_value_has_a_mean_and_no_deviation():
    summary = summarise(np.array([3.5]))
    assert summary.mean == 3.5
    assert math.isnan(summary.sd)


@given(values, values, st.integers(-900, 900))
def test_a_pair_is_summarised_in_units_that_fit(x, y, exponent):
    x, y = (np.ldexp(np.array(arm), exponent) for arm in (x, y))
    pair = summarise_pair(x, y)
    largest = max(abs(value) for value in (*x, *y))
    assert math.ldexp(largest, -pair.exponent) < 1
    assert pair.x.n == len(x)
    exact = sum(map(Fraction, x)) / len(x) - sum(map(Fraction, y)) / len(y)
    difference = math.ldexp(pair.difference, pair.exponent)
    assert difference == pytest.approx(float(exact), rel=1e-14, abs=largest * 2**-100)


def test_values_of_any_numeric_kind_become_one_row_of_doubles():
    for given_values in ([1, 2], (1, 2), np.array([1, 2], np.float32), [True, 2]):
        array = seed_values(given_values, "x")
        assert array.dtype == np.float64
        assert array.tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match=r"y must be one row of numbers.*shape \(2, 1\)"):
        seed_values([[1.0], [2.0]], "y")
    with pytest.raises(ValueError, match="y must hold numbers, one per seed"):
        seed_values(["1.0", "high"], "y")
