"""What a report says: no stronger than the verdict, and silent about nothing."""

import math
import re

import pytest

from analysis.suggest import suggest
from analysis.wording import describe, replicate

VERDICTS = (
    "supported", "suggestive", "not supported", "equivalent", "incomplete", "refused",
)  # fmt: skip
NUMBERS = (
    "mean_treatment", "mean_baseline", "sd_treatment", "sd_baseline", "difference",
    "difference_percent", "ci_low", "ci_high", "ci_one_sided", "t", "df", "p", "p_bonferroni",
    "p_holm", "hedges_g", "g_low", "g_high", "p_permutation", "permutation_floor",
    "minimum_detectable",
)  # fmt: skip


def make_row(**changes):
    row = {
        "comparison": "affine v plain", "treatment": "affine", "baseline": "plain",
        "metric": "loss", "split": "valid", "alternative": "less", "n_treatment": 5,
        "n_baseline": 5, "mean_treatment": 3.18, "mean_baseline": 3.2, "sd_treatment": 0.0031,
        "sd_baseline": 0.0027, "difference": -0.02, "difference_percent": -0.625,
        "ci_level": 0.95, "ci_low": -0.0243, "ci_high": -0.0157, "ci_one_sided": -0.0166,
        "t": -10.88, "df": 7.85, "p": 0.0000026, "family_size": 8, "p_bonferroni": 0.0000208,
        "p_holm": 0.0000208, "alpha": 0.05, "survives_bonferroni": True, "survives_holm": True,
        "hedges_g": -6.2, "g_low": -9.8, "g_high": -2.9, "p_permutation": 1 / 252,
        "permutation_floor": 1 / 252, "minimum_detectable": 0.0071, "verdict": "supported",
        "flags": "",
    }  # fmt: skip
    assert set(changes) <= {*row, "test"}
    return {**row, **changes}


def test_a_supported_comparison_in_a_paper():
    assert suggest(make_row()) == (
        "The mean loss on the valid split of affine was lower than that of plain (mean difference "
        "-0.0200 nats per token, 95% CI [-0.0243, -0.0157]; Welch test, one-sided, t(7.8) = "
        "-10.88, p < 0.0001; p < 0.0001 after Bonferroni's correction for 8 declared comparisons; "
        "5 seeds per arm)."
    )


def test_everything_that_was_measured_and_tested_is_described():
    text = describe(make_row(p=0.0031, p_bonferroni=0.0248, p_holm=0.0186))
    assert "affine 3.1800 ± 0.0031 (5), plain 3.2000 ± 0.0027 (5)" in text
    assert "Difference -0.0200 nats per token (-0.62% of the baseline)" in text
    assert "two-sided 95% interval [-0.0243, -0.0157]" in text
    assert "t = -10.88, df = 7.8, p = 0.0031, one-sided bound at most -0.0166" in text
    assert "8 declared comparisons: p = 0.0248 by Bonferroni, p = 0.0186 by Holm" in text
    assert "Hedges g -6.20 [-9.80, -2.90]" in text
    assert text.endswith("Verdict: supported.")


@pytest.mark.parametrize("verdict", VERDICTS)
@pytest.mark.parametrize("alternative", ["less", "greater", "two-sided"])
def test_no_verdict_is_worded_as_no_effect(verdict, alternative):
    row = make_row(verdict=verdict, alternative=alternative)
    text = f"{describe(row)} {suggest(row)}".lower()
    for claim in ("no effect", "no difference between", "are equal.", "identical", "prove"):
        assert claim not in text.replace("that the two are equal.", "")


@pytest.mark.parametrize("verdict", ["suggestive", "not supported", "incomplete", "refused"])
def test_only_a_supported_or_equivalent_row_may_be_stated_as_a_finding(verdict):
    text = suggest(make_row(verdict=verdict))
    marks = ("lead to be tested", "no support", "No claim can be made")
    assert sum(mark in text for mark in marks) == 1


def test_not_supported_states_what_stays_possible():
    row = make_row(verdict="not supported", difference=-0.002, ci_low=-0.0071, ci_high=0.0031)
    text = describe(row)
    assert "not evidence that the two are equal" in text
    assert "differences from -0.0071 to 0.0031" in text
    assert "minimum detectable difference was 0.0071" in text


@pytest.mark.parametrize(
    ("alternative", "low", "high"), [("less", 0.0159, 0.0227), ("greater", -0.0227, -0.0159)]
)
def test_an_interval_on_the_undeclared_side_is_said_to_lie_there(alternative, low, high):
    row = make_row(
        verdict="not supported", alternative=alternative, difference=(low + high) / 2, ci_low=low,
        ci_high=high, p=0.9999, p_bonferroni=1.0, p_holm=1.0,
    )  # fmt: skip
    for text in (describe(row), suggest(row)):
        assert "on the other side, for which no test was declared" in text
        assert "equal" not in text


