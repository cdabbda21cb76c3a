"""Power: laws, a simulation-free check against scipy, and refusals."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from analysis.pilot import plan_from_pilot
from analysis.power import (
    exact_power,
    minimum_detectable,
    minimum_detectable_paired,
    power,
    seeds_needed,
)

ALTERNATIVES = ("less", "greater", "two-sided")
designs = st.tuples(st.floats(0.01, 1), st.integers(2, 30), st.floats(0.01, 1), st.integers(2, 30))


@given(designs, st.floats(0.001, 0.2), st.sampled_from(ALTERNATIVES))
def test_no_difference_is_found_with_probability_alpha(design, alpha, alternative):
    assert power(0.0, *design, alpha, alternative) == pytest.approx(alpha, rel=1e-9)


@given(designs, st.floats(0, 2), st.floats(0.01, 1), st.sampled_from(ALTERNATIVES))
def test_power_grows_with_the_difference(design, delta, more, alternative):
    low, high = (power(value, *design, 0.05, alternative) for value in (delta, delta + more))
    assert low <= high + 1e-12 <= 1 + 1e-12


@given(designs, st.floats(-2, 2))
def test_sides_and_signs(design, delta):
    assert power(delta, *design, alternative="less") == power(delta, *design, alternative="greater")
    both = power(delta, *design, alternative="two-sided")
    assert both == pytest.approx(power(-delta, *design, alternative="two-sided"), rel=1e-9)
    halves = (power(side * delta, *design, 0.025) for side in (1, -1))
    assert both == pytest.approx(sum(halves), rel=1e-9)


@given(designs, st.floats(0, 2))
def test_swapping_the_arms_changes_nothing(design, delta):
    sd_x, n_x, sd_y, n_y = design
    wanted = pytest.approx(power(delta, sd_x, n_x, sd_y, n_y), rel=1e-12, abs=1e-300)
    assert power(delta, sd_y, n_y, sd_x, n_x) == wanted


@pytest.mark.parametrize("n", [3, 5, 11])
def test_equal_arms_agree_with_students_noncentral_t(n):
    df, shift = 2 * n - 2, 1.5 * math.sqrt(n / 2)
    wanted = stats.nct.sf(stats.t.isf(0.01, df), df, shift)
    assert power(1.5, 1.0, n, alpha=0.01) == pytest.approx(wanted, rel=1e-9)


@given(designs, st.floats(0.3, 0.99), st.floats(0.001, 0.2), st.sampled_from(ALTERNATIVES))
def test_the_detectable_difference_has_the_target_power(design, target, alpha, alternative):
    delta = minimum_detectable(*design, target, alpha, alternative)
    assert delta > 0
    assert power(delta, *design, alpha, alternative) == pytest.approx(target, rel=1e-6)


@given(
    st.floats(0.01, 1),
    st.integers(2, 40),
    st.floats(0.3, 0.99),
    st.floats(0.001, 0.2),
    st.sampled_from(ALTERNATIVES),
)
def test_the_paired_detectable_difference_has_the_target_power(sd, n, target, alpha, alternative):
    shift = minimum_detectable_paired(sd, n, target, alpha, alternative) * math.sqrt(n) / sd
    sides = 2 if alternative == "two-sided" else 1
    critical = stats.t.isf(alpha / sides, n - 1)
    found = stats.nct.sf(critical, n - 1, shift)
    if sides == 2:
        found += stats.nct.sf(critical, n - 1, -shift)
    assert found == pytest.approx(target, rel=1e-6)


@given(st.floats(0.05, 3), st.floats(0.1, 1), st.floats(0.1, 1), st.floats(0.5, 0.95))
def test_seeds_needed_is_the_smallest_number_that_does(delta, sd_x, sd_y, target):
    n = seeds_needed(delta, sd_x, sd_y, target)
    assert power(delta, sd_x, n, sd_y, n) >= target
    if n > 2:
        assert power(delta, sd_x, n - 1, sd_y, n - 1) < target


def test_known_detectable_differences_in_deviations():
    for n, sds in ((2, 3.98), (3, 2.48), (5, 1.72), (10, 1.16), (20, 0.80)):
        assert round(minimum_detectable(1.0, n), 2) == sds
    for n, sds in ((3, 4.52), (5, 2.64)):
        assert round(minimum_detectable(1.0, n, alpha=0.05 / 8), 2) == sds
    for n, sds in ((3, 3.07), (5, 2.02)):
        assert round(minimum_detectable(1.0, n, alternative="two-sided"), 2) == sds


@given(st.integers(2, 60), st.integers(2, 60))
def test_a_pilot_is_never_trusted_beyond_its_size(n_x, n_y):
    plan = plan_from_pilot(0.2, 0.1, n_x, 0.15, n_y)
    assert plan.seeds == seeds_needed(0.2, 0.1, 0.15)
    assert plan.seeds_cautious >= plan.seeds
    assert plan.small_pilot == (min(n_x, n_y) < 10)
    assert plan.sd_x_upper > 0.1
    if n_x < n_y:
        assert plan.sd_x_upper / 0.1 > plan.sd_y_upper / 0.15


def test_the_upper_deviation_holds_in_four_of_five_pilots():
    rng = np.random.default_rng(11)
    sds = rng.normal(size=(20_000, 5)).std(axis=1, ddof=1)
    factor = plan_from_pilot(1.0, 1.0, 5, 1.0, 5).sd_x_upper
    assert (sds * factor > 1).mean() == pytest.approx(0.8, abs=4 * math.sqrt(0.16 / 20_000))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: power(1, 0.0, 3), "must be positive numbers; got 0.0 and 0.0"),
        (lambda: power(1, math.nan, 3), "must be positive numbers"),
        (lambda: power(1, 1.0, 1), "two runs per arm; got 1 and 1"),
        (lambda: power(1, 1.0, 3, alpha=0), "alpha must lie between 0 and 1"),
        (lambda: power(1, 1.0, 3, alternative="lower"), "got 'lower'"),
        (lambda: seeds_needed(0.0, 1.0), "delta must be positive, towards the alternative; got 0"),
        (lambda: seeds_needed(-1.0, 1.0), "delta must be positive"),
        (lambda: seeds_needed(1e-6, 1.0), "1000000 seeds per arm do not reach"),
        (lambda: seeds_needed(1.0, 1.0, target_power=1.0), "between alpha"),
        (lambda: minimum_detectable(1.0, 3, target_power=0.01), "between alpha"),
        (lambda: minimum_detectable_paired(0.0, 3), "must be a positive number; got 0.0"),
        (lambda: minimum_detectable_paired(1.0, 1), "needs two seeds; got 1"),
        (lambda: minimum_detectable_paired(1.0, 3, alpha=0), "alpha must lie between 0 and 1"),
        (lambda: minimum_detectable_paired(1.0, 3, alternative="lower"), "got 'lower'"),
        (lambda: plan_from_pilot(1.0, 1.0, 1, 1.0, 3), "pilot needs at least two runs"),
    ],
)
def test_wrong_designs_are_explained(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()


def test_the_search_starts_at_two_seeds():
    assert seeds_needed(delta=50.0, sd_x=0.1) == 2


ON_FILE = re.findall(
    r"^normal (.*?) +n=(\d+),(\d+) welch ([\d. ]+?) +student",
    (Path(__file__).parent / "reference" / "simulation_rules.txt").read_text(),
    re.MULTILINE,
)


@pytest.mark.parametrize(("label", "n_x", "n_y", "rates"), ON_FILE)
def test_exact_error_rates_are_those_simulated_elsewhere(label, n_x, n_y, rates):
    """No simulation here: a delta of 0 integrates to the true rate of the test."""
    ratio = re.search(r"ratio (\d+) \(([xy])", label)
    sd = {"x": 1.0, "y": 1.0} | ({ratio[2]: float(ratio[1])} if ratio else {})
    for alpha, simulated in zip(
        (0.05, 0.01, 0.00625, 0.001), map(float, rates.split()), strict=True
    ):
        exact = exact_power(0.0, sd["x"], int(n_x), sd["y"], int(n_y), alpha)
        error = 4.5 * math.sqrt(exact / 400_000) + 5e-5
        assert exact == pytest.approx(simulated, abs=error)


@given(designs, st.floats(0, 2))
def test_exact_power_has_the_symmetries_of_the_formula(design, delta):
    sd_x, n_x, sd_y, n_y = design
    exact = exact_power(delta, *design)
    assert exact == pytest.approx(exact_power(delta, sd_y, n_y, sd_x, n_x), rel=1e-6)
    assert exact == exact_power(delta, *design, alternative="greater")
    both = exact_power(delta, *design, alternative="two-sided")
    halves = (exact_power(side * delta, *design, 0.025) for side in (1, -1))
    assert both == pytest.approx(sum(halves), rel=1e-9)


def test_the_formula_approaches_the_exact_power_as_seeds_grow():
    gaps = [
        abs(power(delta, 1.0, n, 2.0, n) - exact_power(delta, 1.0, n, 2.0, n))
        for n, delta in ((5, 3.0), (20, 1.3), (80, 0.6))
    ]
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 1e-3
