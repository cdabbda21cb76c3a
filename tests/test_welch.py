"""Welch's test: laws on open-ended input, agreement with scipy, and every refusal."""

import math
import time
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from analysis.degenerate import NoTestError, Reason
from analysis.welch import welch, welch_from_summary, welch_many

ALTERNATIVES = ("less", "greater", "two-sided")
# Eighths are exact in binary, so that shifting them by whole numbers loses nothing.
eighths = st.lists(st.integers(-8000, 8000).map(lambda k: k / 8), min_size=2, max_size=11)
anything = st.lists(st.floats(-1e9, 1e9), min_size=2, max_size=7)


def spread_out(x, y):
    assume(len(set(x)) > 1 or len(set(y)) > 1)


def result_of(x, y, *args):
    try:
        return welch(x, y, *args)
    except NoTestError:
        assume(False)


@given(eighths, eighths, st.sampled_from(ALTERNATIVES))
def test_swapping_the_arms_mirrors_everything(x, y, alternative):
    spread_out(x, y)
    mirror = {"less": "greater", "greater": "less", "two-sided": "two-sided"}[alternative]
    a, b = welch(x, y, alternative), welch(y, x, mirror)
    assert (a.difference, a.t, a.df, a.p) == (-b.difference, -b.t, b.df, b.p)
    assert (a.ci_low, a.ci_high) == (-b.ci_high, -b.ci_low)


@given(eighths, eighths)
def test_negating_the_values_exchanges_the_sides(x, y):
    spread_out(x, y)
    a, b = welch(x, y, "less"), welch(np.negative(x), np.negative(y), "greater")
    assert (a.t, a.p) == (-b.t, b.p)


@given(anything, anything, st.randoms(use_true_random=False))
def test_the_order_of_seeds_does_not_matter(x, y, order):
    a = result_of(x, y)
    assert a == welch(order.sample(x, len(x)), order.sample(y, len(y)))


@given(anything, anything, st.integers(-900, 900))
def test_a_power_of_two_changes_only_the_unit(x, y, exponent):
    assume(all(v == 0 or abs(v) > 1e-9 for v in x + y))
    a = result_of(x, y)
    b = welch(np.ldexp(x, exponent), np.ldexp(y, exponent))
    assert (a.t, a.df, a.p, a.log10_p) == (b.t, b.df, b.p, b.log10_p)
    assert math.ldexp(a.difference, exponent) == b.difference
    assert math.ldexp(a.ci_high, exponent) == b.ci_high


@given(eighths, eighths, st.integers(-10_000, 10_000))
def test_a_common_shift_changes_nothing(x, y, shift):
    spread_out(x, y)
    a, b = welch(x, y), welch(np.add(x, shift), np.add(y, shift))
    assert b.t == pytest.approx(a.t, rel=1e-12, abs=1e-12)
    assert b.p == pytest.approx(a.p, rel=1e-10)


@given(eighths, eighths, st.lists(st.integers(-500, 500), min_size=2, max_size=5))
def test_p_rises_as_the_treatment_moves_up(x, y, shifts):
    spread_out(x, y)
    p = [welch(np.add(x, shift), y, "less").p for shift in sorted(shifts)]
    assert all(before <= after * (1 + 1e-12) for before, after in pairwise(p))


@given(anything, anything)
def test_the_sides_add_up(x, y):
    less = result_of(x, y, "less")
    greater, both = welch(x, y, "greater"), welch(x, y, "two-sided")
    assert less.p + greater.p == pytest.approx(1, rel=1e-14)
    assert both.p == pytest.approx(2 * min(less.p, greater.p), rel=1e-14)
    assert both.ci_two_sided == (both.ci_low, both.ci_high) == less.ci_two_sided
    assert less.ci_low == -math.inf
    assert greater.ci_high == math.inf


@given(anything, anything)
def test_degrees_of_freedom_stay_between_the_smaller_arm_and_both(x, y):
    result = result_of(x, y)
    assert min(len(x), len(y)) - 1 <= result.df <= len(x) + len(y) - 2


@given(anything, anything)
def test_the_difference_is_exact_to_the_last_digit(x, y):
    result = result_of(x, y)
    exact = sum(map(Fraction, x)) / len(x) - sum(map(Fraction, y)) / len(y)
    rounding = max(map(abs, x + y)) * 2**-100
    assert result.difference == pytest.approx(float(exact), rel=1e-14, abs=rounding)


