"""The comparison table: the declared rows, the declared seeds, and what each circumstance costs."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import analysis
from analysis.compare import COLUMNS, compare, simultaneous_intervals
from analysis.study import parse_study
from analysis.table import tidy

VALUES = {
    "plain": [2.01, 2.03, 1.98, 2.02, 2.0],
    "coupled": [1.91, 1.94, 1.9, 1.88, 1.92],
    "other": [2.0, 2.02, 2.04, 1.97, 1.99],
}


def family(seeds=(1, 2, 3, 4, 5), **keys):
    """Return a study with the comparisons coupled - plain and other - plain."""
    declared = "".join(f"{key} = {value}\n" for key, value in keys.items())
    pairs = [("coupling", "coupled"), ("other", "other")]
    comparisons = "".join(
        f'[[family.comparisons]]\nname = "{name}"\ntreatment = "{arm}"\nbaseline = "plain"\n'
        for name, arm in pairs
    )
    chosen = f"[seeds]\nvalues = {list(seeds)}\n" if seeds else ""
    return parse_study(f'[study]\nname = "s"\n{chosen}[family]\n{declared}{comparisons}')


def table(values=VALUES, split="valid", **columns):
    rows = [
        {"arm": arm, "seed": seed, "split": split, "metric": "loss", "value": value, **columns}
        for arm, vs in values.items()
        for seed, value in enumerate(vs, start=1)
    ]
    return tidy(pd.DataFrame(rows).astype(object), "table")


def row(frame, name="coupling"):
    return frame[frame["comparison"] == name].iloc[0]


def changed(arm, seed, value):
    values = {name: list(vs) for name, vs in VALUES.items()}
    values[arm][seed - 1] = value
    return values


def test_the_columns_are_the_declared_ones_in_order():
    assert list(compare(table(), family()).columns) == COLUMNS


def test_a_row_holds_the_figures_of_the_tests_by_themselves():
    found = row(compare(table(), family()))
    x, y = VALUES["coupled"], VALUES["plain"]
    alone = analysis.welch(x, y)
    assert found["t"] == pytest.approx(alone.t, rel=1e-13)
    assert found["df"] == pytest.approx(alone.df, rel=1e-13)
    assert found["p"] == pytest.approx(alone.p, rel=1e-12)
    assert found["ci_one_sided"] == pytest.approx(alone.ci_high, rel=1e-12)
    assert (found["ci_low"], found["ci_high"]) == pytest.approx(alone.ci_two_sided, rel=1e-12)
    assert found["p_bonferroni"] == pytest.approx(2 * alone.p, rel=1e-12)
    assert found["hedges_g"] == pytest.approx(analysis.hedges_g(x, y).estimate, rel=1e-12)
    assert found["p_permutation"] == analysis.permutation_test(x, y).p == 1 / 252
    assert found["mean_treatment"] == pytest.approx(np.mean(x), rel=1e-15)
    assert found["difference_percent"] == pytest.approx(100 * (np.mean(x) / np.mean(y) - 1))
    assert found["verdict"] == "supported"
    assert row(compare(table(), family()), "other")["verdict"] == "not supported"


@given(order=st.permutations(range(15)))
def test_the_order_of_rows_and_position_of_seeds_do_not_matter(order):
    expected = compare(table(), family())
    pd.testing.assert_frame_equal(compare(table().iloc[list(order)], family()), expected)


def test_survival_is_that_the_one_sided_interval_at_the_shared_level_excludes_zero():
    for size, shift in itertools.product([2, 5, 40], [0.0, 0.02, 0.05, 0.1]):
        values = VALUES | {"coupled": [v + shift for v in VALUES["coupled"]]}
        found = row(compare(table(values), family(size=size)))
        level = 1 - 0.05 / size
        bound = analysis.welch(values["coupled"], values["plain"], confidence=level).ci_high
        assert found["survives_bonferroni"] == (bound < 0), (size, shift)


def test_the_other_side_is_the_mirror_image():
    less = row(compare(table(), family()))
    negated = {arm: [-v for v in vs] for arm, vs in VALUES.items()}
    greater = row(compare(table(negated), family(alternative='"greater"')))
    for same in ("df", "p", "sd_treatment", "p_permutation", "minimum_detectable"):
        assert greater[same] == pytest.approx(less[same], rel=1e-9)
    for turned in ("t", "difference", "ci_one_sided", "hedges_g"):
        assert greater[turned] == pytest.approx(-less[turned], rel=1e-9)
    two_sided = row(compare(table(), family(alternative='"two-sided"')))
    assert two_sided["p"] == pytest.approx(2 * less["p"], rel=1e-12)
    assert math.isnan(two_sided["ci_one_sided"])


@pytest.mark.parametrize(("bad", "flag"), [("NaN", "runs_diverged"), ("", "runs_failed")])
def test_a_run_without_value_makes_the_comparison_incomplete_and_shows_no_p(bad, flag):
    found = compare(table(changed("coupled", 2, bad)), family())
    assert row(found)["verdict"] == "incomplete"
    assert flag in row(found)["flags"].split(";")
    assert math.isnan(row(found)["p"])
    assert math.isnan(row(found)["ci_low"])
    assert row(found)["n_treatment"] == 4
    assert not row(found)["survives_bonferroni"]
    assert row(found, "other")["family_size"] == 2
    assert row(found, "other")["p_bonferroni"] == pytest.approx(2 * row(found, "other")["p"])


def test_by_the_declared_policy_a_lost_seed_leaves_both_arms():
    found = row(compare(table(changed("coupled", 2, "NaN")), family(failed_runs='"delete_seed"')))
    assert found["n_treatment"] == found["n_baseline"] == 4
    kept = [VALUES["plain"][i] for i in (0, 2, 3, 4)]
    assert found["mean_baseline"] == pytest.approx(np.mean(kept), rel=1e-15)
    assert found["flags"].split(";") == ["seeds_deleted"]
    assert found["verdict"] == "supported"


def test_the_policy_deletes_no_seed_that_was_merely_not_run():
    rows = table()
    rows = rows[~((rows["arm"] == "coupled") & (rows["seed"] == 2))]
    found = row(compare(rows, family(failed_runs='"delete_seed"')))
    assert found["verdict"] == "incomplete"
    assert "runs_missing" in found["flags"]


def test_a_missing_seed_is_incomplete_and_an_undeclared_one_left_out():
    found = row(compare(table(), family(seeds=(1, 2, 3, 4, 5, 6))))
    assert (found["verdict"], found["flags"]) == ("incomplete", "runs_missing")
    found = row(compare(table(), family(seeds=(1, 2, 3))))
    assert found["n_treatment"] == 3
    assert found["mean_treatment"] == pytest.approx(np.mean(VALUES["coupled"][:3]))
    assert "undeclared_runs" in found["flags"]


def test_without_declared_seeds_nothing_is_better_than_suggestive():
    found = row(compare(table(), family(seeds=())))
    assert (found["verdict"], found["flags"]) == ("suggestive", "seeds_undeclared")
    assert not found["survives_bonferroni"]


@pytest.mark.parametrize(
    ("plain", "coupled", "verdict", "flag"),
    [
        ([20.1] * 5, [20.1] * 5, "refused", "both_constant"),
        ([2.0] * 5, [1.0] * 5, "refused", "both_constant"),
        ([2.0, 2.1, 2.2, 2.0, 2.1], [1.0] * 5, "suggestive", "constant_arm"),
        ([2.0, 2.1, 2.2, 2.3, 2.4], [2.4, 2.3, 2.2, 2.1, 2.0], "not supported", "identical_arms"),
        ([2.0, 2.0, 2.2, 2.3, 2.4], [1.0, 1.1, 1.2, 1.3, 1.4], "supported", "equal_values"),
    ],
)
def test_suspicious_values_are_flagged_and_degenerate_ones_refused(plain, coupled, verdict, flag):
    found = row(compare(table(VALUES | {"plain": plain, "coupled": coupled}), family()))
    assert found["verdict"] == verdict
    assert flag in found["flags"].split(";")


def test_three_seeds_survive_only_on_normality_and_two_only_describe():
    three = {arm: values[:3] for arm, values in VALUES.items()}
    found = row(compare(table(three), family(seeds=(1, 2, 3))))
    assert (found["verdict"], found["flags"]) == ("supported", "rests_on_normality")
    assert found["permutation_floor"] == 0.05 > 0.025
    two = {arm: [v, v + 0.001] for arm, (v, *_) in VALUES.items()}
    found = row(compare(table(two), family(seeds=(1, 2))))
    assert (found["verdict"], found["flags"]) == ("suggestive", "two_runs")


def test_an_arm_whose_runs_all_diverged_is_incomplete_rather_than_degenerate():
    found = row(compare(table(VALUES | {"coupled": ["NaN"] * 5}), family()))
    assert found["verdict"] == "incomplete"
    assert "no_data" not in found["flags"]


def test_one_run_has_no_spread():
    found = row(compare(table({arm: vs[:1] for arm, vs in VALUES.items()}), family(seeds=(1,))))
    assert found["verdict"] == "refused"
    assert "one_run" in found["flags"]
    assert math.isnan(found["sd_treatment"])


def test_what_is_known_from_elsewhere_reaches_the_verdict():
    found = compare(table(), family(), flags={"coupling": ["optional_stopping"]})
    assert row(found)["verdict"] == "suggestive"
    assert row(found, "other")["flags"] == ""


def test_the_replication_is_judged_by_the_same_family_on_its_own_split():
    both = pd.concat([table(), table(split="test")], ignore_index=True)
    found = compare(both, family(replicate_on='"test"'))
    assert found["split"].tolist() == ["valid", "valid", "test", "test"]
    assert found["family_size"].unique().tolist() == [2]
    assert compare(both, family(replicate_on='"test"'), split="test")["split"].nunique() == 1


def test_a_metric_or_split_that_was_not_declared_is_exploration():
    both = pd.concat([table(), table(split="test")], ignore_index=True)
    found = row(compare(both, family(), split="test"))
    assert (found["verdict"], found["flags"]) == ("suggestive", "exploratory")
    assert row(compare(both, family(replicate_on='"test"'), split="test"))["flags"] == ""
    renamed = table().assign(metric="ppl")
    assert row(compare(renamed, family(), metric="ppl"))["flags"] == "exploratory"


def test_simultaneous_intervals_are_those_of_welch_at_the_shared_level():
    rows = compare(table(), family())
    found = simultaneous_intervals(rows).iloc[0]
    alone = analysis.welch(VALUES["coupled"], VALUES["plain"], confidence=1 - 0.05 / 2)
    assert tuple(found) == pytest.approx(alone.ci_two_sided, rel=1e-12)


@pytest.mark.parametrize(
    ("study", "said"),
    [
        (family(metric='"los"'), "no metric 'los'; did you mean \"loss\""),
        (family(split='"vaild"'), "no split 'vaild'; did you mean \"valid\""),
    ],
)
def test_a_name_that_the_table_lacks_is_an_error_with_the_nearest(study, said):
    with pytest.raises(ValueError, match=said):
        compare(table(), study)


def test_an_arm_without_any_run_is_a_misspelt_name():
    renamed = {("plan" if arm == "plain" else arm): values for arm, values in VALUES.items()}
    with pytest.raises(ValueError, match="no run of the arm 'plain'; did you mean \"plan\""):
        compare(table(renamed), family())


def test_two_values_of_one_seed_are_refused_with_the_column_that_differs():
    both = pd.concat([table(preset="tiny"), table(preset="micro")], ignore_index=True)
    with pytest.raises(ValueError, match=r"has 2 values on seed 1, which differ in preset"):
        compare(both, family())


def test_each_grid_cell_is_compared_within_itself():
    small, large = table(seq_len="8"), table(VALUES | {"coupled": VALUES["plain"]}, seq_len="16")
    declared = family().model_copy(update={"grid": {"seq_len": [8, 16]}})
    found = compare(pd.concat([small, large], ignore_index=True), declared)
    assert found["family_size"].tolist() == [4] * 4
    assert row(found, "coupling [seq_len=8]")["verdict"] == "supported"
    assert row(found, "coupling [seq_len=16]")["difference"] == 0.0
