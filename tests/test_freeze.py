"""Freezing: the plan stands before the results, and every change of it is on record."""

import pytest

from analysis.freeze import amendments, freeze
from analysis.study import load_study


@pytest.fixture
def frozen(tmp_path, small_study):
    """Freezes the small study into a results folder; returns how to freeze it again, changed."""
    results = tmp_path / "results" / "small"

    def again(*replacements, reason=None, time="2026-01-01T00:00:00Z"):
        path = small_study(*replacements)
        text = path.read_text(encoding="utf-8")
        return freeze(text, str(path), results, reason=reason, time=time), results

    again()
    return again


def test_the_same_study_freezes_again_and_comments_do_not_count(frozen):
    _, results = frozen()
    frozen(("[family]", "# why\n[family]"), ('question = "Does', 'question = "Really: does'))
    assert amendments(results) == []
    assert load_study(results / "study.toml").study.question.startswith("Really")


@pytest.mark.parametrize(
    ("old", "new", "shown"),
    [
        ("[1, 2, 3]", "[1, 2, 3, 4]", "seeds.values: [1, 2, 3] -> [1, 2, 3, 4]"),
        ('split = "valid"', 'split = "test"', 'family.split: "valid" -> "test"'),
        ('split = "valid"', 'alternative = "greater"', "family.alternative"),
        ("lr = 1e-2", "lr = 2e-2", "train.lr: 0.01 -> 0.02"),
        ('treatment = "coupled"\nbaseline = "plain"', 'treatment = "plain"\nbaseline = "coupled"',
         "family.comparisons.coupling"),
    ],
)  # fmt: skip
def test_a_change_is_refused_with_the_difference_and_leaves_the_frozen_file(
    frozen, old, new, shown
):
    _, results = frozen()
    before = (results / "study.toml").read_bytes()
    with pytest.raises(ValueError, match="differs from the study frozen") as caught:
        frozen((old, new))
    assert shown in str(caught.value)
    assert "--amend" in str(caught.value)
    assert (results / "study.toml").read_bytes() == before
    assert amendments(results) == []


def test_a_change_with_a_reason_is_recorded_and_the_old_file_kept(frozen):
    _, results = frozen()
    before = (results / "study.toml").read_bytes()
    frozen(("lr = 1e-2", "lr = 2e-2"), reason="the pilot diverged", time="2026-02-03T04:05:06Z")
    (entry,) = amendments(results)
    assert (entry.time, entry.reason) == ("2026-02-03T04:05:06Z", "the pilot diverged")
    assert entry.changed == ["train.lr: 0.01 -> 0.02"]
    assert entry.runs_over == 0
    assert (results / "study.1.toml").read_bytes() == before
    assert load_study(results / "study.toml").train.lr == 0.02


def test_a_further_arm_adds_to_the_plan_and_needs_no_reason(frozen):
    arm = '[[arms]]\nname = "third"\ncoupling = "uncoupled"\n\n[family]'
    study, results = frozen(("[family]", arm))
    assert [a.name for a in study.arms] == ["plain", "coupled", "third"]
    assert amendments(results)[0].reason == "added to the plan"


def test_a_folder_of_another_study_is_refused(frozen):
    with pytest.raises(ValueError, match="holds the results of the study 'small', not of 'other'"):
        frozen(('name = "small"', 'name = "other"'))


def test_an_amendment_counts_the_runs_that_were_over_when_it_was_made(frozen):
    _, results = frozen()
    for run in ("a", "b"):
        (results / "runs" / run).mkdir(parents=True)
    (results / "runs" / "a" / "result.json").write_text("{}", encoding="utf-8")
    frozen(("[1, 2, 3]", "[1, 2, 3, 4]"), reason="more seeds")
    assert amendments(results)[0].runs_over == 1
