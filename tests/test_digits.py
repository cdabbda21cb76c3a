"""Printed numbers: digits follow the spread, p is never 0 and never crosses its threshold."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.digits import (
    DASH,
    decimals,
    format_difference,
    format_interval,
    format_mean,
    format_number,
    format_p,
    missing,
    p_is,
)

probabilities = st.floats(min_value=5e-324, max_value=1.0)


@given(probabilities)
def test_p_is_never_printed_as_zero(p):
    assert any(digit in "123456789" for digit in format_p(p))


@given(probabilities, st.sampled_from([0.05, 0.05 / 8, 0.01, 1e-5, 1e-9]))
def test_a_printed_p_stays_on_its_side_of_the_threshold(p, alpha):
    text = format_p(p, alpha)
    if text.startswith("< "):
        assert p < float(text[2:])
        assert p <= alpha or alpha < p < 1e-4
    else:
        assert (float(text) <= alpha) == (p <= alpha)


@pytest.mark.parametrize(
    ("p", "text"),
    [
        (0.0031, "0.0031"),
        (0.00009999, "< 0.0001"),
        (1e-300, "< 0.0001"),
        (0.0, "< 0.0001"),
        (0.0001, "0.0001"),
        (0.09, "0.0900"),
        (0.25, "0.250"),
        (1.0, "1.000"),
        (math.nan, DASH),
    ],
)
def test_p_in_print(p, text):
    assert format_p(p) == text


def test_p_just_above_alpha_is_not_rounded_onto_it():
    assert format_p(0.05000001, 0.05) == "0.05000001"
    assert format_p(0.05, 0.05) == "0.0500"
    assert format_p(8e-5, 6.25e-5) == "0.00008"


def test_p_in_a_sentence():
    assert p_is(0.0123) == "p = 0.0123"
    assert p_is(1e-8) == "p < 0.0001"


@given(st.floats(min_value=-1e6, max_value=1e6), st.floats(min_value=1e-6, max_value=1e5))
def test_a_number_is_within_half_a_unit_of_its_last_digit(x, spread):
    text = format_number(x, spread)
    places = len(text.partition(".")[2])
    assert places == decimals(spread)
    assert abs(float(text) - x) <= 0.5000001 * 10.0**-places + 1e-9 * abs(x)


@given(st.floats(min_value=1e-8, max_value=1e8))
def test_a_spread_below_a_hundred_shows_two_significant_digits(spread):
    text = format_number(spread, spread)
    significant = text.replace(".", "").lstrip("0")
    assert len(significant) == 2 if spread < 99 else len(significant) >= 2


@pytest.mark.parametrize(
    ("x", "spread", "text"),
    [
        (-0.00001, 0.01, "0.000"),
        (-3.1, math.nan, "-3.1"),
        (26.61234567, math.inf, "26.6123"),
        (1e150, 1e149, "1e+150"),
        (1.5e-13, 1e-14, "1.5e-13"),
        (math.inf, 0.1, "inf"),
        (math.nan, 0.1, DASH),
        (3.0, 0.0, "3"),
    ],
)
def test_extreme_numbers(x, spread, text):
    assert format_number(x, spread) == text


def test_one_run_has_no_spread_and_no_run_has_no_mean():
    assert format_mean(43.3, math.nan, 1) == f"43.3 ± {DASH} (1)"
    assert format_mean(math.nan, math.nan, 0) == f"{DASH} (0)"
    assert format_mean(20.1, 0.0, 5) == "20.1 ± 0 (5)"


def test_difference_and_interval_share_their_decimals():
    row = {"difference": -0.0123456, "ci_low": -0.0201, "ci_high": -0.0045678}
    assert format_difference(row) == "-0.0123"
    assert format_interval(row) == "[-0.0201, -0.0046]"


@pytest.mark.parametrize("low", [math.nan, None])
def test_an_interval_without_an_end_is_a_dash(low):
    assert format_interval({"ci_low": low, "ci_high": 0.2}) == DASH


@pytest.mark.parametrize("value", [None, math.nan, ""])
def test_missing_cells(value):
    assert missing(value)


@pytest.mark.parametrize("value", [0, 0.0, False, "nan", "x"])
def test_cells_that_hold_a_value(value):
    assert not missing(value)
