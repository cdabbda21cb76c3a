"""Group-sequential plans: levels against an independent integral and simulation, and refusals."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from analysis.sequential import SequentialDecision, decide, sequential_plan

looks = st.lists(st.integers(2, 40), min_size=1, max_size=6, unique=True).map(sorted)
spendings = st.sampled_from(["obrien_fleming", "pocock"])


def crossing_by(plan, last):
    """P(some of the first looks rejects), from the multivariate normal's own integral."""
    seeds = np.array(plan.seeds[:last], dtype=float)
    correlation = np.sqrt(np.minimum.outer(seeds, seeds) / np.maximum.outer(seeds, seeds))
    sides = 2 if plan.two_sided else 1
    bounds = -special.ndtri(np.array(plan.levels[:last]) / sides)
    normal = stats.multivariate_normal(cov=correlation, seed=1, maxpts=200_000, abseps=1e-7)
    return 1 - normal.cdf(bounds)


@pytest.mark.parametrize("spending", ["obrien_fleming", "pocock"])
@pytest.mark.parametrize("seeds", [[5], [3, 6], [3, 5, 8], [3, 6, 9, 12], [4, 5, 6, 12]])
def test_each_look_spends_what_the_function_says(spending, seeds):
    plan = sequential_plan(seeds, 0.05, spending)
    for last in range(1, len(seeds) + 1):
        assert crossing_by(plan, last) == pytest.approx(plan.spent[last - 1], abs=2e-5)
    assert plan.spent[-1] == pytest.approx(0.05, rel=1e-12)


@given(looks, st.floats(0.001, 0.2), spendings)
def test_a_plan_keeps_alpha_and_lies_between_bonferroni_and_one_look(seeds, alpha, spending):
    plan = sequential_plan(seeds, alpha, spending)
    assert max(plan.levels) <= alpha * (1 + 1e-9)
    assert sum(plan.levels) >= alpha * (1 - 1e-9)
    assert np.all(np.diff(plan.spent) > 0)
    assert plan.spent[-1] == pytest.approx(alpha, rel=1e-12)


@given(looks, st.floats(0.001, 0.2), spendings)
def test_two_sided_levels_are_twice_the_one_sided_ones_of_half_alpha(seeds, alpha, spending):
    both = sequential_plan(seeds, alpha, spending, two_sided=True)
    one = sequential_plan(seeds, alpha / 2, spending)
    assert both.levels == pytest.approx([2 * level for level in one.levels], rel=1e-12)


def test_obrien_fleming_saves_alpha_for_the_end_and_pocock_spends_it_early():
    late, early = (sequential_plan([3, 6, 9, 12], 0.05, s) for s in ("obrien_fleming", "pocock"))
    assert late.levels[0] < 0.001 < 0.01 < early.levels[0]
    assert late.levels[-1] > 0.04 > early.levels[-1]


def test_one_look_is_the_plain_test():
    assert sequential_plan([5], 0.05).levels[0] == pytest.approx(0.05, rel=1e-12)


def test_the_z_bounds_of_the_source_are_reproduced():
    # Lan and DeMets's own case: five equal looks, two-sided 0.05.
    for spending, wanted in (
        ("obrien_fleming", [4.88, 3.36, 2.68, 2.29, 2.03]),
        ("pocock", [2.44, 2.43, 2.41, 2.40, 2.39]),
    ):
        levels = sequential_plan([2, 4, 6, 8, 10], 0.05, spending, two_sided=True).levels
        assert [round(-special.ndtri(level / 2), 2) for level in levels] == wanted


def test_decisions_stop_at_the_first_look_that_rejects():
    plan = sequential_plan([3, 6, 9], 0.05, "pocock")
    tiny = plan.levels[1]
    assert decide(plan, []) == SequentialDecision(False, 0, 3)
    assert decide(plan, [0.5, 0.5]) == SequentialDecision(False, 0, 1)
    assert decide(plan, [0.5, tiny, 0.9]) == SequentialDecision(True, 2, 1)
    assert decide(plan, [0.5, math.nextafter(tiny, 1), 0.9]) == SequentialDecision(False, 0, 0)


def test_a_look_far_too_early_cannot_reject():
    plan = sequential_plan([3, 1000], 1e-4)
    assert plan.levels[0] == 0.0
    assert plan.levels[1] == pytest.approx(1e-4, rel=1e-9)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: sequential_plan([]), "rising numbers of seeds per arm"),
        (lambda: sequential_plan([1, 3]), r"from 2 on; got \[1, 3\]"),
        (lambda: sequential_plan([3, 3]), "rising numbers"),
        (lambda: sequential_plan([3, 6], 0.5), "between 0 and 0.5"),
        (lambda: sequential_plan([3, 6], spending="haybittle"), "'obrien_fleming' or 'pocock'"),
        (lambda: decide(sequential_plan([3, 6]), [0.1] * 3), "has 2 looks; 3 p values came"),
        (lambda: decide(sequential_plan([3, 6]), [math.nan]), "cannot be judged"),
    ],
)
def test_wrong_plans_are_explained(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()
