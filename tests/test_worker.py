"""The worker as a process of its own: which run it takes, and what its exit code says."""

import os
import signal
import subprocess
import sys
import time

import pytest

from runner import ranks, worker
from runner.attempt import Ended
from runner.executors import requeue
from runner.launch import create_folder
from runner.study_run import read


@pytest.fixture
def folder(small_study, tmp_path):
    plan = read(str(small_study(("tokens = 768", "tokens = 76800"))), tmp_path / "results")
    return create_folder(plan.results, plan.runs[0])


@pytest.fixture
def short(small_study, tmp_path):
    plan = read(str(small_study()), tmp_path / "results")
    return create_folder(plan.results, plan.runs[0])


@pytest.fixture(autouse=True)
def _own_signals():
    numbers = (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP, signal.SIGINT)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


def started(folder, **environment):
    command = [sys.executable, "-P", "-m", "runner.worker", str(folder.path)]
    process = subprocess.Popen(
        command, env={**os.environ, **environment}, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 120
    while not (folder.metrics_path.exists() and folder.metrics_path.stat().st_size > 100):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return process


def test_a_run_is_taken_by_its_folder_or_by_a_line_of_a_task_list(short, tmp_path):
    submission = short.path.parents[1] / "submissions" / "0001"
    submission.mkdir(parents=True)
    (submission / "tasks.txt").write_text(
        f"0123456789abcdef\n{short.path.name}\n", encoding="ascii"
    )
    assert worker.task(submission / "tasks.txt", 1) == short.path
    assert worker.main(["--tasks", str(submission / "tasks.txt"), "--index", "1"]) == 0
    assert short.read_result().status == "done"
    assert worker.main([str(short.path)]) == 0
    assert sum(line["event"] == "start" for line in short.attempts()) == 1


@pytest.mark.parametrize("arguments", ["", "--tasks t", "--index 1", "f --tasks t --index 0"])
def test_a_worker_without_one_run_is_a_usage_error(arguments, capsys):
    with pytest.raises(SystemExit) as refused:
        worker.main(arguments.split())
    assert refused.value.code == 2
    assert "either a run's folder, or both --tasks and --index" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("ended", "code", "said"),
    [
        (Ended("done"), 0, ""),
        (Ended("diverged"), 0, ""),
        (Ended("failed", "E: why"), 1, "failed: E: why"),
        (Ended("unwritable", "full"), 2, "unwritable: full"),
        (Ended("busy"), 3, ""),
        (Ended("stopped", advanced=True), 75, ""),
    ],
)
def test_the_exit_code_says_how_the_attempt_ended(short, monkeypatch, capsys, ended, code, said):
    monkeypatch.setattr(ranks, "run", lambda *_: ended)
    monkeypatch.setattr(worker, "BUSY_SECONDS", 0)
    assert worker.main([str(short.path)]) == code
    assert said in capsys.readouterr().err


def test_a_busy_run_is_waited_for(short, monkeypatch):
    answers = iter([Ended("busy"), Ended("busy"), Ended("done")])
    monkeypatch.setattr(ranks, "run", lambda *_: next(answers))
    monkeypatch.setattr(worker.time, "sleep", lambda seconds: None)
    assert worker.main([str(short.path)]) == 0


def scontrol(tmp_path, monkeypatch):
    """Put a scontrol on the path that writes down what it is asked."""
    binary = tmp_path / "bin" / "scontrol"
    binary.parent.mkdir()
    binary.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n', encoding="ascii")
    binary.chmod(0o755)
    return f"{binary.parent}:{os.environ['PATH']}"


def test_an_announced_time_limit_leaves_a_checkpoint_and_requeues_this_element_alone(
    folder, tmp_path, monkeypatch
):
    slurm = {"SLURM_ARRAY_JOB_ID": "17", "SLURM_ARRAY_TASK_ID": "5", "SLURM_JOB_ID": "17"}
    process = started(folder, PATH=scontrol(tmp_path, monkeypatch), **slurm)
    process.send_signal(signal.SIGUSR1)
    process.communicate(timeout=60)
    assert process.returncode == 75
    assert (tmp_path / "asked").read_text(encoding="ascii") == "requeue 17_5\n"
    assert folder.checkpoints.latest().step > 0
    assert folder.attempts()[0]["slurm_job"] == "17"


def test_a_signal_that_comes_while_torch_is_imported_is_heard(folder):
    command = [sys.executable, "-P", "-X", "importtime", "-m", "runner.worker", str(folder.path)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        if line.rstrip().endswith("torch._utils"):
            break
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 75
    assert folder.attempts()[-1]["reason"] == "stopped"


def test_a_stop_is_not_a_wish_to_be_requeued(folder, tmp_path, monkeypatch):
    slurm = {"SLURM_ARRAY_JOB_ID": "17", "SLURM_ARRAY_TASK_ID": "5"}
    process = started(folder, PATH=scontrol(tmp_path, monkeypatch), **slurm)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 75
    assert not (tmp_path / "asked").exists()
    assert folder.attempts()[-1]["reason"] == "stopped"


def test_an_attempt_without_a_step_is_not_requeued_for_ever(short, monkeypatch, capsys):
    def stopped(folder, threads, stop):
        stop.received = signal.SIGUSR1
        return Ended("stopped", advanced=False)

    monkeypatch.setattr(ranks, "run", stopped)
    monkeypatch.setattr(worker, "requeue_this_element", lambda: pytest.fail("requeued"))
    assert worker.main([str(short.path)]) == 1
    assert "the time limit is too short for a single step" in capsys.readouterr().err


def test_without_slurm_nothing_is_requeued_and_nothing_breaks(monkeypatch):
    monkeypatch.delenv("SLURM_ARRAY_JOB_ID", raising=False)
    asked = []
    monkeypatch.setattr(requeue.subprocess, "run", lambda *call, **_: asked.append(call))
    requeue.requeue_this_element()
    assert asked == []
    monkeypatch.undo()
    monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "1")
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "2")
    monkeypatch.setenv("PATH", "/nowhere")
    requeue.requeue_this_element()
