"""Tuned axes: chosen on a split of their own, per arm and cell, and judged on another."""

import itertools

import numpy as np
import pandas as pd
import pytest

from analysis.analyze import analyze
from analysis.compare import compare
from analysis.study import parse_study
from analysis.table import tidy
from analysis.tuning import candidates, edge_notices, judged

STUDY = """
[study]
name = "s"
[seeds]
values = [1, 2, 3]
[grid]
seq_len = [16, 32]
lr = {{ values = [0.01, 0.001]{rule} }}
[family]
metric = "accuracy"
split = "{split}"
alternative = "greater"
[[family.comparisons]]
name = "coupling"
treatment = "coupled"
baseline = "plain"
"""
# Loss on valid, by arm, length and rate: each arm has a best rate of its own in each cell.
LOSS = {
    ("plain", 16): {0.01: 2.0, 0.001: 1.5},
    ("plain", 32): {0.01: 2.0, 0.001: 2.5},
    ("coupled", 16): {0.01: 1.0, 0.001: 1.1},
    ("coupled", 32): {0.01: 3.0, 0.001: 2.9},
}


def study(rule="", split="test"):
    return parse_study(STUDY.format(rule=rule, split=split))


def table():
    """Every run has an accuracy on test that tells arm, length and rate, but not the loss."""
    noise = {1: -0.001, 2: 0.0, 3: 0.0013}
    rows = []
    for (arm, length), rates in LOSS.items():
        for rate, seed in itertools.product(rates, noise):
            about = {"arm": arm, "seq_len": length, "lr": rate, "seed": seed}
            accuracy = 0.5 + 10 * rate + length / 1000 + noise[seed] * (1 + (arm == "plain"))
            rows.append({**about, "split": "valid", "metric": "loss",
                         "value": rates[rate] + 30 * noise[seed]})  # fmt: skip
            rows.append({**about, "split": "test", "metric": "accuracy", "value": accuracy})
    return tidy(pd.DataFrame(rows).astype(object), "table", axes=["lr"])


CHOSEN = {("plain", 16): 0.001, ("plain", 32): 0.01, ("coupled", 16): 0.01, ("coupled", 32): 0.001}


def chosen_values(frame, declared):
    found = candidates(frame, declared)
    rows = found[found["chosen"]]
    return {(r.arm, r.seq_len): r.lr for r in rows.itertuples()}


def test_a_choice_at_an_end_of_what_was_tried_is_told():
    declared = study()
    low, high = edge_notices(candidates(table(), declared), declared)
    assert low == (
        "lr: 2 of 4 choices are the lowest value tried, 0.001 (plain, coupled); a better one may "
        "lie beyond it."
    )
    assert high.startswith("lr: 2 of 4 choices are the highest value tried, 0.01 (")
    wider = parse_study(STUDY.format(rule="", split="test").replace("[0.01,", "[0.1, 0.01,"))
    rows = candidates(table(), declared)
    assert edge_notices(rows, wider) == [low]
    assert edge_notices(rows.assign(chosen=False), declared) == []


def test_every_arm_gets_its_best_value_in_every_cell():
    found = candidates(table(), study())
    assert len(found) == 8
    assert chosen_values(table(), study()) == CHOSEN
    assert (found["seeds"] == 3).all()
    best = found[(found["arm"] == "plain") & found["chosen"]].set_index("seq_len")["score"]
    assert best[16] == pytest.approx(1.5 + 30 * np.mean([-0.001, 0.0, 0.0013]))


def test_only_the_chosen_runs_are_judged_and_the_family_counts_crossed_cells_only():
    rows = compare(table(), study())
    assert len(rows) == 2
    assert rows["family_size"].tolist() == [2, 2]
    means = rows.set_index("comparison")[["mean_treatment", "mean_baseline"]]
    for length in (16, 32):
        found = means.loc[f"coupling [seq_len={length}]"]
        noise = 0.0001
        assert found["mean_treatment"] == pytest.approx(
            0.5 + 10 * CHOSEN["coupled", length] + length / 1000 + noise
        )
        assert found["mean_baseline"] == pytest.approx(
            0.5 + 10 * CHOSEN["plain", length] + length / 1000 + 2 * noise
        )
    kept = judged(table(), table(), study())
    assert len(kept) == len(table()) / 2


def test_the_choice_never_looks_at_the_judged_split():
    """Whatever the test values are, also swapped between rates, the same runs are chosen."""
    frame = table()
    on_test = frame["split"] == "test"
    frame.loc[on_test, "value"] = frame.loc[on_test, "value"].to_numpy()[::-1]
    assert chosen_values(frame, study()) == CHOSEN


def test_a_row_s_place_has_no_part_in_it():
    frame = table().sample(frac=1, random_state=3)
    assert chosen_values(frame, study()) == CHOSEN
    pd.testing.assert_frame_equal(compare(frame, study()), compare(table(), study()))


