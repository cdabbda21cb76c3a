"""Same seed, same bytes: forked, spawned, side by side, and one after another in one process."""

import json
import subprocess
import sys

import pytest
import torch

from runner import device, provenance
from runner.execute import execute
from runner.executors.local import run_all
from runner.executors.machine import Slots
from runner.launch import create_folder
from runner.study_run import read

EXECUTE = """
import sys
from pathlib import Path
from runner.execute import execute
from runner.folder import RunFolder
for path in sys.argv[2:]:
    assert execute(RunFolder(Path(path)), threads=int(sys.argv[1])).status == "done"
"""


@pytest.fixture(autouse=True)
def _own_torch_settings():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)
    torch.use_deterministic_algorithms(False)


@pytest.fixture
def make(small_study, tmp_path):
    count = iter(range(99))

    def making(*replacements):
        plan = read(str(small_study(*replacements)), tmp_path / f"results{next(count)}")
        return [create_folder(plan.results, run) for run in plan.runs]

    return making


def outcomes(folders):
    found = []
    for folder in folders:
        record = json.loads(folder.result_path.read_text(encoding="utf-8"))
        record.pop("timing")
        found.append((record, folder.metrics_path.read_bytes()))
    return found


def in_processes(folders, jobs):
    finished = run_all([folder.path for folder in folders], Slots(jobs, 1), lambda event: None)
    assert {end.status for end in finished.ended.values()} == {"done"}
    return outcomes(folders)


def test_forked_spawned_and_in_sequence_in_one_process_make_the_same_bytes(make):
    side_by_side, one_by_one, alone, here = make(), make(), make(), make()
    expected = in_processes(side_by_side, jobs=2)
    assert in_processes(one_by_one[::-1], jobs=1) == expected[::-1]
    paths = [str(folder.path) for folder in alone]
    subprocess.run([sys.executable, "-P", "-c", EXECUTE, "1", *paths], check=True)
    assert outcomes(alone) == expected
    torch.manual_seed(99)
    for folder in here:
        torch.rand(7)  # whatever was drawn before, a run draws from streams of its own
        assert execute(folder).status == "done"
    assert outcomes(here) == expected
    assert len({record["weights_sha256"] for record, _ in expected}) == 6


@pytest.mark.slow
def test_the_same_threads_make_the_same_bytes_and_are_recorded(make):
    one, other = make(("[1, 2, 3]", "[1]")), make(("[1, 2, 3]", "[1]"))
    for folders in (one, other):
        paths = [str(folder.path) for folder in folders]
        subprocess.run([sys.executable, "-P", "-c", EXECUTE, "2", *paths], check=True)
    assert outcomes(one) == outcomes(other)
    assert {folder.attempts()[0]["threads"] for folder in one} == {2}


def test_evaluating_more_often_changes_no_weight(make):
    plain = make(("[1, 2, 3]", "[1]"))
    often = make(("[1, 2, 3]", "[1]"), ("lr = 1e-2", "lr = 1e-2\nevaluate_every = 1"))
    for folder in (*plain, *often):
        assert execute(folder).status == "done"
    for one, other in zip(plain, often, strict=True):
        assert one.read_result().weights_sha256 == other.read_result().weights_sha256
        assert one.read_result().metrics == other.read_result().metrics


@pytest.mark.parametrize(
    ("asked", "in_force", "enabled", "warns"),
    [
        ("auto", "strict", True, False),
        ("strict", "strict", True, False),
        ("warn", "warn", True, True),
        ("off", "off", False, False),
    ],
)
def test_a_processor_is_strict_unless_told_otherwise_and_it_is_recorded(
    make, asked, in_force, enabled, warns
):
    [folder, *_] = make(("lr = 1e-2", f'lr = 1e-2\ndeterminism = "{asked}"'))
    assert execute(folder).status == "done"
    assert torch.are_deterministic_algorithms_enabled() is enabled
    assert torch.is_deterministic_algorithms_warn_only_enabled() is warns
    assert folder.attempts()[0]["determinism"] == in_force


def test_a_gpu_warns_unless_told_otherwise(monkeypatch):
    chosen = []
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    assert device.prepare("cuda:1", 1, "auto") == "warn"
    assert torch.is_deterministic_algorithms_warn_only_enabled()
    assert chosen == ["cuda:1"]


def test_the_code_of_other_variants_and_of_the_command_line_is_not_the_runs_code():
    common = provenance._imported("worker") | provenance._imported("execute")
    assert {"train", "learner", "model", "data", "coupling.base", "attention.base"} <= common
    assert not {"cli", "plan", "status", "executors.slurm", "attention.standard"} & common
    own = provenance._imported("attention.standard") | provenance._imported("coupling.affine")
    assert {"attention.standard", "coupling.affine", "layers"} <= own
    assert "coupling.euler" not in own


def test_a_variant_changes_its_own_hash_and_not_the_common_one():
    plain = provenance.variant_sha256("standard", "none")
    assert plain != provenance.variant_sha256("standard", "affine")
    assert plain == provenance.variant_sha256("standard", "none")
    assert provenance.code_sha256() == provenance.code_sha256()
    assert len({plain, provenance.code_sha256()}) == 2


def test_an_attempt_records_where_and_with_what_it_ran(make):
    [folder, *_] = make()
    assert execute(folder).status == "done"
    [start, end] = folder.attempts()
    assert {
        *("host", "pid", "device", "cpu_capability", "threads", "determinism", "python", "torch"),
        *(
            "compiled",
            "cqk",
            "code_sha256",
            "variant_sha256",
            "gpus",
            "slurm_job",
            "time",
            "attempt",
            "event",
        ),
    } == start.keys()
    assert start["torch"] == torch.__version__
    assert (end["event"], end["attempt"], end["reason"]) == ("end", 1, "done")
