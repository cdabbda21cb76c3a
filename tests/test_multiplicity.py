"""A family of comparisons: laws of the adjustments, edges in doubles, and statsmodels' figures."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from analysis.multiplicity import adjust, fixed_sequence, simultaneous_confidence, survives
from analysis.welch import welch_many

METHODS = ("bonferroni", "holm", "hochberg", "hommel", "bh", "by")
THEIR_NAMES = {
    "bonferroni": "bonferroni", "holm": "holm", "hochberg": "simes-hochberg",
    "hommel": "hommel", "bh": "fdr_bh", "by": "fdr_by",
}  # fmt: skip
families = st.lists(st.floats(0, 1), min_size=1, max_size=17)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("size", [1, 2, 7, 49, 101])
def test_agrees_with_statsmodels(method, size):
    p = np.random.default_rng(size).beta(0.3, 2, size).round(2)  # rounding makes ties
    theirs = multipletests(p, method=THEIR_NAMES[method])[1]
    np.testing.assert_allclose(adjust(p, method), theirs, rtol=1e-12)


@given(families, st.sampled_from(METHODS), st.randoms(use_true_random=False))
def test_the_order_given_is_the_order_returned(p, method, order):
    positions = order.sample(range(len(p)), len(p))
    shuffled = adjust(np.array(p)[positions], method)
    np.testing.assert_array_equal(shuffled, adjust(p, method)[positions])


@given(families, st.sampled_from(METHODS), st.integers(0, 9))
def test_adjusting_keeps_the_ranking_and_never_lowers_a_p(p, method, undone):
    adjusted = adjust(p, method, len(p) + undone)
    assert (adjusted >= np.array(p) * (1 - 1e-15)).all()
    assert (adjusted <= 1).all()
    assert (np.diff(adjusted[np.argsort(p, kind="stable")]) >= 0).all()


@given(families, st.integers(0, 9))
def test_stronger_corrections_adjust_more(p, undone):
    m = len(p) + undone
    by = {method: adjust(p, method, m) * (1 + 1e-12) for method in METHODS}
    for stronger, weaker in (
        ("bonferroni", "holm"), ("holm", "hochberg"), ("hochberg", "hommel"), ("hommel", "bh"),
        ("by", "bh"),
    ):  # fmt: skip
        assert (by[stronger] * (1 + 1e-12) >= by[weaker]).all()


@given(families, st.sampled_from(METHODS))
def test_a_missing_member_counts_wherever_it_stands(p, method):
    with_missing = adjust([math.nan, *p, math.nan], method)
    assert np.isnan(with_missing[[0, -1]]).all()
    np.testing.assert_array_equal(with_missing[1:-1], adjust(p, method, len(p) + 2))


@pytest.mark.parametrize("m", [1, 2, 6, 7, 11, 22, 44, 49, 1999])
def test_a_p_on_the_edge_survives_though_its_adjusted_p_may_exceed_alpha(m):
    p = np.full(m, 0.9)
    p[m // 2] = 0.05 / m
    for method in ("bonferroni", "holm", "bh"):
        assert survives(p, 0.05, m, method).sum() == 1
    p[m // 2] = math.nextafter(0.05 / m, 1)
    assert not survives(p, 0.05, m).any()


def test_adjusted_p_alone_would_judge_the_edge_differently():
    undone = [m for m in range(1, 2001) if adjust([0.05 / m], "bonferroni", m)[0] > 0.05]
    assert undone[:3] == [11, 22, 44]


@given(families, st.floats(0.001, 0.2), st.integers(0, 9))
def test_survival_follows_the_exact_rule(p, alpha, undone):
    m = len(p) + undone
    exact = [Fraction(value) for value in sorted(p)]
    share = [Fraction(alpha) / (m - rank) for rank in range(len(p))]
    assume(
        all(abs(value - Fraction(alpha) / k) > 1e-12 for value in exact for k in range(1, m + 1))
    )
    failing = [rank for rank in range(len(p)) if exact[rank] > share[rank]]
    step_down = min(failing, default=len(p))
    assert survives(p, alpha, m, "holm").sum() == step_down
    assert survives(p, alpha, m).sum() == sum(value <= Fraction(alpha) / m for value in exact)
    np.testing.assert_array_equal(survives(p, alpha, m, "bh"), adjust(p, "bh", m) <= alpha)


@given(st.integers(0, 2**32), st.integers(1, 12), st.sampled_from(["less", "greater", "two-sided"]))
def test_surviving_is_a_simultaneous_interval_that_excludes_zero(seed, m, alternative):
    rng = np.random.default_rng(seed)
    mean_x, mean_y = rng.normal(0, 1, (2, m))
    sd_x, sd_y = rng.uniform(0.05, 1, (2, m))
    n_x, n_y = rng.integers(2, 12, (2, m))
    level = simultaneous_confidence(0.05, m)
    columns = welch_many(mean_x, sd_x, n_x, mean_y, sd_y, n_y, alternative, level)
    assume((np.abs(columns.p - 0.05 / m) > 1e-12).all())
    excludes = (columns.ci_high < 0) | (columns.ci_low > 0)
    np.testing.assert_array_equal(survives(columns.p, 0.05, m), excludes)


def test_a_missing_p_never_survives():
    p = [0.001, math.nan, 0.0001]
    for method in ("bonferroni", "holm", "bh"):
        assert survives(p, 0.05, 5, method).tolist() == [True, False, True]
    assert survives([math.nan], 0.05).tolist() == [False]


def test_a_fixed_sequence_stops_at_the_first_failure():
    assert fixed_sequence([0.04, 0.05, 0.06, 0.001]).tolist() == [True, True, False, False]
    assert fixed_sequence([0.01, math.nan, 0.001]).tolist() == [True, False, False]


def test_an_empty_family_stays_empty():
    assert adjust([], "holm", 4).tolist() == []
    assert survives([], 0.05, 4).tolist() == []


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: adjust([0.1, 0.2], family_size=1), "declared with 1 comparisons but 2 p values"),
        (lambda: survives([0.1, math.nan], family_size=1), "the family is every comparison made"),
        (lambda: adjust([0.1, 1.2]), "outside 0 to 1"),
        (lambda: adjust([[0.1]]), r"shape \(1, 1\)"),
        (lambda: adjust([0.1], "sidak"), "one of bonferroni, holm"),
        (lambda: survives([0.1], alpha=5), "between 0 and 1, such as 0.05; got 5"),
        (lambda: survives([0.1], method="by"), "bonferroni, holm or bh"),
        (lambda: simultaneous_confidence(0.05, 0), "at least one comparison; got 0"),
        (lambda: fixed_sequence([0.1], alpha=0), "between 0 and 1"),
    ],
)
def test_wrong_arguments_are_explained(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()
