"""Effect sizes: laws, the two conventions, and refusals."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from analysis.degenerate import NoTestError
from analysis.effect import bonett_d, hedges_g, log_ratio, percent_of_baseline
from analysis.welch import welch

CONVENTIONS = ("delacre", "welch", "pooled")
eighths = st.lists(st.integers(-800, 800).map(lambda k: k / 8), min_size=3, max_size=9)


def sizes(x, y, **options):
    assume(len(set(x)) > 1 and len(set(y)) > 1)
    return hedges_g(x, y, **options)


@given(eighths, eighths, st.sampled_from(CONVENTIONS))
def test_swapping_the_arms_mirrors_the_interval(x, y, convention):
    a, b = sizes(x, y, convention=convention), sizes(y, x, convention=convention)
    assert a.estimate == pytest.approx(-b.estimate, rel=1e-12, abs=1e-14)
    assert a.ci_low == pytest.approx(-b.ci_high, rel=1e-9, abs=1e-9)


@given(eighths, eighths, st.sampled_from(CONVENTIONS), st.integers(-300, 300))
def test_units_and_a_common_shift_do_not_matter(x, y, convention, exponent):
    a = sizes(x, y, convention=convention)
    shifted = np.add(x, 64), np.add(y, 64)
    b = hedges_g(*(np.ldexp(arm, exponent) for arm in shifted), convention=convention)
    for name in ("estimate", "ci_low", "ci_high", "df"):
        assert getattr(b, name) == pytest.approx(getattr(a, name), rel=1e-9, abs=1e-9)
    assert b.standardizer == pytest.approx(math.ldexp(a.standardizer, exponent), rel=1e-12)


@given(eighths, eighths)
def test_one_sided_ends_are_the_two_sided_ends_at_twice_the_tail(x, y):
    both = sizes(x, y, confidence=0.9)
    less = hedges_g(x, y, confidence=0.95, alternative="less")
    greater = hedges_g(x, y, confidence=0.95, alternative="greater")
    assert (less.ci_low, greater.ci_high) == (-math.inf, math.inf)
    assert less.ci_high == pytest.approx(both.ci_high, rel=1e-9, abs=1e-9)
    assert greater.ci_low == pytest.approx(both.ci_low, rel=1e-9, abs=1e-9)


@given(eighths, eighths)
def test_the_welch_convention_excludes_zero_exactly_when_welch_rejects(x, y):
    g = sizes(x, y, convention="welch")
    p = welch(x, y, "two-sided").p
    assume(abs(p - 0.05) > 1e-9)
    assert (p < 0.05) == (not g.ci_low <= 0 <= g.ci_high)


def test_conventions_agree_for_equal_sizes_and_part_for_unequal_ones():
    x, y = [21.0, 21.3, 20.8, 21.9], [20.1, 20.4, 19.9, 20.2]
    delacre, welch_df = (hedges_g(x, y, convention=name) for name in ("delacre", "welch"))
    assert delacre.estimate == pytest.approx(welch_df.estimate, rel=1e-12)
    short = [hedges_g(x, y[:3], convention=name) for name in CONVENTIONS]
    assert len({round(g.estimate, 6) for g in short}) == 3


def test_the_correction_shrinks_and_is_exact_for_two_degrees_of_freedom():
    x, y = [1.0, 2.0], [4.0, 5.0]
    g, d = hedges_g(x, y, "pooled"), hedges_g(x, y, "pooled", corrected=False)
    assert g.correction == pytest.approx(1 / math.sqrt(math.pi), rel=1e-14)
    assert g.estimate == pytest.approx(d.estimate * g.correction, rel=1e-14)
    assert hedges_g(np.arange(4001.0), np.arange(4001.0) + 1).correction > 0.9998


@pytest.mark.parametrize("gap", [1e3, 1e6, 1e9])
def test_huge_effects_have_finite_intervals_in_proportion(gap):
    x, y = np.array([0.0, 1.0, 3.0]), np.array([0.0, 1.5, 3.0])
    g = hedges_g(x, y + gap)
    near = hedges_g(x, y + 300.0)
    assert g.ci_low < g.estimate < g.ci_high < 0
    assert g.ci_low / g.estimate == pytest.approx(near.ci_low / near.estimate, rel=1e-3)
    assert g.ci_high / g.estimate == pytest.approx(near.ci_high / near.estimate, rel=1e-3)


@given(eighths, eighths)
def test_bonett_is_centred_and_shares_the_standardizer(x, y):
    g = sizes(x, y)
    d = bonett_d(x, y)
    assert (d.ci_low + d.ci_high) / 2 == pytest.approx(d.estimate, rel=1e-9, abs=1e-12)
    assert d.standardizer == g.standardizer
    assert d.estimate * g.correction == pytest.approx(g.estimate, rel=1e-12, abs=1e-14)


@given(st.lists(st.integers(1, 999), min_size=2, max_size=7),
       st.lists(st.integers(1, 999), min_size=2, max_size=7))  # fmt: skip
def test_a_ratio_is_the_exponential_of_the_difference_of_logs(x, y):
    assume(len(set(x)) > 1 or len(set(y)) > 1)
    logs = welch(np.log(x), np.log(y), "two-sided", 0.9)
    ratio = log_ratio(x, y, 0.9)
    assert ratio.ratio == pytest.approx(math.exp(logs.difference), rel=1e-12)
    assert ratio.ci_low == pytest.approx(math.exp(logs.ci_low), rel=1e-10)
    assert ratio.ci_high == pytest.approx(math.exp(min(logs.ci_high, 700)), rel=1e-10) or (
        logs.ci_high > 700
    )


def test_a_one_sided_ratio_is_open_at_zero_or_infinity():
    x, y = [20.1, 20.2, 20.0], [20.5, 20.6, 20.4]
    assert log_ratio(x, y, alternative="less").ci_low == 0
    assert log_ratio(x, y, alternative="greater").ci_high == math.inf
    assert log_ratio(x, y, alternative="less").ci_high < log_ratio(x, y).ci_high


def test_percent_is_of_the_magnitude_and_missing_for_zero():
    percent = percent_of_baseline([-1.0, 1.0, 1.0], [20.0, -20.0, 0.0])
    np.testing.assert_array_equal(percent, [-5.0, 5.0, math.nan])


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: hedges_g([1, 1], [2, 2]), "zero to double precision"),
        (lambda: hedges_g([1.0], [2, 3]), "An arm has one value"),
        (lambda: hedges_g([1, 1], [2, 3]), "more than one degree of freedom"),
        (lambda: hedges_g([1, 2], [2, 3], "glass"), "one of delacre, welch, pooled; got 'glass'"),
        (lambda: hedges_g([1, 2], [2, 3], confidence=1.0), "between 0 and 1"),
        (lambda: hedges_g([1, 2], [2, 3], alternative="two.sided"), "'two-sided'; got 'two.sided'"),
        (lambda: bonett_d([1, math.inf], [2, 3]), "not finite"),
        (lambda: log_ratio([1, 0.0], [2, 3]), "positive values; x holds 0.0"),
    ],
)
def test_what_has_no_effect_size_is_refused(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()


def test_the_refusal_carries_the_difference():
    with pytest.raises(NoTestError) as refusal:
        hedges_g([1.0, 1.0], [3.5, 3.5])
    assert refusal.value.difference == -2.5
