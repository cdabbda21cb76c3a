"""The rules a family may declare beside Welch and Bonferroni, each through the whole comparison."""

import math

import numpy as np
import pandas as pd
import pytest

from analysis.compare import compare
from analysis.dunnett import dunnett
from analysis.paired import paired_t, sign_flip_test
from analysis.power import minimum_detectable_paired
from analysis.sequential import sequential_plan
from analysis.study import parse_study
from analysis.table import tidy

RNG = np.random.default_rng(20240607)
SHARED = RNG.normal(0, 0.05, 6)
VALUES = {
    "plain": 2.0 + SHARED + RNG.normal(0, 0.004, 6),
    "better": 1.98 + SHARED + RNG.normal(0, 0.004, 6),
    "same": 2.0 + SHARED + RNG.normal(0, 0.004, 6),
}


def family(rules="", arms=("better", "same"), seeds=6, extra=""):
    comparisons = "".join(
        f'[[family.comparisons]]\nname = "{arm}"\ntreatment = "{arm}"\nbaseline = "plain"\n'
        for arm in arms
    )
    head = f'study.name = "s"\nseeds = {{ start = 1, count = {seeds} }}\n'
    return parse_study(f"{head}{extra}[family]\n{rules}\n{comparisons}")


def table(values=VALUES, seeds=6):
    rows = [
        {"arm": arm, "seed": seed + 1, "split": "valid", "metric": "loss", "value": float(value)}
        for arm, vs in values.items()
        for seed, value in enumerate(vs[:seeds])
    ]
    return tidy(pd.DataFrame(rows).astype(object), "table")


def row(frame, name):
    return frame[frame["comparison"] == name].iloc[0]


def test_a_declared_pairing_finds_what_the_shared_seeds_hide_from_welch():
    assert row(compare(table(), family()), "better")["verdict"] == "not supported"
    found = row(compare(table(), family('test = "paired_t"')), "better")
    by_seed = [dict(enumerate(VALUES[arm])) for arm in ("better", "plain")]
    alone = paired_t(*by_seed)
    assert (found["t"], found["p"], found["df"]) == pytest.approx((alone.t, alone.p, 5))
    assert found["ci_one_sided"] == pytest.approx(alone.ci_high)
    assert found["p_permutation"] == sign_flip_test(*by_seed).p == 1 / 64
    assert found["permutation_floor"] == 1 / 64
    assert found["verdict"] == "supported"


def test_two_arms_may_be_declared_by_both_tests_and_each_counts():
    declared = parse_study(
        'study.name = "s"\nseeds = { start = 1, count = 6 }\n'
        '[[family.comparisons]]\nname = "unpaired"\ntreatment = "better"\nbaseline = "plain"\n'
        '[[family.comparisons]]\nname = "paired"\ntreatment = "better"\nbaseline = "plain"\n'
        'test = "paired_t"\n'
    )
    both = compare(table(), declared)
    assert both["family_size"].tolist() == [2, 2]
    same = ["t", "df", "p", "ci_low", "ci_high", "ci_one_sided", "p_permutation"]
    for name, rules in (("unpaired", ""), ("paired", 'test = "paired_t"')):
        alone = row(compare(table(), family(rules)), "better")
        assert row(both, name)[same].tolist() == alone[same].tolist()
    paired = row(both, "paired")
    sd = np.std(VALUES["better"] - VALUES["plain"], ddof=1)
    found = minimum_detectable_paired(sd, 6, alpha=0.05 / 2)
    assert paired["minimum_detectable"] == pytest.approx(found)
    assert paired["minimum_detectable"] < row(both, "unpaired")["minimum_detectable"] / 3


def test_a_pairing_goes_by_seed_and_refuses_other_sets_of_seeds():
    expected = compare(table(), family('test = "paired_t"'))
    shuffled = table().sample(frac=1, random_state=3)
    pd.testing.assert_frame_equal(compare(shuffled, family('test = "paired_t"')), expected)
    undeclared = parse_study(
        'study.name = "s"\nfamily.test = "paired_t"\n[[family.comparisons]]\n'
        'name = "better"\ntreatment = "better"\nbaseline = "plain"\n'
    )
    rows = table()
    rows.loc[(rows["arm"] == "plain") & (rows["seed"] == 6), "seed"] = 7
    found = row(compare(rows, undeclared), "better")
    assert found["verdict"] == "refused"
    assert "unequal_seeds" in found["flags"]
    assert math.isnan(found["p"])


def test_a_declared_margin_can_say_equivalent_and_never_overrules_support():
    assert row(compare(table(), family()), "same")["verdict"] == "not supported"
    rules = 'test = "paired_t"\nmargin = 0.03'
    found = compare(table(), family(rules))
    assert row(found, "same")["verdict"] == "equivalent"
    assert row(found, "better")["verdict"] == "supported"
    narrow = compare(table(), family(rules.replace("0.03", "0.001")))
    assert row(narrow, "same")["verdict"] == "not supported"


