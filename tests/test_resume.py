"""A run killed anywhere and resumed leaves the same bytes as one that nobody disturbed."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from runner.attempt import ELSEWHERE
from runner.folder import RunFolder
from runner.launch import create_folder
from runner.study_run import read

DRIVER = Path(__file__).with_name("kill_and_resume.py")
LINES, STEPS, CHECKPOINTS = 10, 12, 3


def without_times(folder):
    record = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    record.pop("timing")
    return record


def outcome(folder):
    return without_times(folder), (folder / "metrics.jsonl").read_bytes()


@pytest.fixture(scope="module")
def fresh(tmp_path_factory, small_study_toml):
    """A run's folder before its first step: 12 steps, checkpoints at 4 and 8, validation at 3 n."""
    folder = tmp_path_factory.mktemp("resume")
    more = 'checkpoint_every = 4\nevaluate_every = 3\ncheckpoint = "best_valid"\n'
    text = small_study_toml.replace("lr = 1e-2\n", f"lr = 1.0\nwarmup_fraction = 0.9\n{more}")
    (folder / "small.toml").write_text(text, encoding="utf-8")
    plan = read(str(folder / "small.toml"), folder / "results")
    return create_folder(plan.results, plan.runs[1])


class Driver:
    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, DRIVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __call__(self, folder, place, count):
        self.process.stdin.write(json.dumps({"folder": str(folder), "kill": [place, count]}) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


@pytest.fixture(scope="module")
def driver():
    started = Driver()
    yield started
    started.process.stdin.close()
    started.process.wait(timeout=30)
    started.process.stdout.close()


@pytest.fixture(scope="module")
def undisturbed(fresh, driver, tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed") / fresh.path.name
    shutil.copytree(fresh.path, folder)
    assert driver(folder, "nowhere", 0)[0] == [0, "done"]
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == LINES
    assert without_times(folder)["reason"].startswith("scored at step")
    assert not (folder / "checkpoint").exists()
    return outcome(folder)


@pytest.fixture
def copy(fresh, tmp_path):
    shutil.copytree(fresh.path, tmp_path / fresh.path.name)
    return tmp_path / fresh.path.name


@pytest.mark.parametrize(
    ("place", "count"),
    [
        *(("after step", n) for n in range(1, STEPS + 1)),
        *(("after a line of the curve", n) for n in (2, 5, LINES)),
        *(("within a line of the curve", n) for n in (1, 4, LINES)),
        *(("within a checkpoint", n) for n in range(1, CHECKPOINTS + 1)),
        *(("before a checkpoint's rename", n) for n in range(1, CHECKPOINTS + 1)),
        *(("after a checkpoint's rename", n) for n in range(1, CHECKPOINTS + 1)),
        ("before the result", 1),
        ("after the result", 1),
        ("between checkpoint and end", 1),
    ],
)
def test_killed_anywhere_and_resumed_the_record_is_the_same(
    copy, driver, undisturbed, place, count
):
    died, (code, ended) = driver(copy, place, count)
    assert died == [-9, ""]
    # Killed after the result was published, the second attempt finds the run trained already.
    late = place in ("after the result", "between checkpoint and end")
    assert (code, ended) == (0, f"done {ELSEWHERE}" if late else "done")
    assert outcome(copy) == undisturbed
    left = {path.name for path in copy.iterdir()} - {".lock"}
    assert left == {"spec.json", "attempts.jsonl", "metrics.jsonl", "result.json"}


def test_a_run_killed_again_and_again_ends_as_if_it_had_not_been(copy, driver, undisturbed):
    for count in (5, 1, 4, 2):
        shutil.copytree(copy, copy.with_name("next"))
        died, _ = driver(copy, "after step", count)
        assert died == [-9, ""]
        shutil.rmtree(copy)
        copy.with_name("next").rename(copy)
    assert driver(copy, "nowhere", 0)[0] == [0, "done"]
    assert outcome(copy) == undisturbed


@pytest.mark.parametrize("damage", ["truncated", "flipped", "no state", "empty folder"])
def test_a_broken_newest_checkpoint_falls_back_to_the_one_before_and_says_so(
    copy, driver, undisturbed, damage, monkeypatch
):
    folder = RunFolder(copy)
    _stop_after(folder, 9, monkeypatch)
    newest = sorted((copy / "checkpoint").iterdir())[-1]
    assert newest.name == "step-000000009"
    tensors = newest / "tensors.safetensors"
    data = tensors.read_bytes()
    if damage == "truncated":
        tensors.write_bytes(data[:-7])
    elif damage == "flipped":
        tensors.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    elif damage == "no state":
        (newest / "state.json").unlink()
    else:
        tensors.unlink()
        (newest / "state.json").unlink()
    assert driver(copy, "nowhere", 0)[0] == [0, "done"]
    assert outcome(copy) == undisturbed
    resumed = [line for line in folder.attempts() if line["event"] == "resume"]
    assert resumed == [{"event": "resume", "step": 8, "passed_over": ["step-000000009"]}]


def _stop_after(folder, steps, monkeypatch):
    """Stop a run with a checkpoint after that many steps."""
    from runner.execute import execute

    asked = iter([False] * (steps - 1) + [True])
    with monkeypatch.context() as patch:
        patch.setattr("runner.scoring.Scorer._hook", lambda *_: None)
        ended = execute(folder, should_stop=lambda: next(asked))
    assert (ended.status, ended.advanced) == ("stopped", True)
