"""Many runs on one machine: slots, kills, stops, and runs that another command holds."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from runner import forkserver
from runner.attempt import ELSEWHERE
from runner.executors import local, machine
from runner.executors.local import run_all
from runner.executors.machine import Slots, choose_slots
from runner.folder import RunFolder
from runner.launch import create_folder
from runner.study_run import read
from runner.writing import CannotWrite

TWO = Slots(jobs=2, threads=1)


@pytest.fixture
def folders(small_study, tmp_path):
    """The folders of three runs of the plain arm; 12 steps, or as many as asked for."""

    def making(steps=12, lines=""):
        study = small_study(("tokens = 768", f"tokens = {64 * steps}\n{lines}"))
        plan = read(str(study), tmp_path / "results", only=["plain"])
        return [create_folder(plan.results, run).path for run in plan.selection]

    return making


def ignore(event):
    pass


def outcome(folder):
    record = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    record.pop("timing")
    return record, (folder / "metrics.jsonl").read_bytes()


def starts(folder):
    return sum(line["event"] == "start" for line in RunFolder(folder).attempts())


class WhenTraining:
    """Acts once on the first run that reports progress beyond its start."""

    def __init__(self, act):
        self.act, self.acted_on, self.started = act, None, {}

    def __call__(self, event):
        first = self.started.setdefault(event.folder, event.done) if event.total else None
        if self.acted_on is None and first is not None and event.done > first:
            self.acted_on = event.folder
            self.act(event.folder)


def pid_of(folder):
    return RunFolder(folder).attempts()[-1]["pid"]


def test_every_run_is_executed_and_no_more_at_once_than_there_are_slots(folders):
    runs, running, most = folders(), set(), 0

    def watch(event):
        nonlocal most
        if event.ended:
            running.discard(event.folder)
        else:
            running.add(event.folder)
        most = max(most, len(running))

    finished = run_all(runs, TWO, watch)
    assert {folder: end.status for folder, end in finished.ended.items()} == dict.fromkeys(
        runs, "done"
    )
    assert most == 2
    assert [starts(folder) for folder in runs] == [1, 1, 1]


def test_a_killed_run_costs_itself_only_and_goes_on_when_started_again(folders):
    runs = folders(steps=150, lines="checkpoint_every = 20")
    kill = WhenTraining(lambda folder: os.kill(pid_of(folder), signal.SIGKILL))
    finished = run_all(runs, TWO, kill)
    ends = {folder: end.status for folder, end in finished.ended.items()}
    assert ends.pop(kill.acted_on) == "killed"
    assert list(ends.values()) == ["done", "done"]
    assert finished.ended[kill.acted_on].detail == "killed by SIGKILL (out of memory?)"
    assert run_all([kill.acted_on], TWO, ignore).ended[kill.acted_on].status == "done"
    assert starts(kill.acted_on) == 2


def test_an_interrupt_stops_with_checkpoints_and_begins_nothing_more(folders):
    runs = folders(steps=5000)
    interrupt = WhenTraining(lambda _: os.kill(os.getpid(), signal.SIGINT))
    before = signal.getsignal(signal.SIGINT)
    finished = run_all(runs, TWO, interrupt)
    assert finished.stopped_by == signal.SIGINT
    assert [finished.ended[folder].status for folder in runs[:2]] == ["stopped", "stopped"]
    assert runs[2] not in finished.ended
    assert RunFolder(interrupt.acted_on).checkpoints.latest().step > 0
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_interrupt_kills(folders):
    runs = folders(steps=5000)

    def twice(folder):
        os.kill(pid_of(folder), signal.SIGSTOP)  # a run that does not listen
        os.kill(os.getpid(), signal.SIGINT)
        threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()

    insist = WhenTraining(twice)
    finished = run_all(runs[:1], Slots(jobs=1, threads=1), insist)
    assert finished.ended[insist.acted_on].status == "killed"


def test_a_run_that_another_command_holds_is_waited_for_and_taken_over(folders, monkeypatch):
    monkeypatch.setattr(local, "ELSEWHERE_SECONDS", 0.1)
    runs = folders()
    lock = RunFolder(runs[0]).lock()
    lock.__enter__()
    threading.Timer(1.0, lock.__exit__, (None, None, None)).start()
    finished = run_all(runs, TWO, ignore)
    assert [finished.ended[folder].status for folder in runs] == ["done"] * 3
    assert starts(runs[0]) == 1


def test_a_run_that_another_command_finishes_is_not_run_again(folders, monkeypatch):
    monkeypatch.setattr(local, "ELSEWHERE_SECONDS", 0.1)
    runs = folders()
    assert run_all(runs[:1], TWO, ignore).ended
    result, lock = runs[0] / "result.json", RunFolder(runs[0]).lock()
    result.rename(runs[0] / "aside")
    lock.__enter__()
    threading.Timer(1.0, lambda: (runs[0] / "aside").rename(result)).start()
    finished = run_all(runs[:2], TWO, ignore)
    lock.__exit__(None, None, None)
    assert (finished.ended[runs[0]].status, finished.ended[runs[0]].detail) == ("done", ELSEWHERE)
    assert starts(runs[0]) == 1


def test_a_folder_that_cannot_be_written_stops_the_others_and_is_said_once(folders):
    runs = folders(steps=5000)
    (runs[1] / ".lock").mkdir()
    with pytest.raises(CannotWrite, match=r"\.lock: cannot be written"):
        run_all(runs, TWO, ignore)
    assert not (runs[2] / "attempts.jsonl").exists()
    assert not RunFolder(runs[0]).is_locked()


def test_a_spec_that_cannot_be_read_fails_alone_and_names_its_file(folders):
    runs = folders()
    (runs[1] / "spec.json").write_text("{", encoding="utf-8")
    finished = run_all(runs, TWO, ignore)
    assert [finished.ended[folder].status for folder in runs] == ["done", "failed", "done"]
    assert f"{runs[1] / 'spec.json'}: is cut short" in finished.ended[runs[1]].detail


PARENT = """
import signal, sys
from pathlib import Path
from runner.executors.local import run_all
from runner.executors.machine import Slots
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # which `nohup make test` hands down ignored
run_all([Path(p) for p in sys.argv[1:]], Slots(2, 1), lambda event: print(event.done, flush=True))
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP])
def test_when_the_parent_is_killed_its_runs_stop_with_checkpoints(folders, number):
    runs = folders(steps=5000)
    parent = subprocess.Popen(
        [sys.executable, "-P", "-c", PARENT, *map(str, runs)], stdout=subprocess.PIPE, text=True
    )
    while int(parent.stdout.readline()) < 64 * 3 * 20:
        pass
    parent.send_signal(number)
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 60
    while any(RunFolder(folder).is_locked() for folder in runs):
        assert time.monotonic() < deadline, "the runs went on without anybody to run for"
        time.sleep(0.1)
    ends = [RunFolder(folder).attempts()[-1].get("reason") for folder in runs[:2]]
    assert ends == ["stopped", "stopped"]
    assert all(RunFolder(folder).checkpoints.latest() for folder in runs[:2])