@given(eighths, eighths, st.sampled_from(ALTERNATIVES), st.floats(0.001, 0.999))
def test_p_is_below_alpha_exactly_when_the_interval_excludes_zero(x, y, alternative, alpha):
    spread_out(x, y)
    result = welch(x, y, alternative, 1 - alpha)
    assume(abs(result.p - alpha) > 1e-9)
    assert (result.p < alpha) == (not result.ci_low <= 0 <= result.ci_high)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize(("n_x", "n_y"), [(2, 2), (2, 11), (3, 7), (13, 5), (101, 97)])
def test_agrees_with_scipy(n_x, n_y, alternative):
    rng = np.random.default_rng(n_x * n_y)
    x, y = rng.normal(3.28, 0.004, n_x), rng.normal(3.281, 0.001, n_y)
    ours = welch(x, y, alternative, 0.99)
    theirs = stats.ttest_ind(x, y, equal_var=False, alternative=alternative)
    interval = theirs.confidence_interval(0.99)
    assert ours.t == pytest.approx(theirs.statistic, rel=1e-10)
    assert ours.df == pytest.approx(theirs.df, rel=1e-10)
    assert ours.p == pytest.approx(theirs.pvalue, rel=1e-10)
    assert (ours.ci_low, ours.ci_high) == pytest.approx(tuple(interval), rel=1e-9)


def test_values_and_their_summary_give_the_same_test():
    x, y = [3.1, 3.4, 3.3], [3.5, 3.9, 3.6, 3.7, 3.8]
    a = welch(x, y)
    b = welch_from_summary(a.mean_x, a.sd_x, 3, a.mean_y, a.sd_y, 5)
    assert b.t == pytest.approx(a.t, rel=1e-14)
    assert b.p == pytest.approx(a.p, rel=1e-14)


def test_printed_means_are_subtracted_as_decimals():
    result = welch_from_summary(2.919458, 0.000737, 80, 2.919946, 0.000839, 80)
    assert result.difference == -0.000488
    assert 2.919458 - 2.919946 != -0.000488


def random_summaries(count, seed):
    rng = np.random.default_rng(seed)
    mean_x, mean_y = rng.normal(3.3, 0.01, (2, count))
    sd_x, sd_y = rng.uniform(0.0005, 0.01, (2, count))
    n_x, n_y = rng.integers(2, 14, (2, count))
    return mean_x, sd_x, n_x, mean_y, sd_y, n_y


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_many_tests_equal_one_after_another(alternative):
    summaries = random_summaries(67, seed=1)
    many = welch_many(*summaries, alternative, 0.9)
    for row, summary in enumerate(zip(*summaries, strict=True)):
        one = welch_from_summary(*summary, "sd", alternative, 0.9)
        for name in ("t", "df", "p", "log10_p", "ci_low", "ci_high", "se"):
            wanted = pytest.approx(getattr(one, name), rel=1e-10)
            assert getattr(many, name)[row] == wanted
        assert many.ci_two_sided_low[row] == pytest.approx(one.ci_two_sided[0], rel=1e-10)


def test_intervals_at_many_levels_come_from_one_call():
    summaries = random_summaries(5, seed=2)
    levels = [0.8, 0.95, 1 - 0.05 / 8]
    together = welch_many(*summaries, "greater", np.reshape(levels, (3, 1)))
    assert together.ci_low.shape == (3, 5)
    for row, level in enumerate(levels):
        apart = welch_many(*summaries, "greater", level)
        np.testing.assert_array_equal(together.ci_low[row], apart.ci_low)
        np.testing.assert_array_equal(together.ci_two_sided_high[row], apart.ci_two_sided_high)


def test_rows_without_a_test_are_missing_and_say_why():
    nan, inf = math.nan, math.inf
    columns = welch_many(
        mean_x=[1.0, nan, inf, 1.0, 1.0, 1.0, 20.0, 1.0],
        sd_x=[0.1, nan, 0.1, nan, 0.0, 0.0, 1e-15, nan],
        n_x=[3, 0, 3, 1, 3, 3, 3, 3],
        mean_y=1.5,
        sd_y=[0.1, 0.1, 0.1, 0.1, 0.0, 0.1, 1e-15, 0.1],
        n_y=3,
    )
    assert columns.reason.tolist() == [
        "", "no_data", "non_finite", "one_run", "both_constant", "", "both_constant", "non_finite",
    ]  # fmt: skip
    missing = columns.reason != ""
    for name in ("t", "df", "p", "log10_p", "se", "ci_low", "ci_high", "ci_two_sided_low"):
        np.testing.assert_array_equal(np.isnan(getattr(columns, name)), missing)
    assert columns.difference[4] == -0.5
    assert columns.constant_arm.tolist() == [False] * 5 + [True, False, False]


