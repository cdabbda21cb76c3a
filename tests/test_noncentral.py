"""The noncentral t: against its defining integral, and finite everywhere."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, special, stats

from analysis.noncentral import noncentral_above, noncentral_below, noncentrality_for

df_values = st.floats(1.01, 500)


@pytest.mark.parametrize(
    ("t", "df", "shift"), [(2.0, 4.0, 1.0), (-1.9, 17.8, 0.2), (2.8, 4.0, 3.7), (-8.0, 2.9, -1.2)]
)
def test_agrees_with_the_defining_integral(t, df, shift):
    spread = stats.chi(df, scale=df**-0.5)
    below, _ = integrate.quad(
        lambda s: special.ndtr(t * s - shift) * spread.pdf(s), 0, 8, epsabs=1e-13, limit=200
    )
    assert noncentral_below(t, df, shift) == pytest.approx(below, rel=1e-9)
    assert noncentral_above(t, df, shift) == pytest.approx(1 - below, rel=1e-9)


@given(df_values, st.floats(-40, 40), st.floats(-1e5, 1e5), st.floats(-1e5, 1e5))
def test_is_a_probability_that_falls_as_the_noncentrality_grows(df, t, shift, other):
    low, high = sorted((shift, other))
    below_low, below_high = noncentral_below(t, df, low), noncentral_below(t, df, high)
    assert 0 <= below_high <= below_low + 1e-8 <= 1 + 1e-8


@pytest.mark.parametrize("df", [1.5, 4.0, 30.0, 400.0])
def test_the_limit_takes_over_without_a_step(df):
    for share in (0.5, 0.9, 1.0, 1.1, 2.0):
        series = noncentral_below(9_999.9 * share, df, 9_999.9)
        limit = noncentral_below(10_000.1 * share, df, 10_000.1)
        assert series == pytest.approx(limit, abs=2e-6)


@given(df_values, st.floats(-1e6, 1e6), st.floats(0.001, 0.999))
def test_the_noncentrality_gives_back_the_probability(df, t, below):
    found = noncentrality_for(t, df, below)
    assert np.isfinite(found)
    assert noncentral_below(t, df, found) == pytest.approx(below, abs=2e-6)
