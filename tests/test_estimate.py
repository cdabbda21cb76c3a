"""What a dry run promises: parameters, operations, memory and time, against what is really used."""

import json
import re
from dataclasses import asdict

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from typer.testing import CliRunner

from runner import attention, dry_run, estimate
from runner.activations import activation_bytes
from runner.cli import app
from runner.estimate import Cost, cost, footprint, pace
from runner.learner import build_model
from runner.optim import build_optimizer
from runner.presets import PRESETS
from runner.profiles import Profile
from runner.settings import ModelSettings, RunSettings, TextSettings, Train, VariantSettings
from runner.study_run import read


def settings(preset="tiny", attention="standard", coupling="affine", **train):
    schedule = {"seq_len": 32, "tokens": 32 * 4 * 10, "batch": 4, "lr": 1e-3, **train}
    return RunSettings(
        data=TextSettings(corpus="c", text_sha256="t", tokenizer="byte"),
        model=ModelSettings(**asdict(PRESETS[preset]), preset=preset),
        attention=VariantSettings(name=attention),
        coupling=VariantSettings(name=coupling),
        train=Train(**schedule),
        seed=1,
    )


def kept_by_autograd(model, rows, tokens):
    """Count what a real forward pass keeps, on the processor, each storage once."""
    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage
        return tensor

    ids_bt = torch.randint(256, (rows, tokens))
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model.loss(ids_bt, ids_bt)
    return sum(storage.nbytes() for storage in kept.values())


@pytest.mark.parametrize("name", attention.names())
def test_activations_are_those_that_autograd_really_keeps(name):
    given = settings(attention=name)
    model = build_model(given, 256)
    assert activation_bytes(model, given) == kept_by_autograd(model, 4, 32)


@pytest.mark.parametrize("name", attention.names())
def test_of_a_deep_model_the_layers_of_one_kind_are_counted_once(name):
    options = {"kernel_layers": (0, 2, 3, 6)} if name == "multi_token" else {}
    given = settings(attention=name)
    deep = given.model_copy(
        update={
            "model": given.model.model_copy(update={"layers": 7}),
            "attention": VariantSettings(name=name, options=options),
        }
    )
    model = build_model(deep, 256)
    whole = kept_by_autograd(model, 4, 32)
    called = []
    for block in model.blocks:
        block.register_forward_hook(lambda block, *_: called.append(block))
    assert activation_bytes(model, deep) == whole
    assert len(called) == (4 if options else 2)
    assert len(model.blocks) == 7


@pytest.mark.parametrize("name", attention.names())
def test_a_small_model_is_really_run_and_counts_as_a_fake_one_does(name, monkeypatch):
    for line in ({}, {"activation_checkpointing": True}, {"precision": "bfloat16"}):
        given = settings(attention=name, seq_len=13, tokens=13 * 6, batch=6, **line)
        with monkeypatch.context() as patch:
            patch.setattr(estimate, "FakeTensorMode", None)  # would not do for a context
            run = footprint(given, 257)
        monkeypatch.setattr(estimate, "COUNTED_OPERATIONS", 0)
        assert footprint(given, 257) == run
        monkeypatch.undo()


def test_every_shape_is_looked_at_once_and_measuring_ends(small_study, tmp_path, monkeypatch):
    looked = {"footprint": [], "pace": []}

    def counted(name, real):
        return lambda *given: looked[name].append(given[0]) or real(*given)

    for name in looked:
        monkeypatch.setattr(dry_run, name, counted(name, getattr(estimate, name)))
    monkeypatch.setattr(dry_run, "MEASURING_SECONDS", 3600.0)  # however slow the machine is
    grid = "[grid]\nseq_len = [8, 16]\nlr = [0.1, 0.2, 0.3]\n[family]"
    plan = read(str(small_study(("[family]", grid))), tmp_path / "results")
    seen = dry_run.dry_run(plan, Profile(executor="local"), jobs=1, threads=1)
    assert len(seen.kinds) == 2 * 2 * 3
    assert [len(calls) for calls in looked.values()] == [4, 4]
    assert [kind.cost for kind in seen.kinds] == [
        cost(run.settings, 256, dry_run._ids_and_tokens(run.settings)[1]) for run in plan.runs[:12]
    ]
    monkeypatch.setattr(dry_run, "MEASURING_SECONDS", 0.0)
    dry_run.dry_run(plan, Profile(executor="local"), jobs=1, threads=1)
    assert [len(calls) for calls in looked.values()] == [8, 5]


