"""Pooled evidence: against statsmodels, the analysis of variance, and counting by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.meta_analysis import combine_effects

from analysis.pooled import mixed_model, random_effects, sign_consistency


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=15))
def test_signs_are_counted_against_a_fair_coin(differences):
    n = len(differences)
    below = sum(value < 0 for value in differences)
    less = sign_consistency(differences)
    assert (less.on_side, less.cells) == (below, n)
    assert less.p == pytest.approx(sum(math.comb(n, k) for k in range(below, n + 1)) / 2**n)
    greater = sign_consistency([-value for value in differences], "greater")
    assert less == greater
    both = sign_consistency(differences, "two-sided")
    assert both.p == pytest.approx(
        min(1.0, 2 * min(less.p, sign_consistency(differences, "greater").p))
    )


@pytest.mark.parametrize("cells", [2, 3, 8, 29])
def test_random_effects_agree_with_statsmodels(cells):
    rng = np.random.default_rng(cells)
    effect, se = rng.normal(-0.1, 0.2, cells), rng.uniform(0.05, 0.2, cells)
    theirs = combine_effects(effect, se**2, method_re="iterated", use_t=True)
    ours = random_effects(effect, se)
    # Their iteration for tau stops at 1e-5; ours solves its equation.
    assert ours.tau**2 == pytest.approx(theirs.tau2, rel=1e-5, abs=1e-5)
    assert ours.difference == pytest.approx(theirs.mean_effect_re, rel=1e-5)
    assert ours.se == pytest.approx(theirs.sd_eff_w_re_hksj, rel=1e-5)
    assert (ours.ci_low, ours.ci_high) == pytest.approx(tuple(theirs.conf_int()[3]), rel=1e-5)
    if ours.tau > 0:
        squares = ((effect - ours.difference) ** 2 / (se**2 + ours.tau**2)).sum()
        assert squares == pytest.approx(cells - 1, rel=1e-9)


def test_equal_cells_give_the_t_interval_of_their_differences():
    effect = np.array([0.1, 0.4, -0.2, 0.3, 0.05])
    ours = random_effects(effect, np.full(5, 0.01), confidence=0.9)
    theirs = stats.ttest_1samp(effect, 0.0)
    assert ours.p == pytest.approx(theirs.pvalue, rel=1e-10)
    interval = theirs.confidence_interval(0.9)
    assert (ours.ci_low, ours.ci_high) == pytest.approx(tuple(interval), rel=1e-10)


@given(st.lists(st.tuples(st.integers(-99, 99), st.integers(1, 20)), min_size=2, max_size=9,
                unique_by=lambda cell: cell[0]), st.integers(-40, 40))  # fmt: skip
def test_pooling_follows_units_signs_and_order(cells, exponent):
    effect, se = (np.array(column, dtype=float) for column in zip(*cells, strict=True))
    a = random_effects(effect, se, "less")
    b = random_effects(np.ldexp(-effect[::-1], exponent), np.ldexp(se[::-1], exponent), "greater")
    assert b.difference == pytest.approx(-math.ldexp(a.difference, exponent), rel=1e-9, abs=1e-9)
    assert b.p == pytest.approx(a.p, rel=1e-9)
    assert b.tau == pytest.approx(math.ldexp(a.tau, exponent), rel=1e-5, abs=1e-9)


def balanced(cells, seeds, seed, sd_cell=3.0, sd_seed=0.5, sd_residual=0.2):
    rng = np.random.default_rng(seed)
    cell, chosen, treated = (axis.ravel() for axis in np.indices((cells, seeds, 2)))
    value = (
        sd_cell * rng.normal(size=cells)[cell]
        + sd_seed * rng.normal(size=seeds)[chosen]
        - 0.3 * treated
        + sd_residual * rng.normal(size=len(cell))
    )
    return value, treated, cell, chosen


def test_pooled_figures_are_the_same_to_the_last_digit_in_any_order_of_cells():
    rng = np.random.default_rng(11)
    effect, se = rng.normal(0.1, 0.5, 31), rng.uniform(0.01, 2.0, 31)
    found = random_effects(effect, se)
    assert found.tau > 0
    for _ in range(20):
        order = rng.permutation(31)
        assert random_effects(effect[order], se[order]) == found


def test_a_balanced_mixed_model_is_the_analysis_of_variance():
    cells, seeds = 5, 7
    value, treated, cell, chosen = balanced(cells, seeds, seed=3)
    fit = mixed_model(value, treated, cell, chosen)
    table = value.reshape(cells, seeds, 2)
    grand, effect = table.mean(), table.mean(axis=(0, 1))
    by_cell, by_seed = table.mean(axis=(1, 2)), table.mean(axis=(0, 2))
    fitted = by_cell[:, None, None] + by_seed[None, :, None] + effect - 2 * grand
    residual = ((table - fitted) ** 2).sum() / (table.size - cells - seeds)
    assert fit.converged
    assert fit.notes == ()
    assert fit.difference == pytest.approx(effect[1] - effect[0], rel=1e-9)
    assert fit.sd_residual == pytest.approx(math.sqrt(residual), rel=1e-3)
    assert fit.se == pytest.approx(math.sqrt(residual * 2 / (cells * seeds)), rel=1e-3)
    between_cells = (by_cell.var(ddof=1) * seeds * 2 - residual) / (seeds * 2)
    between_seeds = (by_seed.var(ddof=1) * cells * 2 - residual) / (cells * 2)
    assert fit.sd_cell == pytest.approx(math.sqrt(between_cells), rel=1e-3)
    assert fit.sd_seed == pytest.approx(math.sqrt(between_seeds), rel=1e-3)


def test_rows_and_labels_of_a_mixed_model_do_not_matter():
    value, treated, cell, chosen = balanced(3, 4, seed=5)
    a = mixed_model(value, treated, cell, chosen)
    order = np.random.default_rng(1).permutation(len(value))
    names = np.array(["x", "a", "m"])[cell]
    b = mixed_model(value[order], treated[order] == 1, names[order], chosen[order] * 7)
    assert b.difference == pytest.approx(a.difference, rel=1e-9)
    assert b.se == pytest.approx(a.se, rel=1e-4)


def test_what_the_fit_says_is_kept():
    value, treated, cell, chosen = balanced(2, 2, seed=1, sd_cell=0.0, sd_seed=0.0)
    fit = mixed_model(value, treated, cell, chosen)
    assert any("boundary" in note for note in fit.notes)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: sign_consistency([]), "differences must be one row of finite numbers"),
        (lambda: sign_consistency([0.1, math.nan]), "finite"),
        (lambda: random_effects([0.1], [0.1]), "two or more cells"),
        (lambda: random_effects([0.1, 0.2], [0.1]), "got 2 and 1"),
        (lambda: random_effects([0.1, 0.2], [0.1, 0.0]), "must be positive"),
        (lambda: random_effects([0.1, 0.1], [0.1, 0.2]), "no spread to pool"),
        (lambda: mixed_model([1.0, 2], [0, 1], [1, 1], [1, 2]), "two or more cells"),
        (lambda: mixed_model([1.0, 2], [1, 1], [1, 2], [1, 2]), "needs both arms"),
    ],
)
def test_what_cannot_be_pooled_is_refused(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()
