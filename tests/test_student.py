"""Student's t: tails against 60-digit arithmetic, their logarithm beyond doubles, quantiles."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.student import log10_p_value, p_value, quantile, satterthwaite

# t, df, log10 of the upper tail: DLMF 8.17.8 in 60 digits (mpmath 1.3.0).
UPPER_TAILS = [
    (0.25, 3.5, -0.38904146868295141),
    (2.0, 4.0, -1.23613597091620232),
    (12.5, 1.0, -1.59498382115196957),
    (38.0, 12345.5, -298.493056357959714),
    (1e15, 20.5, -295.114783968564123),
    (1e6, 60.25, -309.169664260847111),
    (40.0, 1e6, -349.159007064075092),
    (45.0, 1e8, -441.771223044250589),
    (244.75, 798.0, -752.442100892372477),
]
df_values = st.floats(1, 1e4)


@pytest.mark.parametrize(("t", "df", "log10_tail"), UPPER_TAILS)
def test_tails_agree_with_sixty_digits(t, df, log10_tail):
    assert float(log10_p_value(t, df, "greater")) == pytest.approx(log10_tail, rel=1e-12)
    assert float(log10_p_value(-t, df, "less")) == pytest.approx(log10_tail, rel=1e-12)
    both = log10_tail + math.log10(2)
    assert float(log10_p_value(t, df, "two-sided")) == pytest.approx(both, rel=1e-12)
    if log10_tail > -307:
        assert float(p_value(t, df, "greater")) == pytest.approx(10**log10_tail, rel=1e-11)


@given(df_values, st.floats(-1e8, 1e8))
def test_the_logarithm_is_that_of_p_wherever_p_has_digits(df, t):
    for alternative in ("less", "greater", "two-sided"):
        p, log10_p = (float(f(t, df, alternative)) for f in (p_value, log10_p_value))
        assert log10_p <= 0
        if 1e-300 < p < 0.9:
            assert log10_p == pytest.approx(math.log10(p), rel=1e-11, abs=1e-15)


@given(df_values, st.floats(1e-12, 1e-3))
def test_a_p_that_is_nearly_one_keeps_the_digits_of_its_logarithm(df, t):
    density = math.exp(math.lgamma((df + 1) / 2) - math.lgamma(df / 2)) / math.sqrt(df * math.pi)
    log10_p = float(log10_p_value(t, df, "two-sided"))
    assert log10_p == pytest.approx(math.log1p(-2 * t * density) / math.log(10), rel=2e-6)


@given(df_values, st.floats(1e-12, 1 - 1e-12))
def test_quantiles_give_back_their_probability(df, probability):
    t = float(quantile(probability, df))
    assert float(p_value(t, df, "less")) == pytest.approx(probability, rel=1e-9)


def test_degrees_of_freedom_of_arrays_are_those_of_their_elements():
    rng = np.random.default_rng(12)
    sd_x, sd_y = rng.uniform(0, 1, (2, 19))
    n_x, n_y = rng.integers(2, 30, (2, 19))
    se, df = satterthwaite(sd_x, n_x, sd_y, n_y)
    a, b = sd_x**2 / n_x, sd_y**2 / n_y
    np.testing.assert_allclose(se, np.sqrt(a + b), rtol=1e-14)
    textbook = (a + b) ** 2 / (a**2 / (n_x - 1) + b**2 / (n_y - 1))
    np.testing.assert_allclose(df, textbook, rtol=1e-13)


def test_equal_arms_have_both_arms_degrees_of_freedom_and_one_constant_arm_the_others():
    for sd in (1e-200, 0.3, 1e200):
        assert float(satterthwaite(sd, 5, sd, 5)[1]) == pytest.approx(8, rel=1e-14)
    assert float(satterthwaite(0.0, 9, 2.0, 4)[1]) == 3
    assert math.isnan(float(satterthwaite(0.0, 9, 0.0, 4)[1]))