def statuses(status, rate, seeds=(2,)):
    frame = table()
    at = (frame["arm"] == "coupled") & (frame["lr"] == rate) & frame["seed"].isin(seeds)
    frame.loc[at, "status"] = status
    frame.loc[at, "value"] = np.nan
    return frame


def test_a_value_at_which_a_run_diverged_loses_against_one_at_which_none_did():
    found = chosen_values(statuses("diverged", 0.01), study())
    assert found == {**CHOSEN, ("coupled", 16): 0.001}


def test_where_runs_diverged_at_every_value_the_comparison_says_so():
    frame = statuses("diverged", 0.01)
    at = (frame["arm"] == "coupled") & (frame["lr"] == 0.001) & (frame["seed"] != 2)
    frame.loc[at, ["status", "value"]] = "diverged", np.nan
    rows = compare(frame, study())
    assert chosen_values(frame, study())["coupled", 16] == 0.01
    assert all("runs_diverged" in flags for flags in rows["flags"])


@pytest.mark.parametrize("missing", ["failed", "absent"])
def test_nothing_is_chosen_before_all_candidates_are_over(missing):
    frame = statuses("failed", 0.01)
    if missing == "absent":
        frame = frame[frame["status"] != "failed"]
    assert set(chosen_values(frame, study())) == {("plain", 16), ("plain", 32)}
    rows = compare(frame, study())
    assert rows["verdict"].tolist() == ["incomplete", "incomplete"]
    assert rows["n_treatment"].tolist() == [0, 0]


def test_a_table_without_the_deciding_metric_or_axis_is_refused():
    frame = table()
    with pytest.raises(ValueError, match="has no loss on valid, by which the tuned axes lr are"):
        compare(frame[frame["split"] == "test"], study())
    with pytest.raises(ValueError, match="has no loss on valid, by which the tuned axes lr are"):
        candidates(frame.drop(columns="split"), study())
    with pytest.raises(ValueError, match="has no column for the grid axis 'lr'"):
        compare(frame[frame["lr"] == 0.01].drop(columns="lr"), study())


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"split": "valid"}, "axis 'lr' is tuned on the split 'valid', on which the family"),
        ({"rule": ', split = "test"'}, "axis 'lr' is tuned on the split 'test'"),
    ],
)
def test_a_split_may_not_choose_and_judge(declared, message):
    with pytest.raises(ValueError, match=message):
        study(**declared)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (", value = 3", 'study:8: grid.lr.value: unknown key; did you mean "values"?'),
        (", lowest = 3", "study:8: grid.lr.lowest: input should be a valid string, got 3"),
    ],
)
def test_a_faulty_rule_is_answered_in_one_sentence(rule, message):
    with pytest.raises(ValueError, match=message.replace("?", r"\?").replace(".", r"\.")) as error:
        study(rule)
    assert "\n" not in str(error.value)


def test_a_tuned_axis_makes_runs_but_no_cells_and_cannot_be_fixed():
    assert len(study().cells()) == 4
    assert [c.where for c in study().declared_comparisons()] == [{"seq_len": 16}, {"seq_len": 32}]
    text = STUDY.format(rule="", split="test") + "where = { lr = 0.01 }\n"
    text = text.replace(
        "[family]", '[[arms]]\nname = "plain"\n[[arms]]\nname = "coupled"\n[family]'
    )
    with pytest.raises(ValueError, match=r"where lr = 0\.01 is not on the grid"):
        parse_study(text)


def test_the_choice_is_written_down_and_announced(tmp_path):
    table().to_csv(tmp_path / "runs.csv", index=False)
    path = tmp_path / "family.toml"
    path.write_text(STUDY.format(rule="", split="test"), encoding="utf-8")
    found = analyze([tmp_path / "runs.csv"], family=path, out=tmp_path / "out", figures=False)
    written = pd.read_csv(tmp_path / "out" / "tuning.csv")
    rows = written[written["chosen"]]
    assert {(r.arm, r.seq_len): r.lr for r in rows.itertuples()} == CHOSEN
    assert len(pd.read_csv(tmp_path / "out" / "runs.csv")) == len(table())
    report = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    sentence = "each arm counts, in each cell, with the value of lowest mean loss on valid"
    assert sentence in report
    assert any(sentence in notice for notice in found.notices)


def test_a_study_in_which_nothing_can_be_chosen_yet_gets_its_report(tmp_path):
    begun = table()
    begun[(begun["seed"] == 1) & (begun["lr"] == 0.01)].to_csv(tmp_path / "runs.csv", index=False)
    path = tmp_path / "family.toml"
    path.write_text(STUDY.format(rule="", split="test"), encoding="utf-8")
    found = analyze([tmp_path / "runs.csv"], family=path, out=tmp_path / "out")
    assert set(found.comparisons["verdict"]) == {"incomplete"}
    assert "incomplete" in found.report.read_text(encoding="utf-8")
