"""Run records: read back equal, refused when broken, written whole or not at all."""

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.records import (
    Plan,
    Result,
    Spec,
    read_lines,
    read_plan,
    read_run,
    read_runs,
    to_json,
    write_atomically,
)

RUN = "0123456789abcdef"
SPEC = {"run_id": RUN, "study": "small", "arm": "plain", "seed": 3, "cell": {}, "settings": {}}
RESULT = {
    "run_id": RUN,
    "study": "small",
    "arm": "plain",
    "seed": 3,
    "status": "done",
    "steps": 7,
    "tokens": 448,
    "params": 11,
    "data_fingerprint": "f",
    "weights_sha256": "w",
    "metrics": {"valid": {"loss": 0.1 + 0.2}},
    "timing": {"train_seconds": 1.5},
}


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "runs" / RUN
    path.mkdir(parents=True)
    write_atomically(path / "spec.json", to_json(Spec(**SPEC).model_dump(by_alias=True)))
    write_atomically(path / "result.json", to_json(Result(**RESULT).model_dump(by_alias=True)))
    return path


def test_a_record_reads_back_equal(folder):
    record = read_run(folder)
    assert record.status == "done"
    assert record.spec == Spec(**SPEC)
    assert record.result == Result(**RESULT)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_finite_value_reads_back_to_the_last_bit(value):
    text = to_json({"value": value})
    assert json.loads(text)["value"] == value


def test_a_number_that_is_not_finite_is_no_record():
    with pytest.raises(ValueError, match="JSON compliant"):
        to_json({"value": float("nan")})


@pytest.mark.parametrize("kept", [0, 1, 20, -2])
def test_a_truncated_result_is_refused_by_name_with_the_remedy(folder, kept):
    path = folder / "result.json"
    path.write_text(path.read_text(encoding="utf-8")[:kept], encoding="utf-8")
    with pytest.raises(ValueError, match=r"result\.json: .*delete it and start `cqk run` again"):
        read_run(folder)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"schema": 99}, "has schema 99 and this cqk reads up to 1"),
        ({"status": "maybe"}, "status: input should be 'done' or 'diverged'"),
        ({"seed": 4}, "belongs to another arm, seed or study"),
        ({"run_id": "f" * 16}, "holds records of run ffffffffffffffff"),
        ({"colour": "red"}, "colour: extra inputs are not permitted"),
    ],
)
def test_a_foreign_result_is_refused(folder, change, said):
    path = folder / "result.json"
    record = json.loads(path.read_text(encoding="utf-8")) | change
    path.write_text(json.dumps(record), encoding="utf-8")
    with pytest.raises(ValueError, match=said):
        read_run(folder)


def test_a_run_of_another_study_is_refused(folder):
    with pytest.raises(ValueError, match="is a run of the study 'small' inside the results of 'b'"):
        read_runs(folder.parent.parent, "b")


def test_a_folder_outside_the_plan_is_set_aside(folder):
    results = folder.parent.parent
    plan = Plan(study="small", runs=[])
    write_atomically(results / "plan.json", to_json(plan.model_dump(by_alias=True)))
    assert read_plan(results) == plan
    assert read_runs(results, "small") == []


def test_the_status_of_a_run_without_result_is_its_last_attempts(folder):
    (folder / "result.json").unlink()
    log = folder / "attempts.jsonl"
    assert read_run(folder).status == "missing"
    log.write_text('{"event": "start"}\n{"event": "end", "reason": "failed"}\n', encoding="utf-8")
    assert read_run(folder).status == "failed"
    with open(log, "a", encoding="utf-8") as file:
        file.write('{"event": "start"}\n{"event": "end", "reason": "stop')
    assert read_run(folder).status == "failed"
    log.write_text('{"event": "end", "reason": "done"}\n', encoding="utf-8")
    assert read_run(folder).status == "missing"


def test_a_torn_last_line_is_no_record_but_a_broken_one_inside_is_an_error(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n{"step": 2}\n{"st', encoding="utf-8")
    assert [line["step"] for line in read_lines(path)] == [1, 2]
    path.write_text('{"step": 1}\n{"st\n{"step": 3}\n', encoding="utf-8")
    with pytest.raises(ValueError, match=r"metrics\.jsonl:2: is no JSON though lines follow"):
        list(read_lines(path))


def test_a_written_file_has_the_rights_that_the_umask_leaves(tmp_path):
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "result.json", "x")
    finally:
        os.umask(before)
    assert (tmp_path / "result.json").stat().st_mode & 0o777 == 0o640


def test_a_write_that_fails_leaves_the_old_file_and_no_litter(tmp_path, monkeypatch):
    path = tmp_path / "result.json"
    write_atomically(path, "old")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, "new")
    assert path.read_text(encoding="utf-8") == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["result.json"]
