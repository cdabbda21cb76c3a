"""Permutation and bootstrap: against counting by hand in rational arithmetic, and seeds used."""

import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from analysis.degenerate import NoTestError
from analysis.exact import centred, integers
from analysis.resample import bootstrap_interval, permutation_floor, permutation_test

ALTERNATIVES = ("less", "greater", "two-sided")
# A tenth is no sum of powers of two, so sums that tie on paper may or may not tie as stored.
tenths = st.lists(st.integers(-9, 9).map(lambda k: k / 10), min_size=2, max_size=4)


def count_by_hand(x, y, alternative, statistic):
    """Share of labellings at least as extreme, in fractions, one labelling at a time."""

    def value(chosen):
        a = [pool[i] for i in chosen]
        b = [pool[i] for i in range(len(pool)) if i not in chosen]
        d = sum(a) / len(a) - sum(b) / len(b)
        if statistic == "mean":
            return d
        v = sum(
            sum((value - sum(arm) / len(arm)) ** 2 for value in arm) / (len(arm) - 1) / len(arm)
            for arm in (a, b)
        )
        signed_square = (d > 0) - (d < 0)
        return (signed_square * d * d / v) if v else signed_square * math.inf if d else None

    pool = [Fraction(v) for v in (*x, *y)]
    observed = value(range(len(x)))
    count = total = 0
    for chosen in combinations(range(len(pool)), len(x)):
        other, total = value(chosen), total + 1
        if other is None:  # equal constants on both sides count as a tie
            count += 1
        elif alternative == "less":
            count += other <= observed
        elif alternative == "greater":
            count += other >= observed
        else:
            count += abs(other) >= abs(observed)
    return count, total


@pytest.mark.parametrize("statistic", ["mean", "welch"])
@given(tenths, tenths, st.sampled_from(ALTERNATIVES))
def test_counts_what_rational_arithmetic_counts(statistic, x, y, alternative):
    assume(len(set(x)) > 1 or len(set(y)) > 1)
    result = permutation_test(x, y, alternative, statistic)
    assert (result.count, result.labellings) == count_by_hand(x, y, alternative, statistic)
    assert result.p == result.count / result.labellings
    assert result.exact


@pytest.mark.parametrize("statistic", ["mean", "welch"])
@given(tenths, tenths, st.randoms(use_true_random=False))
def test_order_swap_and_sign_do_not_matter(statistic, x, y, order):
    assume(len(set(x)) > 1 or len(set(y)) > 1)
    p = permutation_test(x, y, "less", statistic).p
    shuffled = order.sample(x, len(x)), order.sample(y, len(y))
    assert permutation_test(*shuffled, "less", statistic).p == p
    assert permutation_test(y, x, "greater", statistic).p == p
    assert permutation_test(np.negative(x), np.negative(y), "greater", statistic).p == p


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300])
def test_ties_are_kept_at_any_scale(scale):
    x, y = np.array([1.0, 2.0, 2.0]) * scale, np.array([2.0, 2.0, 3.0, 3.0]) * scale
    plain = permutation_test([1, 2, 2], [2, 2, 3, 3])
    assert permutation_test(x, y) == plain
    assert permutation_test(x, y, statistic="welch").p == permutation_test(
        [1, 2, 2], [2, 2, 3, 3], statistic="welch"
    ).p  # fmt: skip


def test_agrees_with_scipy_where_there_are_no_ties():
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=7), rng.normal(0.5, 1, 6)
    for alternative in ALTERNATIVES:
        theirs = stats.permutation_test(
            (x, y), lambda a, b, axis: a.mean(axis) - b.mean(axis), vectorized=True,
            alternative=alternative, n_resamples=np.inf,
        )  # fmt: skip
        if alternative != "two-sided":  # scipy doubles the smaller side
            assert permutation_test(x, y, alternative).p == pytest.approx(theirs.pvalue, rel=1e-12)