def test_each_slot_has_its_own_gpus(folders):
    runs = folders()
    run_all(runs, Slots(jobs=2, threads=1, gpus=("5", "7")), ignore)
    used = [RunFolder(folder).attempts()[0]["gpus"] for folder in runs]
    assert set(used) == {"5", "7"}
    assert "CUDA_VISIBLE_DEVICES" not in os.environ


def test_the_parents_own_environment_and_temporary_folder_stay_as_they_were(folders, tmp_path):
    before = dict(os.environ), tempfile.tempdir
    run_all(folders()[:1], TWO, ignore)
    assert (dict(os.environ), tempfile.tempdir) == before
    deep = tmp_path / ("d" * 90)
    deep.mkdir()
    code = (
        "import os, tempfile\n"
        "from runner import forkserver\n"
        "context = forkserver.context(1)\n"
        "print(tempfile.tempdir, tempfile.gettempdir() == os.environ['TMPDIR'])\n"
        "process = context.Process(target=os.getpid)\n"
        "process.start(); process.join(); print(process.exitcode)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-P", "-c", code],
        env={**os.environ, "TMPDIR": str(deep)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.stdout.split() == ["None", "True", "0"], ran.stderr


def test_a_thread_other_than_the_first_may_start_runs(folders):
    found = []
    thread = threading.Thread(target=lambda: found.append(run_all(folders()[:1], TWO, ignore)))
    thread.start()
    thread.join()
    assert [end.status for end in found[0].ended.values()] == ["done"]


@pytest.fixture
def four_cores(monkeypatch):
    monkeypatch.setattr(machine, "cores", lambda: 4)
    monkeypatch.setattr(machine, "gpus", list)


@pytest.mark.parametrize(
    ("planned", "jobs", "threads", "devices", "expected"),
    [
        (6, None, None, 1, (4, 1)),
        (4, None, None, 1, (4, 1)),
        (3, None, None, 1, (3, 1)),
        (2, None, None, 1, (2, 2)),
        (1, None, None, 1, (1, 4)),
        (6, 2, None, 1, (2, 1)),  # a gentle user's runs get the same threads, and so the same bits
        (1, 1, None, 1, (1, 4)),
        (6, None, 2, 1, (2, 2)),
        (6, 1, 4, 1, (1, 4)),
        (6, None, None, 2, (2, 1)),
        (1, None, None, 2, (1, 2)),
    ],
)
def test_slots_follow_from_plan_and_machine(four_cores, planned, jobs, threads, devices, expected):
    slots = choose_slots(planned, jobs, threads, devices)
    assert (slots.jobs, slots.threads, slots.gpus) == (*expected, ())


@pytest.mark.parametrize(
    ("planned", "jobs", "threads", "devices"),
    [(6, 5, None, 1), (6, 2, 3, 1), (2, None, 5, 1), (6, 3, None, 2), (1, None, None, 5)],
)
def test_more_threads_than_cores_are_refused(four_cores, planned, jobs, threads, devices):
    with pytest.raises(ValueError, match="is more than the 4 cores here"):
        choose_slots(planned, jobs, threads, devices)


def test_gpus_are_dealt_out_and_shared_only_when_asked(monkeypatch):
    monkeypatch.setattr(machine, "cores", lambda: 8)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,2,GPU-ab,3")
    assert choose_slots(9, None, None) == Slots(4, 2, ("0", "2", "GPU-ab", "3"))
    assert choose_slots(9, None, None, 2) == Slots(2, 2, ("0,2", "GPU-ab,3"))
    assert choose_slots(9, 5, 1).gpus == ("0", "2", "GPU-ab", "3", "0")
    with pytest.raises(ValueError, match="trains on 5 devices and 4 GPUs are visible"):
        choose_slots(9, None, None, 5)
    for nothing in ("", "-1"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", nothing)
        assert machine.gpus() == []


@pytest.mark.parametrize(
    ("written", "expected"),
    [("max 100000", sys.maxsize), ("150000 100000", 2), ("100000 100000", 1), (None, sys.maxsize)],
)
def test_a_containers_quota_counts_as_cores(tmp_path, written, expected):
    path = tmp_path / "cpu.max"
    if written:
        path.write_text(written + "\n", encoding="ascii")
    assert machine._quota(path) == expected


def test_the_preloaded_modules_exist():
    for name in forkserver.PRELOADED:
        assert __import__(name)
    assert Path(forkserver.__file__).name == "forkserver.py"
