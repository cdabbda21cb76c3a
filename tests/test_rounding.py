"""Printed figures: every value that rounds to them gives a p inside the range."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.rounding import Printed, rounding_range
from analysis.welch import welch_from_summary

ALTERNATIVES = ("less", "greater", "two-sided")
units = st.floats(-0.5, 0.5)


@cache
def box(kind, alternative):
    return rounding_range("20.1", "0.1", 3, "20.33", "0.14", 5, kind, alternative)


@pytest.mark.parametrize("kind", ["sd", "se", "sd0", "ci95_t", "ci95_z"])
@given(st.tuples(units, units, units, units), st.sampled_from(ALTERNATIVES))
def test_no_value_behind_the_figures_leaves_the_range(kind, offsets, alternative):
    bounds = box(kind, alternative)
    figures = np.array([20.1, 0.1, 20.33, 0.14]) + np.array(offsets) * [0.1, 0.1, 0.01, 0.01]
    p = welch_from_summary(
        figures[0], figures[1], 3, figures[2], figures[3], 5, kind, alternative
    ).p
    assert bounds.p_min * (1 - 2e-3) <= p <= bounds.p_max * (1 + 2e-3)


def test_more_digits_leave_less_open():
    coarse = rounding_range("20.1", "0.1", 3, "20.5", "0.1", 3)
    fine = rounding_range("20.10", "0.10", 3, "20.50", "0.10", 3)
    exact = welch_from_summary(20.1, 0.1, 3, 20.5, 0.1, 3).p
    assert coarse.p_min < fine.p_min < exact < fine.p_max < coarse.p_max


def test_swapping_the_arms_exchanges_the_sides():
    a = rounding_range("20.1", "0.1", 3, "20.5", "0.2", 5, alternative="less")
    b = rounding_range("20.5", "0.2", 5, "20.1", "0.1", 3, alternative="greater")
    assert (a.p_min, a.p_max) == pytest.approx((b.p_min, b.p_max), rel=1e-9)


def test_two_spreads_printed_as_zero_leave_everything_below_open():
    bounds = rounding_range("20.1", "0.0", 3, "20.5", "0.0", 3)
    assert bounds.p_min == 0
    assert bounds.p_max < 0.01
    assert rounding_range("20.5", "0.0", 3, "20.1", "0.0", 3).p_max == 1


def test_means_that_may_be_equal_allow_a_p_of_one():
    assert rounding_range("20.1", "0.1", 5, "20.1", "0.1", 5, alternative="two-sided").p_max == 1


@pytest.mark.parametrize(
    ("text", "half_unit"),
    [
        ("20.1", 0.05),
        ("20.10", 0.005),
        ("2201", 0.5),
        ("-1180", 0.5),
        ("1.5e-3", 5e-5),
        ("2E3", 500.0),
    ],
)
def test_the_last_digit_sets_the_half_unit(text, half_unit):
    assert Printed(text).half_unit == pytest.approx(half_unit, rel=1e-12)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("20,1", "0.1", 3, "20.5", "0.1", 3), "text that is a number; got '20,1'"),
        ((20.1, "0.1", 3, "20.5", "0.1", 3), "text that is a number; got 20.1"),
        (("nan", "0.1", 3, "20.5", "0.1", 3), "got 'nan'"),
        (("20.1", "-0.1", 3, "20.5", "0.1", 3), "cannot be negative; got -0.1"),
        (("20.1", "0.1", 1, "20.5", "0.1", 3), "two runs per arm; got 1 and 3"),
    ],
)
def test_what_is_no_printed_figure_is_refused(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        rounding_range(*arguments)