@pytest.mark.parametrize(
    ("alternative", "word"), [("less", "lower"), ("greater", "higher"), ("two-sided", "different")]
)
def test_the_side_is_named(alternative, word):
    for verdict in ("supported", "not supported"):
        assert word in suggest(make_row(verdict=verdict, alternative=alternative))


def test_three_seeds_rest_on_normality_and_the_exact_floor_is_stated():
    row = make_row(n_treatment=3, n_baseline=3, permutation_floor=1 / 20)
    text = describe(row)
    assert "normally distributed" in text
    assert "0.05 (1 in 20), against a threshold of 0.00625" in text
    assert "assumes normally distributed seeds" in suggest(row)


def test_three_seeds_rest_on_normality_even_where_the_exact_test_could_pass():
    row = make_row(n_treatment=3, n_baseline=3, permutation_floor=1 / 20, family_size=1)
    assert "1 in 20" in describe(row)


def test_five_seeds_in_a_small_family_need_no_such_caution():
    assert "normally distributed" not in describe(make_row())
    assert "normally distributed" not in suggest(make_row())


def test_five_seeds_in_a_large_family_do():
    assert "1 in 252" in describe(make_row(family_size=40))


@pytest.mark.parametrize("verdict", VERDICTS)
@pytest.mark.parametrize("missing", [math.nan, None])
def test_a_row_without_numbers_never_prints_nan(verdict, missing):
    row = make_row(
        verdict=verdict, n_treatment=1, flags="one_run", **dict.fromkeys(NUMBERS, missing)
    )
    texts = [describe(row), replicate(row, row, "test")]
    if verdict in ("incomplete", "refused"):
        texts.append(suggest(row))
    for text in texts:
        assert not re.search(r"\b(nan|None|inf)\b", text)


def test_a_refusal_names_its_flags():
    row = make_row(verdict="refused", flags="both_constant;equal_values", p=math.nan)
    assert "both_constant, equal_values" in describe(row)
    assert "There is no p value." in describe(row)
    assert "(both_constant, equal_values)" in suggest(row)


def test_an_incomplete_row_says_that_its_figures_decide_nothing():
    assert "decide nothing" in describe(make_row(verdict="incomplete", n_treatment=4))
    assert "only 4 and 5" in suggest(make_row(verdict="incomplete", n_treatment=4))


def test_the_replication_stands_beside_the_declared_split():
    held_out = make_row(split="test", difference=-0.011, p=0.031, verdict="suggestive")
    assert replicate(make_row(), held_out, "test") == (
        "Side by side, declared split valid: -0.0200 [-0.0243, -0.0157], p < 0.0001, supported; "
        "held-out test: -0.0110 [-0.0243, -0.0157], p = 0.0310, suggestive."
    )


def test_an_absent_replication_is_said_to_be_absent():
    assert "no values on that split" in replicate(make_row(), None, "test")


def test_holm_is_named_where_holm_was_declared():
    text = suggest(make_row(p_bonferroni=0.08, p_holm=0.04), "holm")
    assert "p = 0.0400 after Holm's correction" in text
    assert "Bonferroni" not in text


def test_units_follow_the_metric():
    assert "perplexity" in describe(make_row(metric="ppl"))
    assert "fraction correct" in describe(make_row(metric="accuracy"))
    assert "Difference -0.0200 (" in describe(make_row(metric="bleu"))


def test_a_table_without_splits_names_none():
    assert "split" not in suggest(make_row(split=""))


def test_another_test_is_named_when_the_row_names_it():
    assert "paired t test, one-sided" in suggest(make_row(test="paired t"))


def test_a_supported_comparison_says_how_the_held_out_split_came_out():
    failed = make_row(split="test", difference=-0.002, p=0.31, verdict="not supported")
    text = suggest(make_row(), held_out=failed)
    assert text.startswith(suggest(make_row()))
    assert "On the held-out test split it was not supported (-0.002" in text
    assert "p = 0.310)." in text
    assert "it was also supported" in suggest(make_row(), held_out=make_row(split="test"))
    lead = make_row(verdict="suggestive")
    assert suggest(lead, held_out=failed) == suggest(lead)


@pytest.mark.parametrize(
    ("correction", "said"),
    [
        ("fixed_sequence", "tested in the declared order until one fails"),
        ("dunnett", "judged by Dunnett's procedure over"),
        ("holm", "after Holm's correction for"),
    ],
)
def test_the_declared_correction_is_named_also_where_it_adjusts_no_p(correction, said):
    assert said in suggest(make_row(), correction)


def test_a_result_that_a_flag_holds_back_is_not_blamed_on_the_correction():
    text = suggest(make_row(verdict="suggestive", flags="optional_stopping;equal_values"))
    assert "cannot count as support (optional_stopping)" in text
    assert "does not survive" not in text
