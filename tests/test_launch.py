"""A plan launched on this machine: who trains what, what is said, and the exit code."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from typer.testing import CliRunner

from runner.cli import app
from runner.executors.local import run_all
from runner.executors.machine import Slots
from runner.folder import RunFolder
from runner.launch import Summary, create_folder
from runner.study_run import read

CQK = Path(sys.executable).with_name("cqk")


def cqk(*arguments):
    """Run the command line in this process; its runs have processes of their own."""
    ran = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert ran.exception is None or isinstance(ran.exception, SystemExit), ran.exc_info
    return ran


def summary(**counts):
    zero = dict.fromkeys(("done", "diverged", "failed", "stopped", "unfinished", "trained_now"), 0)
    return Summary(**{**zero, **counts})


@pytest.mark.parametrize(
    ("counts", "code"),
    [
        ({"done": 6}, 0),
        ({"done": 5, "diverged": 1}, 0),
        ({"done": 5, "unfinished": 1}, 3),
        ({"done": 4, "unfinished": 1, "stopped": 1}, 75),
        ({"done": 3, "unfinished": 1, "stopped": 1, "failed": 1}, 1),
        ({"failed": 1, "signal": int(signal.SIGINT)}, 130),
        ({"stopped": 1, "signal": int(signal.SIGTERM)}, 75),
        ({"done": 6, "signal": int(signal.SIGINT)}, 130),
    ],
)
def test_the_exit_code_tells_the_worst(counts, code):
    assert summary(**counts).exit_code == code


def test_the_sentence_names_every_failure():
    said = summary(done=1, failed=2, stopped=1, unfinished=2, failures={"a": "E: x", "b": "killed"})
    assert said.sentence.splitlines() == [
        "1 done, 0 diverged, 2 failed, 1 stopped (start `cqk run` again), 2 unfinished; "
        "0 trained now",
        "run a failed: E: x",
        "run b failed: killed",
    ]
    assert json.loads(json.dumps(said.as_dict()))["failures"] == {"a": "E: x", "b": "killed"}
    assert "5 submitted to Slurm (job 7, 8)" in summary(submitted=5, jobs=[7, 8]).sentence


ONE = ("--only", "plain", "--seeds", "1")
LONG = ("tokens = 768", "tokens = 32000\ncheckpoint_every = 100")


def progress_of(results):
    curves = [path.stat().st_size for path in results.glob("small/runs/*/metrics.jsonl")]
    return len([size for size in curves if size > 500])


def started(study, results, *options):
    command = [CQK, "run", study, "--results", results, *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def until_training(process, results, runs=1):
    deadline = time.monotonic() + 120
    while progress_of(results) < runs:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def records(results):
    found = {}
    for path in results.glob("small/runs/*/result.json"):
        record = json.loads(path.read_text(encoding="utf-8"))
        record.pop("timing")
        found[path.parent.name] = record, (path.parent / "metrics.jsonl").read_bytes()
    return found


@pytest.mark.parametrize(
    ("number", "code", "group"),
    [
        pytest.param(signal.SIGINT, 130, True, id="Ctrl-C"),
        pytest.param(signal.SIGINT, 130, False, id="SIGINT", marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, 75, False, id="SIGTERM", marks=pytest.mark.slow),
    ],
)
def test_a_stopped_launch_leaves_checkpoints_and_goes_on(
    small_study, tmp_path, number, code, group
):
    study, results = small_study(LONG, ("[1, 2, 3]", "[1]")), tmp_path / "results"
    process = subprocess.Popen(
        [CQK, "run", study, "--results", results],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    until_training(process, results)
    # A terminal sends Ctrl-C to every process of the command, not to the first alone.
    os.killpg(process.pid, number) if group else process.send_signal(number)
    said, progress = process.communicate(timeout=60)
    assert process.returncode == code, progress
    assert "stopped (start `cqk run` again)" in said
    assert "Traceback" not in progress
    ended = cqk("run", study, "--results", results)
    assert (ended.exit_code, ended.stdout) == (0, "2 done, 0 diverged, 0 failed; 2 trained now\n")
    attempts = [RunFolder(f).attempts() for f in sorted((results / "small" / "runs").iterdir())]
    assert any(line["event"] == "resume" for lines in attempts for line in lines)


def test_two_commands_on_one_folder_share_the_runs_and_both_tell_the_truth(small_study, tmp_path):
    study, results = small_study(LONG), tmp_path / "results"
    both = [started(study, results), started(study, results)]
    ended = [process.communicate(timeout=300) for process in both]
    assert [process.returncode for process in both] == [0, 0], ended
    now = [int(said.split("; ")[1].split()[0]) for said, _ in ended]
    assert [said.split(";")[0] for said, _ in ended] == ["6 done, 0 diverged, 0 failed"] * 2
    assert sum(now) == 6
    folders = sorted((results / "small" / "runs").iterdir())
    starts = [sum(line["event"] == "start" for line in RunFolder(f).attempts()) for f in folders]
    assert starts == [1] * 6
    assert all(progress.count("[6/6]") == 1 for _, progress in ended)


def test_a_failed_run_is_named_with_its_reason_and_is_made_again(small_study, tmp_path):
    study, results = small_study(), tmp_path / "results"
    assert cqk("run", study, "--results", results, *ONE).exit_code == 0
    [done] = (results / "small" / "runs").iterdir()
    (done / "result.json").unlink()
    (done / "metrics.jsonl").write_text("broken\nlines\n", encoding="utf-8")
    ended = cqk("run", study, "--results", results, "--json")
    assert ended.exit_code == 1
    told = json.loads(ended.stdout)
    assert (told["done"], told["failed"]) == (5, 1)
    assert "metrics.jsonl:1: is no JSON" in told["failures"][done.name]
    assert f"plain seed 1 failed: ValueError: {done / 'metrics.jsonl'}:1" in ended.stderr
    shown = cqk("status", results / "small")
    assert shown.exit_code == 3
    assert "metrics.jsonl:1: is no JSON" in shown.stdout
    (done / "metrics.jsonl").unlink()
    again = cqk("run", study, "--results", results)
    assert (again.exit_code, again.stdout) == (0, "6 done, 0 diverged, 0 failed; 1 trained now\n")


def test_the_whole_plan_is_written_whatever_was_selected(small_study, tmp_path):
    study, results = small_study(), tmp_path / "results"
    assert cqk("run", study, "--results", results, *ONE).exit_code == 0
    plan = json.loads((results / "small" / "plan.json").read_text(encoding="utf-8"))
    assert [(run["seed"], run["arm"]) for run in plan["runs"]] == [
        (seed, arm) for seed in (1, 2, 3) for arm in ("plain", "coupled")
    ]
    assert len(list((results / "small" / "runs").iterdir())) == 1
    counts = json.loads(cqk("status", results / "small", "--json").stdout)["counts"]
    assert counts == {"done": 1, "missing": 5}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--only", "plane"], 'did you mean "plain"?'),
        (["--seeds", "9"], "not declared"),
        (["--seeds", "x"], "write numbers and ranges"),
        (["--jobs", "99"], "is more than the"),
        (["--profile", "nope"], "unknown profile 'nope'"),
        (["--executor", "slurm", "--jobs", "1"], "--jobs and --threads are for this machine"),
    ],
)
def test_what_is_refused_is_refused_before_anything_is_written(
    small_study, tmp_path, options, said
):
    ended = cqk("run", small_study(), "--results", tmp_path / "results", *options)
    assert ended.exit_code == 2
    assert said in ended.stderr
    assert not (tmp_path / "results").exists()


class Killer:
    """Kills every run at a random moment of its life, until it has killed often enough."""

    def __init__(self, kills):
        self.rng, self.left, self.threads = random.Random(20240607), kills, []

    def __call__(self, event):
        begins = not event.total and event.ended is None
        if begins and self.left:
            life = self.rng.uniform(0.0, 0.2)
            arguments = event.folder, len(pids_of(event.folder)), life
            self.threads.append(threading.Thread(target=self.kill, args=arguments))
            self.threads[-1].start()

    def kill(self, folder, lives, life):
        """Wait for the attempt that follows so many, give it a life, and end it."""
        deadline = time.monotonic() + 30
        while len(pids_of(folder)) <= lives and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(life)
        if self.left and not (folder / "result.json").exists():
            with suppress(ProcessLookupError):
                os.kill(pids_of(folder)[-1], signal.SIGKILL)
                self.left -= 1


def pids_of(folder):
    return [line["pid"] for line in RunFolder(folder).attempts() if line["event"] == "start"]


@pytest.mark.slow
def test_200_kills_lose_double_and_change_nothing(small_study, tmp_path):
    lines = "tokens = 204800\ncheckpoint_every = 20\nevaluate_every = 1000\nlog_every = 7"
    study = small_study(("tokens = 768", lines), ("log_every = 2\n", ""))
    assert cqk("run", study, "--results", tmp_path / "undisturbed").exit_code == 0
    results = tmp_path / "results"
    for _ in range(5):  # the whole command dies, and its runs are left to themselves
        process = started(study, results)
        until_training(process, results)
        process.kill()
        process.communicate()
    plan, killer = read(str(study), results), Killer(kills=195)
    folders = [create_folder(plan.results, run).path for run in plan.runs]
    while killer.left:
        missing = [folder for folder in folders if not (folder / "result.json").exists()]
        assert missing, f"the study was done with {killer.left} kills to go"
        run_all(missing, Slots(2, 1), killer)
        for thread in killer.threads:
            thread.join()
    assert cqk("run", study, "--results", results).exit_code == 0
    assert records(results) == records(tmp_path / "undisturbed")
    assert len(records(results)) == 6
