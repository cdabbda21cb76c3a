"""One run on two devices: two processes with gloo, started by the executor and by torchrun."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import torch
import torch.distributed as dist

from runner import ranks
from runner.distributed import Group
from runner.launch import create_folder
from runner.study_run import read


@pytest.fixture
def make(small_study, tmp_path):
    """Makes the folder of the coupled arm's first run, with other lines in [train]."""
    count = iter(range(99))

    def making(*lines, tokens=768):
        text = "\n".join((f"tokens = {tokens}", *lines))
        plan = read(str(small_study(("tokens = 768", text))), tmp_path / f"results{next(count)}")
        return create_folder(plan.results, plan.runs[1])

    return making


def run(folder, should_stop=lambda: False, progress=lambda done, total: None):
    return ranks.run(folder, 1, should_stop, progress)


def curve(folder):
    lines = folder.metrics_path.read_text(encoding="utf-8").splitlines()
    return [(line["step"], line["split"], line["value"]) for line in map(json.loads, lines)]


def same_up_to_rounding(one, other):
    assert [point[:2] for point in curve(one)] == [point[:2] for point in curve(other)]
    assert [p[2] for p in curve(one)] == pytest.approx([p[2] for p in curve(other)], abs=1e-5)
    first, second = one.read_result(), other.read_result()
    assert first.data_fingerprint == second.data_fingerprint
    for split in ("valid", "test"):
        assert first.metrics[split] == pytest.approx(second.metrics[split], rel=1e-5)


def test_two_ranks_train_what_one_process_trains(make):
    seen = []
    one, two = make("evaluate_every = 5"), make("evaluate_every = 5", "devices = 2")
    assert run(one).status == "done"
    ended = run(two, progress=lambda done, total: seen.append((done, total)))
    assert ended.status == "done"
    same_up_to_rounding(one, two)
    assert seen[-1][0] == seen[-1][1]
    starts = [line for line in two.attempts() if line["event"] == "start"]
    assert len(starts) == 1, "only the first rank may write"
    assert one.path.name != two.path.name


def test_ranks_repeat_bit_for_bit_also_when_they_are_stopped_and_resumed(make):
    lines = ("devices = 2", "gradient_accumulation = 2", "evaluate_every = 3")
    first, second = make(*lines), make(*lines)
    assert run(first).status == "done"
    asked = []

    def after_some_work(done, total):
        asked.append(done)

    ended = run(second, lambda: len(asked) > 2, after_some_work)
    assert ended.status == "stopped"
    assert second.checkpoints.latest() is not None
    assert run(second).status == "done"
    assert first.read_result().weights_sha256 == second.read_result().weights_sha256
    assert first.metrics_path.read_bytes() == second.metrics_path.read_bytes()


def test_a_rank_that_dies_takes_the_run_along_and_the_next_start_goes_on(make):
    folder = make("devices = 2", "checkpoint_every = 2", tokens=64000)
    killed = []

    def kill_the_follower(done, total):
        if not killed and done > 3 * 64 * 5:
            leader = folder.attempts()[0]["pid"]
            killed.extend(_siblings_of(leader))
            for pid in killed:
                os.kill(pid, signal.SIGKILL)

    ended = run(folder, progress=kill_the_follower)
    assert killed
    assert ended.status in ("killed", "failed")
    assert not folder.result_path.exists()
    assert not folder.is_locked()
    seen = []
    ended = run(folder, lambda: bool(seen), lambda done, total: seen.append(done))
    assert ended.status == "stopped"
    assert any(line["event"] == "resume" for line in folder.attempts())


def _siblings_of(pid):
    """Return the other ranks: children of the same fork server that hold a gloo store open."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        parent = stat.read().rsplit(")", 1)[1].split()[1]
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", parent], capture_output=True, text=True)
    return [int(other) for other in listed.stdout.split() if int(other) != pid]


SUPERVISOR = """
import sys
from pathlib import Path
from runner import ranks
from runner.folder import RunFolder
ranks.run(RunFolder(Path(sys.argv[1])), 1, lambda: False, lambda *work: print(*work, flush=True))
"""


def test_ranks_stop_with_a_checkpoint_when_their_parent_is_killed(make):
    folder = make("devices = 2", tokens=640_000)
    parent = subprocess.Popen(
        [sys.executable, "-P", "-c", SUPERVISOR, str(folder.path)], stdout=subprocess.PIPE
    )
    for _ in range(20):
        parent.stdout.readline()
    parent.kill()
    parent.communicate()
    deadline = time.monotonic() + 60
    while folder.is_locked():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert folder.attempts()[-1]["reason"] == "stopped"
    assert folder.checkpoints.latest().step > 0


@pytest.mark.parametrize("line", ["activation_checkpointing = true", "gradient_accumulation = 2"])
def test_two_ranks_save_memory_as_one_does(make, line):
    one, two = make(line), make(line, "devices = 2")
    assert (run(one).status, run(two).status) == ("done", "done")
    same_up_to_rounding(one, two)


def test_a_run_that_is_over_starts_no_ranks(make, monkeypatch):
    folder = make("devices = 2")
    assert run(folder).status == "done"
    monkeypatch.setattr(ranks, "_supervise", lambda *_: pytest.fail("ranks were started"))
    assert run(folder).status == "done"


@pytest.mark.slow
def test_torchrun_starts_the_same_run(make):
    ours, theirs = make("devices = 2"), make("devices = 2")
    assert run(ours).status == "done"
    command = [sys.executable, "-P", "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node=2", "-m", "runner.worker", str(theirs.path)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    assert ours.read_result().weights_sha256 == theirs.read_result().weights_sha256
    assert ours.metrics_path.read_bytes() == theirs.metrics_path.read_bytes()


def test_a_batch_that_cannot_be_cut_evenly_is_refused(small_study):
    study = small_study(("lr = 1e-2", "lr = 1e-2\ndevices = 2\ngradient_accumulation = 3"))
    with pytest.raises(ValueError, match="batch = 4 cannot be cut into devices"):
        read(str(study), study.parent)


def test_arms_on_different_numbers_of_devices_are_refused(small_study, tmp_path):
    from runner.study_run import slots_of

    study = small_study(('coupling = "affine"', 'coupling = "affine"\ntrain = { devices = 2 }'))
    with pytest.raises(ValueError, match="different numbers of devices"):
        slots_of(read(str(study), tmp_path), None, None)


def test_alone_everything_is_local():
    group = Group()
    assert group.leads
    assert group.agree(7) == 7
    assert float(group.mean(torch.tensor(2.5))) == 2.5
    module = torch.nn.Linear(1, 1)
    assert group.averaging_gradients(module) is module
    assert not dist.is_initialized()
