"""One run against many: equal to Student's test with one run in an arm, and refusing."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from analysis.degenerate import NoTestError, Reason
from analysis.single import crawford_howell

many_runs = st.lists(st.integers(-999, 999), min_size=2, max_size=11, unique=True)


@given(st.integers(-2000, 2000), many_runs, st.sampled_from(["less", "greater", "two-sided"]))
def test_agrees_with_students_test_of_one_run(one, many, alternative):
    ours = crawford_howell(one, many, alternative)
    theirs = stats.ttest_ind([one], many, alternative=alternative)
    assert ours.t == pytest.approx(theirs.statistic, rel=1e-12, abs=1e-12)
    assert ours.p == pytest.approx(theirs.pvalue, rel=1e-10)
    assert ours.df == len(many) - 1


@pytest.mark.parametrize(
    ("one", "many", "reason"),
    [
        (1.0, [], Reason.NO_DATA),
        (1.0, [2.0], Reason.ONE_RUN),
        (math.nan, [2.0, 3.0], Reason.NON_FINITE),
        (1.0, [2.0, math.inf], Reason.NON_FINITE),
        (1.0, [2.1, 2.1, 2.1], Reason.BOTH_CONSTANT),
        (1.0, [20.0, 20.0, 20.000000000000004], Reason.BOTH_CONSTANT),
    ],
)
def test_degenerate_data_are_refused(one, many, reason):
    with pytest.raises(NoTestError) as refusal:
        crawford_howell(one, many)
    assert refusal.value.reason == reason