def test_the_declared_correction_decides_while_both_p_values_are_shown():
    """A second arm with p between alpha / 2 and alpha: Holm keeps it, Bonferroni does not."""
    for shift in np.linspace(0, 0.02, 41):
        values = {"plain": VALUES["plain"], "a": VALUES["better"], "b": VALUES["better"] + shift}
        holm = compare(table(values), family('test = "paired_t"\ncorrection = "holm"', ("a", "b")))
        if row(holm, "a")["p"] <= 0.025 < row(holm, "b")["p"] <= 0.05:
            break
    bonferroni = compare(table(values), family('test = "paired_t"', ("a", "b")))
    assert row(holm, "b")["verdict"] == "supported"
    assert row(bonferroni, "b")["verdict"] == "suggestive"
    for column in ("p", "p_bonferroni", "p_holm", "survives_bonferroni", "survives_holm"):
        assert holm[column].tolist() == bonferroni[column].tolist()


def test_a_fixed_sequence_stops_at_the_first_that_fails():
    rules = 'test = "paired_t"\ncorrection = "fixed_sequence"'
    first = compare(table(), family(rules, arms=("better", "same")))
    assert first["verdict"].tolist()[0] == "supported"
    last = compare(table(), family(rules, arms=("same", "better")))
    assert row(last, "better")["verdict"] == "suggestive"


def test_dunnett_judges_all_arms_against_their_one_baseline():
    values = {arm: vs - SHARED for arm, vs in VALUES.items()}
    found = compare(table(values), family('correction = "dunnett"'))
    joint = dunnett([values["better"], values["same"]], values["plain"])
    expected = ["supported" if p <= 0.05 else "not supported" for p in joint.p]
    assert found["verdict"].tolist() == expected == ["supported", "not supported"]
    lacking = table(values)
    lacking = lacking[~((lacking["arm"] == "same") & (lacking["seed"] == 6))]
    assert "supported" not in compare(lacking, family('correction = "dunnett"'))["verdict"].tolist()


LOOKS = "looks = { seeds = [3, 6] }"
CLEAR = {arm: vs - SHARED for arm, vs in VALUES.items()}


def test_a_plan_of_looks_waits_for_its_seeds_without_showing_a_p():
    found = compare(table(CLEAR, seeds=2), family(LOOKS))
    assert found["verdict"].tolist() == ["incomplete", "incomplete"]
    waiting = row(compare(table(CLEAR, seeds=3), family(LOOKS)), "same")
    assert waiting["verdict"] == "incomplete"
    assert "look_pending" in waiting["flags"]
    assert math.isnan(waiting["p"])
    assert math.isnan(waiting["p_bonferroni"])
    between = row(compare(table(CLEAR, seeds=5), family(LOOKS)), "same")
    assert between["n_treatment"] == 3


def test_a_look_is_judged_by_its_own_level_and_the_first_rejection_decides():
    plan = sequential_plan([5, 6], 0.05 / 2, "pocock")
    rules = 'looks = { seeds = [5, 6], spending = "pocock" }'
    early = row(compare(table(CLEAR, seeds=5), family(rules)), "better")
    assert early["p"] <= plan.levels[0]
    assert early["verdict"] == "supported"
    assert "interim_look" in early["flags"]
    later = row(compare(table(CLEAR), family(rules)), "better")
    assert later["p"] == early["p"]
    assert later["n_treatment"] == 5
    full = row(compare(table(CLEAR), family(rules)), "same")
    assert (full["verdict"], full["n_treatment"]) == ("not supported", 6)
    assert "undeclared_runs" not in full["flags"]


def test_equal_values_may_be_declared_as_rightful():
    values = {"plain": VALUES["plain"] - SHARED, "better": np.full(6, 1.5), "same": VALUES["same"]}
    assert row(compare(table(values), family()), "better")["verdict"] == "suggestive"
    found = row(compare(table(values), family("deterministic = true")), "better")
    assert (found["verdict"], found["flags"]) == ("supported", "declared_constant")


def test_the_noisy_arm_being_the_small_one_is_noted():
    values = {"plain": [2.0, 2.001, 2.002, 2.003, 2.001, 2.0], "better": [1.9, 1.95, 1.8]}
    undeclared = parse_study(
        'study.name = "s"\n[[family.comparisons]]\n'
        'name = "better"\ntreatment = "better"\nbaseline = "plain"\n'
    )
    assert "noisy_small_arm" in row(compare(table(values), undeclared), "better")["flags"]
    swapped = {"plain": values["better"], "better": values["plain"]}
    assert "noisy_small_arm" in row(compare(table(swapped), undeclared), "better")["flags"]
    equal = {arm: vs[:3] for arm, vs in values.items()}
    assert "noisy_small_arm" not in row(compare(table(equal), undeclared), "better")["flags"]


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ("looks = { seeds = [6] }", "at least 2 items"),
        ("looks = { seeds = [3, 3] }", "rising numbers of seeds"),
        ("looks = { seeds = [3, 5] }", "the last look is at 5 seeds, but 6 are declared"),
        ('looks = { seeds = [3, 6], spending = "pocock" }', "first look must be at 5 seeds"),
        (f'{LOOKS}\ncorrection = "holm"', "shares alpha by Bonferroni"),
        ('correction = "dunnett"\ntest = "paired_t"', "Dunnett's correction compares arms"),
        ('pooled = ["nothing"]', "pooled names 'nothing'"),
        ("margin = 0.0", "greater than 0"),
    ],
)
def test_rules_that_do_not_fit_together_are_refused(rules, said):
    with pytest.raises(ValueError, match=said):
        family(rules)
