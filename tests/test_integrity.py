"""What a full disk, a closed folder or a foreign file does to results: nothing that was there."""

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from runner.cli import app
from runner.folder import RunFolder

CQK = Path(sys.executable).with_name("cqk")


def cqk(*arguments):
    """Run the command line in this process; its runs have processes of their own."""
    ran = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert ran.exception is None or isinstance(ran.exception, SystemExit), ran.exc_info
    return ran


def mounted(*options):
    return subprocess.run(["mount", *map(str, options)], capture_output=True).returncode == 0


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 700 kB of its own; only root may make one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.getuid() or not mounted("-t", "tmpfs", "-o", "size=700k", "tmpfs", disk):
        pytest.skip("only root may mount a file system")
    yield disk
    subprocess.run(["umount", disk], check=True)


def _fill(path, spare=0):
    """Write a file that leaves ``spare`` bytes free on its disk."""
    room = os.statvfs(path.parent)
    path.write_bytes(b"x" * (room.f_bavail * room.f_bsize - spare))


def contents(folder):
    return {
        path: path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name not in (".lock", "attempts.jsonl")
    }


def results_of(folder):
    found = {}
    for path in folder.glob("runs/*/result.json"):
        record = json.loads(path.read_text(encoding="utf-8"))
        record.pop("timing")
        found[path.parent.name] = record, (path.parent / "metrics.jsonl").read_bytes()
    return found


def test_a_full_disk_ends_in_one_sentence_and_the_rest_is_made_when_there_is_room(
    small_disk, small_study, tmp_path
):
    study = small_study()
    assert cqk("run", study, "--results", small_disk, "--only", "plain").exit_code == 0
    before = contents(small_disk)
    filler = small_disk / "filler"
    _fill(filler)
    ended = cqk("run", study, "--results", small_disk)
    assert ended.exit_code == 2
    assert ended.stdout == ""
    [said] = [line for line in ended.stderr.splitlines() if line.startswith("cqk: ")]
    assert "cannot be written (No space left on device)" in said
    assert "Traceback" not in ended.stderr
    assert {path: data for path, data in contents(small_disk).items() if path in before} == before
    filler.unlink()
    assert cqk("run", study, "--results", small_disk).exit_code == 0
    assert cqk("run", study, "--results", tmp_path / "roomy").exit_code == 0
    assert results_of(small_disk / "small") == results_of(tmp_path / "roomy" / "small")


def test_a_disk_that_fills_during_training_keeps_the_last_checkpoint(
    small_disk, small_study, tmp_path
):
    # A checkpoint takes 76 kB here: there is room for one, not for the next beside it.
    study = small_study(
        ("tokens = 768", "tokens = 6400\ncheckpoint_every = 10\nlog_every = 1"),
        ("[1, 2, 3]", "[1]"),
        ("log_every = 2\n", ""),
    )
    filler = small_disk / "filler"
    _fill(filler, spare=150_000)
    ended = cqk("run", study, "--results", small_disk, "--only", "plain")
    assert ended.exit_code == 2, ended
    assert "cannot be written (No space left on device)" in ended.stderr
    run = next((small_disk / "small" / "runs").iterdir())
    kept = sorted(path.name for path in (run / "checkpoint").glob("*"))
    assert kept, "the checkpoint that was there is gone"
    assert not [name for name in kept if name.startswith(".")], "a half-written one fills the disk"
    filler.unlink()
    assert cqk("run", study, "--results", small_disk).exit_code == 0
    resumed = [line["step"] for line in RunFolder(run).attempts() if line["event"] == "resume"]
    assert resumed == [10]
    assert cqk("run", study, "--results", tmp_path / "roomy").exit_code == 0
    assert results_of(small_disk / "small") == results_of(tmp_path / "roomy" / "small")


def test_a_folder_closed_to_writing_ends_in_one_sentence(small_study, tmp_path):
    study, results = small_study(), tmp_path / "results"
    assert cqk("run", study, "--results", results, "--only", "plain").exit_code == 0
    before = contents(results)
    if os.getuid() or not mounted("--bind", results, results):
        pytest.skip("only root may mount a folder read-only")
    try:
        assert mounted("-o", "remount,bind,ro", results)
        ended = cqk("run", study, "--results", results)
    finally:
        subprocess.run(["umount", results], check=True)
    assert ended.exit_code == 2
    assert "cannot be written (Read-only file system)" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert contents(results) == before


@pytest.mark.parametrize("place", ["a file", "an absent disk"])
def test_results_that_cannot_exist_end_in_one_sentence(small_study, tmp_path, place):
    (tmp_path / "file").touch()
    results = tmp_path / "file" if place == "a file" else Path("/proc/nothing")
    ended = cqk("run", small_study(), "--results", results)
    assert ended.exit_code == 2
    assert f"{results}" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


class Bomb:
    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return (os.mkdir, (str(self.mark),))


def test_nothing_in_a_results_folder_is_ever_executed(small_study, tmp_path):
    study, results = small_study(), tmp_path / "results"
    assert cqk("run", study, "--results", results, "--only", "plain").exit_code == 0
    runs = sorted((results / "small" / "runs").iterdir())
    (runs[0] / "result.json").unlink()
    checkpoint = runs[0] / "checkpoint" / "step-000000004"
    checkpoint.mkdir(parents=True)
    mark = tmp_path / "executed"
    for path in (checkpoint / "tensors.safetensors", checkpoint / "tensors.pt", runs[0] / "x.pkl"):
        path.write_bytes(pickle.dumps(Bomb(mark)))
    for name in ("sitecustomize.py", "torch.py", "runner.py"):
        for folder in (results, results / "small", runs[0]):
            (folder / name).write_text(f"import os; os.mkdir({str(mark)!r})", encoding="utf-8")
    ended = subprocess.run(
        [CQK, "run", study, "--results", results, "--only", "plain"],
        cwd=runs[0],
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    assert cqk("status", results / "small").exit_code == 3
    assert not mark.exists()


def test_a_folder_of_another_run_under_this_id_is_refused(small_study, tmp_path):
    study, results = small_study(), tmp_path / "results"
    assert cqk("run", study, "--results", results, "--only", "plain").exit_code == 0
    one, other, _ = sorted((results / "small" / "runs").iterdir())
    (one / "result.json").unlink()
    (one / "spec.json").write_bytes((other / "spec.json").read_bytes())
    ended = cqk("run", study, "--results", results)
    assert ended.exit_code == 2
    assert f"{one / 'spec.json'}: disagrees with the settings" in ended.stderr
