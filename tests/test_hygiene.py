"""What is known beside the values: amendments, mixed code and hardware, different batches."""

from pathlib import Path

import pandas as pd
import pytest

from analysis.freeze import Amendment
from analysis.hygiene import known_flags, provenance
from analysis.records import Result, RunRecord, Spec
from analysis.study import parse_study

STUDY = parse_study(
    'study = { name = "s" }\nseeds = { values = [1, 2] }\n'
    'family = { comparisons = [{ name = "one", treatment = "a", baseline = "b" },\n'
    '{ name = "two", treatment = "c", baseline = "b" }] }\n'
)
EMPTY = pd.DataFrame({"arm": []})


def amendment(changed, runs_over=1):
    return Amendment("2026-01-01T00:00:00Z", "why", [changed], runs_over, "x", "y")


def record(arm, seed, *, batches="same", text="t", **environment):
    run_id = f"{arm}{seed}".encode().hex().rjust(16, "0")
    common = {"run_id": run_id, "study": "s", "arm": arm, "seed": seed}
    result = Result(
        **common, status="done", steps=1, tokens=1, params=1, metrics={},
        data_fingerprint=f"{batches}{seed}", weights_sha256="w", timing={},
    )  # fmt: skip
    spec = Spec(**common, cell={}, settings={"data": {"text_sha256": text}})
    start = {"event": "start", "code_sha256": "c", "torch": "2", "device": "d", "threads": 1}
    return RunRecord(Path(run_id), spec, result, [start | environment, {"event": "end"}])


RECORDS = [record(arm, seed) for arm in "abc" for seed in (1, 2)]


@pytest.mark.parametrize(
    ("changed", "first", "second"),
    [
        ("seeds.values: [1] -> [1, 2]", ["optional_stopping"], ["optional_stopping"]),
        ('family.alternative: "less" -> "greater"', ["side_changed"], ["side_changed"]),
        ("family.alpha: 0.05 -> 0.1", ["family_amended"], ["family_amended"]),
        ("family.comparisons.two: (absent) -> {}", [], ["family_amended"]),
        ("train.lr: 0.1 -> 0.2", [], []),
    ],
)
def test_an_amendment_is_held_against_the_comparisons_it_concerns(changed, first, second):
    flags = known_flags(STUDY, EMPTY, RECORDS, [amendment(changed)])
    assert flags == {"one": first, "two": second}


def test_an_amendment_before_any_run_was_over_costs_nothing():
    early = amendment("seeds.values: [1] -> [1, 2]", runs_over=0)
    assert known_flags(STUDY, EMPTY, RECORDS, [early]) == {"one": [], "two": []}


@pytest.mark.parametrize(
    ("odd", "flag"),
    [
        ({"code_sha256": "other"}, "mixed_code"),
        ({"torch": "3"}, "mixed_code"),
        ({"variant_sha256": "edited"}, "mixed_code"),
        ({"threads": 2}, "mixed_hardware"),
        ({"device": "e"}, "mixed_hardware"),
        ({"batches": "other"}, "different_batches"),
        ({"text": "u"}, "mixed_text"),
    ],
)
def test_a_run_made_otherwise_flags_only_the_comparisons_it_is_in(odd, flag):
    flags = known_flags(STUDY, EMPTY, [*RECORDS[:-1], record("c", 2, **odd)])
    assert flags == {"one": [], "two": [flag]}


def test_arms_rightly_differ_in_their_variants_code():
    arms = [record(arm, seed, variant_sha256=arm) for arm in "abc" for seed in (1, 2)]
    assert known_flags(STUDY, EMPTY, arms) == {"one": [], "two": []}


@pytest.mark.parametrize(
    ("column", "values", "flag"),
    [
        ("tokens", [10, 10, 20, 20], ["unequal_budget"]),
        ("tokens", [10, 20, 10, 20], ["mixed_budget"]),
        ("tokens", [10, 10, 10, 10], []),
        ("corpus", ["x", "x", "y", "y"], ["mixed_text"]),
        ("tokenizer", ["x", "y", "x", "y"], ["mixed_text"]),
    ],
)
def test_a_tables_own_columns_tell_of_budgets_and_texts(column, values, flag):
    table = pd.DataFrame({"arm": ["a", "a", "b", "b"], column: values})
    assert known_flags(STUDY, table)["one"] == flag


def test_provenance_counts_environments_commonest_first():
    rows = provenance([*RECORDS, record("a", 9, device="e")])
    assert [(row["attempts"], row["device"]) for row in rows] == [(6, "d"), (1, "e")]