@pytest.mark.parametrize(
    ("x", "y", "reason"),
    [
        ([], [1.0, 2.0], Reason.NO_DATA),
        ([1.0, math.nan], [1.0, 2.0], Reason.NON_FINITE),
        ([1.0, 2.0], [1.0, -math.inf], Reason.NON_FINITE),
        ([1.0], [1.0, 2.0], Reason.ONE_RUN),
        ([20.0, 20.0, 20.0], [21.0], Reason.ONE_RUN),
        ([0.1] * 3, [0.3] * 3, Reason.BOTH_CONSTANT),
        ([20.0, 20.0, 20.000000000000004], [21.0] * 3, Reason.BOTH_CONSTANT),
        ([0.0] * 4, [0.0] * 5, Reason.BOTH_CONSTANT),
    ],
)
def test_degenerate_data_are_refused_in_one_sentence(x, y, reason):
    with pytest.raises(NoTestError, match=r"^[A-Z].*\.$") as refusal:
        welch(x, y)
    assert refusal.value.reason == reason


@pytest.mark.parametrize("value", [20.1, 0.04, 0.1, 1 / 3, 49.99, 1e-310, 1e300])
@pytest.mark.parametrize(("n_x", "n_y"), [(5, 7), (10, 30), (3, 8)])
def test_identical_constants_never_differ(value, n_x, n_y):
    with pytest.raises(NoTestError) as refusal:
        welch([value] * n_x, [value] * n_y)
    assert refusal.value.reason == Reason.BOTH_CONSTANT
    assert refusal.value.difference == 0


def test_one_constant_arm_is_tested_and_marked():
    result = welch([20.4, 20.5, 20.45], [20.1] * 4)
    assert result.constant_arm
    assert (result.df, result.sd_y) == (2, 0)
    assert not welch([20.4, 20.5], [20.1, 20.2]).constant_arm


@pytest.mark.parametrize("unit", [5e-324, 1e-200, 1e200, 2.0**1020])
def test_extreme_units_stay_in_range(unit):
    x, y = np.array([2.0, 4.0, 7.0]) * unit, np.array([4.0, 8.0, 10.0]) * unit
    result, plain = welch(x, y), welch([2.0, 4.0, 7.0], [4.0, 8.0, 10.0])
    wanted = pytest.approx((plain.t, plain.df, plain.p), rel=1e-13)
    assert (result.t, result.df, result.p) == wanted


def test_p_goes_down_to_the_smallest_double_and_its_logarithm_beyond():
    low, high = np.arange(200.0), np.arange(200.0)
    shifts = np.arange(500, 1000, 25)
    results = [welch(low, high + shift) for shift in shifts]
    log10_p = np.array([result.log10_p for result in results])
    assert (np.diff(log10_p, 2) > 0).all()  # smooth over the change of method near 1e-280
    assert log10_p.max() > -275
    assert log10_p.min() < -350
    for result in results:
        if result.log10_p > -307:
            assert math.log10(result.p) == pytest.approx(result.log10_p, rel=1e-12)
        elif result.log10_p > -323:
            assert result.p > 0


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: welch(["a", "b"], [1.0, 2.0]), "x must hold numbers, one per seed"),
        (lambda: welch([[1.0, 2.0]], [1.0, 2.0]), r"shape \(1, 2\)"),
        (lambda: welch([1.0, 2.0], 3.0), r"y must be one row"),
        (lambda: welch([1, 2], [3, 5], "smaller"), "must be 'less', 'greater' or 'two-sided'"),
        (lambda: welch([1, 2], [3, 5], confidence=95), "between 0 and 1, such as 0.95; got 95"),
        (lambda: welch_from_summary(1, -0.1, 3, 2, 0.1, 3), "cannot be negative; got -0.1"),
        (lambda: welch_from_summary(1, 0.1, 3.5, 2, 0.1, 3), "n_x must be a whole number"),
        (lambda: welch_from_summary(1, 0.1, 3, 2, 0.1, 3, "std"), "one of sd, se, sd0"),
    ],
)
def test_wrong_arguments_are_explained(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()


def test_a_hundred_thousand_rows_beat_a_loop_a_hundred_times():
    summaries = random_summaries(100_000, seed=3)
    rng = np.random.default_rng(4)
    pairs = rng.normal(3.3, 0.01, (200, 2, 5))

    def seconds(work):
        start = time.perf_counter()
        work()
        return time.perf_counter() - start

    def loop():
        for x, y in pairs:
            stats.ttest_ind(x, y, equal_var=False, alternative="less").confidence_interval()

    ours = min(seconds(lambda: welch_many(*summaries)) for _ in range(3)) / 100_000
    theirs = min(seconds(loop) for _ in range(3)) / len(pairs)
    assert theirs / ours > 100