def test_a_large_model_whose_settings_name_late_layers_is_measured_on_its_first(monkeypatch):
    given = settings("tiny", seq_len=7, tokens=7 * 2, batch=2)
    variant = VariantSettings(name="multi_token", options={"kernel_layers": [1]})
    given = given.model_copy(update={"attention": variant})
    monkeypatch.setattr(estimate, "MEASURED_PARAMETERS", 1)
    model, *_ = estimate._cut_down(given, 11)
    assert len(model.blocks) == 1
    assert model.blocks[0].attention.kernel_before is None
    assert pace(given, 11, 1).seconds(cost(given, 11)) > 0


def test_a_text_that_is_not_here_is_planned_without_it_and_said_to_be_away(
    small_study, tmp_path, monkeypatch
):
    monkeypatch.setenv("CQK_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("CQK_DATA_DIR", raising=False)
    study = small_study()
    text = re.sub('corpus = ".*"', 'corpus = "wikitext-103"', study.read_text(encoding="utf-8"))
    study.write_text(text.replace("[model]", 'tokenizer = "gpt2"\n\n[model]'), encoding="utf-8")
    ended = CliRunner().invoke(
        app, ["run", str(study), "--dry-run", "--results", str(tmp_path / "results")]
    )
    assert ended.exit_code == 0, ended.output
    assert ended.stdout.strip().splitlines()[-1] == (
        "wikitext-103 is not on this machine: run ids follow from the text and are not final"
    )
    # 12 steps of 64 tokens, and both splits at 4.4 bytes a token.
    scored = (1_142_309 + 1_281_077) / 4.4
    plan = read(str(study), tmp_path / "results", download=False)
    flops = dry_run.dry_run(plan, Profile(executor="local"), jobs=1, threads=1).kinds[0].cost.flops
    forward = footprint(plan.runs[0].settings, 50_257).forward_flops / 16
    assert flops == pytest.approx(forward * (3 * 12 * 64 + scored), rel=1e-3)
    assert not (tmp_path / "results").exists()


def test_memory_shrinks_with_parts_with_checkpointing_and_with_short_numbers():
    whole = cost(settings("micro", batch=16), 256)
    for setting in (
        {"gradient_accumulation": 4}, {"devices": 4}, {"activation_checkpointing": True},
        {"precision": "bfloat16"},
    ):  # fmt: skip
        less = cost(settings("micro", batch=16, **setting), 256)
        assert less.memory_bytes < whole.memory_bytes, setting
        assert less.parameters == whole.parameters
    assert whole.memory_bytes > 16 * whole.parameters


def test_operations_are_those_that_torch_counts():
    given = settings(coupling="none")
    model = build_model(given, 256)
    counter = FlopCounterMode(display=False)
    ids_bt = torch.randint(256, (4, 32))
    with counter, torch.no_grad():
        model(ids_bt)
    # torch does not see into the fused kernel: q k^T and p v, of 4 rows, 2 layers, 4 heads of 16.
    hidden = 2 * 2 * 32 * 32 * 4 * 16 * 2 * 4
    expected = cost(given, 256)
    assert expected.flops == pytest.approx(3 * 10 * (counter.get_total_flops() + hidden), rel=1e-6)
    assert (expected.steps, expected.tokens) == (10, 1280)
    recomputed = cost(settings(coupling="none", activation_checkpointing=True), 256)
    assert recomputed.flops == pytest.approx(4 / 3 * expected.flops)


@pytest.mark.parametrize(
    ("preset", "parameters"), [("60m", 59.3e6), ("150m", 151.9e6), ("455m", 454.2e6)]
)
def test_large_models_are_counted_without_being_built(preset, parameters):
    found = cost(settings(preset, coupling="none", seq_len=512, tokens=512 * 8, batch=8), 50_257)
    assert found.parameters == pytest.approx(parameters, rel=1e-3)
    assert 6 * parameters * 4096 < found.flops < 9 * parameters * 4096
    assert found.memory_bytes > 16 * found.parameters


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["60m", "150m", "455m"])
def test_large_models_take_a_step(preset):
    given = settings(preset, seq_len=8, tokens=8, batch=1)
    model = build_model(given, 50_257)
    optimizer = build_optimizer(model, given.train)
    torch.manual_seed(0)
    ids_bt = torch.randint(50_257, (1, 9))
    losses = []
    for _ in range(2):
        loss = model.loss(ids_bt[:, :-1], ids_bt[:, 1:])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert 0 < losses[1] < losses[0]