@pytest.mark.parametrize(("n", "survivors"), [(3, 1), (4, 3), (5, 12), (6, 46)])
def test_the_floor_bounds_the_family_that_can_survive(n, survivors):
    separated = permutation_test(np.arange(n), np.arange(n) + 100)
    assert separated.p == separated.floor == permutation_floor(n, n)
    assert math.floor(0.05 / separated.floor * (1 + 1e-12)) == survivors
    both = permutation_test(np.arange(n), np.arange(n) + 100, "two-sided")
    assert both.p == both.floor == 2 * separated.floor
    uneven = permutation_test(np.arange(n), np.arange(n + 1) + 100, "two-sided")
    assert uneven.floor == 1 / math.comb(2 * n + 1, n)


def test_too_many_labellings_are_sampled_with_a_seed():
    rng = np.random.default_rng(6)
    x, y = rng.normal(size=17), rng.normal(0.4, 1, 13)
    with pytest.raises(ValueError, match="119759850 labellings are too many to list; give rng"):
        permutation_test(x, y)
    first = permutation_test(x, y, rng=1, resamples=1999)
    assert not first.exact
    assert first == permutation_test(x, y, rng=1, resamples=1999)
    assert first == permutation_test(x, y, rng=np.random.default_rng(1), resamples=1999)
    assert first != permutation_test(x, y, rng=2, resamples=1999)
    assert first.floor == 1 / 2000
    exact = stats.ttest_ind(x, y, alternative="less").pvalue
    assert first.p == pytest.approx(exact, abs=0.03)


def test_a_sampled_p_is_never_zero():
    separated = permutation_test(np.arange(19), np.arange(19) + 100, rng=3, resamples=99)
    assert separated.p == separated.floor == 0.01


def test_the_bootstrap_uses_its_seed():
    x, y = np.random.default_rng(9).normal([[0.0], [1.0]], 1, (2, 13))
    first = bootstrap_interval(x, y, rng=1)
    assert first == bootstrap_interval(x, y, rng=np.random.default_rng(1))
    assert first != bootstrap_interval(x, y, rng=2)
    assert first.ci_low < first.difference < first.ci_high


def test_the_bootstrap_never_leaves_the_data_and_narrows_with_the_level():
    x, y = [1.0, 2.0, 4.0], [3.0, 5.0, 9.0]
    wide, narrow = bootstrap_interval(x, y, 1, 0.99), bootstrap_interval(x, y, 1, 0.5)
    assert 1 - 9 <= wide.ci_low <= narrow.ci_low < narrow.ci_high <= wide.ci_high <= 4 - 3


def test_the_bootstrap_agrees_with_scipy():
    rng = np.random.default_rng(7)
    x, y = rng.normal(size=31), rng.normal(size=23)
    theirs = stats.bootstrap(
        (x, y), lambda a, b, axis: a.mean(axis) - b.mean(axis), method="percentile", rng=1
    ).confidence_interval
    ours = bootstrap_interval(x, y, rng=1)
    assert (ours.ci_low, ours.ci_high) == pytest.approx((theirs.low, theirs.high), abs=0.02)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=9))
def test_integers_keep_every_bit(values):
    exact = integers(np.array(values))
    kept = [Fraction(value) for value in values]
    for a, b in zip(range(len(values)), range(1, len(values)), strict=False):
        assert exact[a] * kept[b] == exact[b] * kept[a]
        assert (exact[a] < exact[b]) == (kept[a] < kept[b])
    assert np.abs(centred(exact)).max() in (0.0, 1.0)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: permutation_test([1, 1], [1, 1]), "zero to double precision"),
        (lambda: permutation_test([1.0], [1, 2]), "An arm has one value"),
        (lambda: permutation_test([1, math.nan], [1, 2]), "not finite"),
        (lambda: permutation_test([1, 2], [1, 3], "lower"), "got 'lower'"),
        (lambda: permutation_test([1, 2], [1, 3], statistic="median"), "'mean' or 'welch'"),
        (lambda: bootstrap_interval([1, 2], [1, 3], 0, confidence=2), "between 0 and 1"),
        (lambda: bootstrap_interval([], [1, 3], 0), "An arm has no values"),
        (lambda: permutation_floor(3, 3, "lower"), "got 'lower'"),
    ],
)
def test_degenerate_data_and_wrong_arguments_are_refused(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()


def test_refusals_are_no_tests():
    with pytest.raises(NoTestError):
        bootstrap_interval([2.0, 2.0], [2.0, 2.0], rng=0)
