"""Equivalence: duality with the interval, statsmodels' figures, margins and refusals."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from statsmodels.stats.weightstats import ttost_ind

from analysis.equivalence import tost, tost_many
from analysis.welch import welch

eighths = st.lists(st.integers(-80, 80).map(lambda k: k / 8), min_size=2, max_size=9)


@given(eighths, eighths, st.floats(0.1, 30), st.floats(0.01, 0.4))
def test_equivalent_exactly_when_the_interval_lies_inside(x, y, margin, alpha):
    assume(len(set(x)) > 1 or len(set(y)) > 1)
    result = tost(x, y, margin, alpha)
    assume(abs(result.p - alpha) > 1e-9)
    assert result.equivalent == (-margin < result.ci_low and result.ci_high < margin)
    two_sided = welch(x, y, "two-sided", 1 - 2 * alpha)
    assert (result.ci_low, result.ci_high) == pytest.approx(two_sided.ci_two_sided, rel=1e-11)


@given(eighths, eighths, st.floats(0.1, 30))
def test_swapping_arms_and_margin_changes_nothing(x, y, high):
    assume(len(set(x)) > 1 or len(set(y)) > 1)
    a, b = tost(x, y, (-0.5, high)), tost(y, x, (-high, 0.5))
    assert (a.p, a.p_above_low) == (b.p, b.p_below_high)


@pytest.mark.parametrize(("n_x", "n_y"), [(3, 3), (5, 11), (23, 7)])
def test_agrees_with_statsmodels(n_x, n_y):
    rng = np.random.default_rng(n_x)
    x, y = rng.normal(0, 1, n_x), rng.normal(0.1, 2, n_y)
    p, (_, p_low, _), (_, p_high, _) = ttost_ind(x, y, -1.5, 2.5, usevar="unequal")
    ours = tost(x, y, (-1.5, 2.5))
    assert (ours.p, ours.p_above_low, ours.p_below_high) == pytest.approx((p, p_low, p_high))


def test_many_at_once_equal_one_after_another():
    rng = np.random.default_rng(8)
    arms = rng.normal(size=(11, 2, 5))
    results = [welch(x, y) for x, y in arms]
    columns = ([getattr(r, name) for r in results] for name in ("difference", "se", "df"))
    many = tost_many(*columns, -1.0, 0.7)
    np.testing.assert_allclose(many, [tost(x, y, (-1.0, 0.7)).p for x, y in arms], rtol=1e-12)
    assert np.isnan(tost_many([np.nan], [np.nan], [np.nan], -1, 1)).all()


@pytest.mark.parametrize("margin", [0.0, -1.0, (1.0, 1.0), (2.0, -2.0), (0.0, float("inf"))])
def test_an_empty_margin_is_refused(margin):
    with pytest.raises(ValueError, match="The margin must be a positive number or"):
        tost([1.0, 2.0], [1.5, 2.5], margin)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: tost([1.0, 1.0], [1.0, 1.0], 1.0), "zero to double precision"),
        (lambda: tost([1.0], [1.0, 2.0], 1.0), "An arm has one value"),
        (lambda: tost([1.0, 2.0], [1.0, 3.0], 1.0, alpha=0.5), "between 0 and 0.5"),
    ],
)
def test_degenerate_data_are_refused(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()