def test_a_pace_is_measured_on_a_model_cut_down(monkeypatch):
    monkeypatch.setattr(estimate, "MEASURED_OPERATIONS", 2e8)
    monkeypatch.setattr(estimate, "MEASURED_PARAMETERS", 4_000_000)
    given = settings("60m", seq_len=512, tokens=512 * 8, batch=8)
    model, rows, tokens = estimate._cut_down(given, 1000)
    assert len(model.blocks) == 1
    assert (rows, tokens) == (1, 16)
    found = pace(given, 1000, threads=1)
    assert 0 < found.seconds_per_flop < 1e-6
    assert found.seconds(cost(given, 1000)) > 0
    assert torch.get_num_threads() == 1


@pytest.mark.parametrize(("seconds", "told"), [(3600.0, False), (8 * 24 * 3600.0, True)])
def test_what_this_machine_cannot_carry_is_told_in_hours_of_a_gpu(seconds, told):
    kind = dry_run.Kind("a", {}, 3, 2, Cost(1000, 10, 100, 1.8e17, 4096), seconds / 2)
    text = dry_run.DryRun("s", [], [kind], 1, seconds, []).text()
    assert ("; 1.0 h of a device that sustains 100 TFLOP/s" in text) == told


def shown(*arguments):
    ran = CliRunner().invoke(app, ["run", *map(str, arguments), "--dry-run"])
    assert ran.exit_code == 0, ran.output
    return ran.stdout


def test_a_dry_run_tells_plan_counts_cost_and_time(small_study, tmp_path):
    text = shown(small_study(), "--results", tmp_path / "results")
    assert text.count("missing") == 6 + 1
    assert "plain: " in text
    assert "6 runs, 6 missing: 4,608 tokens to train" in text
    assert "FLOPs" in text
    assert "MiB a device" in text
    assert "at this machine's pace" in text
    assert not (tmp_path / "results").exists()


def test_a_dry_run_in_json_is_one_document(small_study, tmp_path):
    study = small_study(("[family]", "[grid]\nseq_len = [8, 16]\n[family]"))
    document = json.loads(
        shown(study, "--results", tmp_path / "r", "--json", "--only", "plain", "--jobs", "1")
    )
    assert len(document["runs"]) == 6
    assert [(kind["cell"], kind["runs"]) for kind in document["kinds"]] == [
        ({"seq_len": 8}, 3),
        ({"seq_len": 16}, 3),
    ]
    assert document["slots"] == 1
    total = sum(kind["missing"] * kind["seconds"] for kind in document["kinds"])
    assert document["seconds"] == pytest.approx(total)
    assert document["scripts"] == []
