"""How runs stand, told from files alone; the queue's part is in test_slurm.py."""

import json
import os
import time

import pytest

from runner.launch import create_folder, freeze_plan
from runner.status import read_status
from runner.study_run import read


@pytest.fixture
def plan(small_study, tmp_path):
    made = read(str(small_study()), tmp_path / "results")
    made.results.mkdir(parents=True)
    freeze_plan(made.results, made.runs)
    return made


def result(run, status="done"):
    return {
        "schema": 1, "run_id": run.run_id, "study": "small", "arm": run.arm, "seed": run.seed,
        "status": status, "steps": 1, "tokens": 1, "params": 1, "metrics": {},
        "data_fingerprint": "f", "weights_sha256": "w", "reason": "", "timing": {},
    }  # fmt: skip


def test_every_state_is_told_apart(plan):
    done, diverged, running, stopped, failed, killed = [
        create_folder(plan.results, run) for run in plan.runs
    ]
    for folder, run, status in ((done, plan.runs[0], "done"), (diverged, plan.runs[1], "diverged")):
        folder.result_path.write_text(json.dumps(result(run, status)), encoding="utf-8")
    for folder in (running, stopped, failed, killed):
        folder.start_attempt({"host": "node7"})
    stopped.end_attempt(1, "stopped")
    failed.end_attempt(1, "failed", error="E: why")
    killed.end_attempt(1, "stopped")
    killed.start_attempt({"host": "node8"})
    with running.lock():
        found = read_status(plan.results)
    assert [(run.status, run.detail) for run in found.runs] == [
        ("done", ""), ("diverged", ""), ("running", ""), ("stopped", ""), ("failed", "E: why"),
        ("failed", "killed on node8"),
    ]  # fmt: skip
    assert found.counts == {"done": 1, "diverged": 1, "running": 1, "stopped": 1, "failed": 2}
    assert list(found.counts) == ["done", "diverged", "running", "stopped", "failed"]
    assert not found.over
    assert found.notice == ""


def test_a_plan_without_a_run_is_missing(plan):
    create_folder(plan.results, plan.runs[0])
    assert read_status(plan.results).counts == {"missing": 6}


def test_a_deleted_result_is_a_missing_run(plan):
    folder = create_folder(plan.results, plan.runs[0])
    folder.start_attempt({"host": "h"})
    folder.end_attempt(1, "done")
    assert read_status(plan.results).runs[0].status == "missing"


def test_a_run_outside_the_plan_is_not_counted(plan):
    other = plan.results / "runs" / ("f" * 16)
    other.mkdir(parents=True)
    (other / "result.json").write_text("{}", encoding="utf-8")
    assert read_status(plan.results).counts == {"missing": 6}


def test_a_folder_without_a_plan_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"has no plan\.json; start `cqk run` first"):
        read_status(tmp_path)


def test_a_thousand_finished_runs_are_told_in_a_fifth_of_a_second(plan):
    entries = []
    for index in range(1000):
        run_id = f"{index:016x}"
        folder = plan.results / "runs" / run_id
        folder.mkdir(parents=True)
        record = {**result(plan.runs[0]), "run_id": run_id, "metrics": {"valid": {"loss": 1.5}}}
        (folder / "result.json").write_text(json.dumps(record), encoding="utf-8")
        entries.append({"run_id": run_id, "arm": "plain", "seed": index, "cell": {}})
    document = {"schema": 1, "study": "small", "runs": entries}
    (plan.results / "plan.json").write_text(json.dumps(document), encoding="utf-8")
    seconds = []
    for _ in range(3):
        begun = time.process_time()
        assert read_status(plan.results).counts == {"done": 1000}
        seconds.append(time.process_time() - begun)
    assert min(seconds) < 0.2
    assert os.path.exists(plan.results / "plan.json")
