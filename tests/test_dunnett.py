"""Dunnett's comparisons: scipy's figures, Student's test for one arm, and laws."""

import math

import numpy as np
import pytest
from scipy import stats

from analysis.degenerate import NoTestError, Reason
from analysis.dunnett import dunnett

ALTERNATIVES = ("less", "greater", "two-sided")


def random_arms(seed, sizes=(5, 7, 3, 11)):
    rng = np.random.default_rng(seed)
    return [rng.normal(-0.4 * i, 1, n) for i, n in enumerate(sizes)], rng.normal(size=7)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("seed", [1, 2])
def test_agrees_with_scipy_within_its_own_error(seed, alternative):
    arms, baseline = random_arms(seed)
    theirs = stats.dunnett(*arms, control=baseline, alternative=alternative, rng=1)
    ours = dunnett(arms, baseline, alternative)
    np.testing.assert_allclose(ours.t, theirs.statistic, rtol=1e-10)
    np.testing.assert_allclose(ours.p, theirs.pvalue, atol=3e-4)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("shift", [0.0, -1.0, -4.0])
def test_one_arm_is_students_test(shift, alternative):
    arms, baseline = random_arms(3)
    ours = dunnett([arms[0] + shift], baseline, alternative)
    theirs = stats.ttest_ind(arms[0] + shift, baseline, alternative=alternative)
    assert ours.t[0] == pytest.approx(theirs.statistic, rel=1e-12)
    assert ours.p[0] == pytest.approx(theirs.pvalue, rel=1e-7)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_lies_between_no_correction_and_bonferroni(alternative):
    arms, baseline = random_arms(4)
    ours = dunnett(arms, baseline, alternative)
    plain = {
        "less": stats.t.cdf(ours.t, ours.df),
        "greater": stats.t.sf(ours.t, ours.df),
        "two-sided": 2 * stats.t.sf(np.abs(ours.t), ours.df),
    }[alternative]
    assert (plain < ours.p).all()
    assert (ours.p <= np.minimum(1, len(arms) * plain) * (1 + 1e-9)).all()


def test_order_and_sign_do_not_matter():
    arms, baseline = random_arms(5)
    ours = dunnett(arms, baseline)
    np.testing.assert_allclose(dunnett(arms[::-1], baseline).p, ours.p[::-1], rtol=1e-12)
    negative = dunnett([-arm for arm in arms], -baseline, "greater")
    np.testing.assert_allclose(negative.p, ours.p, rtol=1e-12)


@pytest.mark.parametrize(
    ("arms", "baseline", "reason"),
    [
        ([[1.0, 2.0], []], [1.0, 2.0], Reason.NO_DATA),
        ([[1.0, 2.0], [1.0]], [1.0, 2.0], Reason.ONE_RUN),
        ([[1.0, math.nan]], [1.0, 2.0], Reason.NON_FINITE),
        ([[0.1] * 3], [0.3] * 3, Reason.BOTH_CONSTANT),
    ],
)
def test_degenerate_data_are_refused(arms, baseline, reason):
    with pytest.raises(NoTestError) as refusal:
        dunnett(arms, baseline)
    assert refusal.value.reason == reason


def test_a_baseline_alone_is_refused():
    with pytest.raises(ValueError, match="at least one arm besides the baseline"):
        dunnett([], [1.0, 2.0])
