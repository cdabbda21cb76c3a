"""A compiled training loss: what eager computes, the same bytes each time, or one sentence."""

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from runner import compiled, ranks, sources
from runner.cli import app
from runner.distributed import Group
from runner.execute import execute
from runner.launch import create_folder
from runner.learner import Learner
from runner.study_run import read

# The library warns of what its own compiler does to autograd nodes and to tensors between graphs,
# and of what the compiler itself imports at its first use.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning"),
]


@pytest.fixture(autouse=True)
def _own_torch_settings(monkeypatch):
    for variable in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        monkeypatch.delenv(variable, raising=False)
    # pytest listens to every logger, and formatting what this one says takes longer than compiling.
    monkeypatch.setattr(logging.getLogger("torch.__trace"), "disabled", True)
    yield
    torch._dynamo.reset()
    torch.use_deterministic_algorithms(False)


@pytest.fixture
def make(small_study, tmp_path):
    """Makes the folder of an arm's first run, with other lines in [train]."""
    count = iter(range(99))

    def making(*lines, arm="coupled", attention="standard"):
        wanted = f'name = "coupled"\nattention = "{attention}"'
        study = small_study(
            ("log_every = 2", "\n".join(("log_every = 2", *lines))), ('name = "coupled"', wanted)
        )
        plan = read(str(study), tmp_path / f"results{next(count)}")
        return create_folder(plan.results, next(run for run in plan.runs if run.arm == arm))

    return making


def losses(folder, steps=4):
    settings = folder.settings()
    learner = Learner(settings, sources.load(settings), Group())
    return [learner.take_step().item() for _ in range(steps)]


def outcome(folder):
    record = json.loads(folder.result_path.read_text(encoding="utf-8"))
    return {**record, "timing": None}, folder.metrics_path.read_bytes()


def test_the_setting_is_off_by_default_and_on_another_run(make):
    plain, spelled, other = make(), make("compile = false"), make("compile = true")
    assert plain.path.name == spelled.path.name != other.path.name


def test_without_a_compiler_nothing_starts_and_one_sentence_says_so(
    small_study, tmp_path, monkeypatch
):
    study = small_study(("log_every = 2", "log_every = 2\ncompile = true"))
    monkeypatch.setenv("CXX", "no-such-compiler")
    ended = CliRunner().invoke(app, ["run", str(study), "--results", str(tmp_path / "r")])
    assert ended.exit_code == 2
    assert ended.stderr.count("\n") == 1
    assert "compile = true needs a C++ compiler, and there is no no-such-compiler" in ended.stderr
    assert not (tmp_path / "r").exists()


def test_a_run_that_finds_no_compiler_where_it_runs_fails_with_that_sentence(make, monkeypatch):
    folder = make("compile = true")
    monkeypatch.setenv("CXX", "no-such-compiler")
    ended = execute(folder)
    assert ended.status == "failed"
    assert ended.detail.startswith("ValueError: compile = true needs a C++ compiler")


@pytest.mark.parametrize(
    ("arm", "line"),
    [
        ("plain", "gradient_accumulation = 2"),
        pytest.param("coupled", "", marks=pytest.mark.slow),
        pytest.param("coupled", "activation_checkpointing = true", marks=pytest.mark.slow),
        pytest.param("coupled", 'precision = "bfloat16"', marks=pytest.mark.slow),
    ],
)
def test_traced_losses_are_the_eager_ones(make, monkeypatch, arm, line):
    monkeypatch.setattr(compiled, "BACKEND", "aot_eager")  # the same graphs, run by the library
    bound = 1e-2 if "bfloat16" in line else 1e-5
    found = losses(make("compile = true", line, arm=arm))
    assert found == pytest.approx(losses(make(line, arm=arm)), abs=bound)
    assert compiled.report()["graphs"] > 0


@pytest.mark.parametrize("arm", ["plain", pytest.param("coupled", marks=pytest.mark.slow)])
def test_a_run_stopped_and_resumed_goes_on_in_the_same_graphs(make, monkeypatch, arm):
    monkeypatch.setattr(compiled, "BACKEND", "aot_eager")
    lines = ("compile = true", "evaluate_every = 5")
    undisturbed, stopped = make(*lines, arm=arm), make(*lines, arm=arm)
    assert execute(undisturbed).status == "done"
    asked = iter([False] * 6)
    assert execute(stopped, should_stop=lambda: next(asked, True)).status == "stopped"
    assert execute(stopped).status == "done"
    assert outcome(stopped) == outcome(undisturbed)


def test_the_attempt_says_what_compiled_the_loss_and_into_how_many_graphs(make, monkeypatch):
    monkeypatch.setattr(compiled, "BACKEND", "aot_eager")
    eager, other = make(arm="plain"), make("compile = true", arm="plain")
    for folder in (eager, other):
        assert execute(folder).status == "done"
    assert [folder.attempts()[0]["compiled"] for folder in (eager, other)] == ["", "aot_eager"]
    assert other.attempts()[-1]["graphs"] == 1
    assert other.attempts()[-1]["graph_breaks"] == 0
    assert "graphs" not in eager.attempts()[-1]


def test_a_compiler_that_fails_ends_the_run_with_one_sentence(make, monkeypatch):
    def broken(graph, inputs):
        raise RuntimeError("no such header")

    monkeypatch.setattr(compiled, "BACKEND", broken)
    monkeypatch.setattr("runner.execute.environment", lambda *given: {})
    ended = execute(make("compile = true", arm="plain"))
    assert ended.status == "failed"
    assert ended.detail.startswith("ValueError: torch.compile failed (")
    assert "no such header" in ended.detail
    assert ended.detail.endswith("set compile = false in [train] of this arm")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arm", "attention"),
    [("plain", "standard"), ("coupled", "standard"), ("coupled", "multi_token")],
)
def test_compiled_losses_are_the_eager_ones_and_repeat(make, arm, attention):
    given = {"arm": arm, "attention": attention}
    eager, one, other = (
        make(**given),
        make("compile = true", **given),
        make("compile = true", **given),
    )
    assert losses(one) == pytest.approx(losses(eager), abs=1e-5)
    for folder in (one, other):
        assert execute(folder).status == "done"
    assert outcome(one) == outcome(other)


@pytest.mark.slow
def test_what_the_compiler_writes_lies_in_the_cache_and_nothing_in_the_results(
    small_study, tmp_path
):
    study = small_study(("lr = 1e-2", "lr = 1e-2\ncompile = true"))
    own, results = tmp_path / "own", tmp_path / "results"
    # In a process of its own: what one has compiled before stays in its memory.
    ended = subprocess.run(
        [Path(sys.executable).with_name("cqk"), "run", study, "--results", results,
         "--only", "plain", "--seeds", "1"],
        env={**os.environ, "CQK_CACHE_DIR": str(own)}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert next((own / "compiler").rglob("*.so"))
    (folder,) = (results / "small" / "runs").iterdir()
    assert {path.name for path in folder.iterdir()} == {
        "spec.json", "attempts.jsonl", "metrics.jsonl", "result.json", ".lock",
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("line", ["gradient_accumulation = 2", "activation_checkpointing = true"])
def test_two_ranks_compile_and_train_what_one_does(make, line):
    one, two = make("compile = true", line), make("compile = true", line, "devices = 2")
    for folder in (one, two):
        assert ranks.run(folder, 1, lambda: False).status == "done"
    first, second = one.read_result(), two.read_result()
    for split in ("valid", "test"):
        assert first.metrics[split] == pytest.approx(second.metrics[split], rel=1e-5)
