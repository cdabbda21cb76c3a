"""The named sizes hit their names, with each attention and coupling."""

from __future__ import annotations

import subprocess
import sys

import pytest

from runner import attention, coupling, presets
from runner.model import build

GPT2_VOCABULARY = 50_257
NAMED = {"60m": 60e6, "150m": 150e6, "455m": 455e6}


@pytest.mark.parametrize("preset", NAMED)
def test_plain_model_is_within_two_percent_of_its_name(preset: str) -> None:
    model = build(presets.PRESETS[preset], vocab_size=GPT2_VOCABULARY, device="meta")
    assert model.parameter_count() == pytest.approx(NAMED[preset], rel=0.02)


@pytest.mark.parametrize("pair", coupling.names())
@pytest.mark.parametrize("method", attention.names())
def test_every_variant_builds_at_60m_and_counts_itself(method: str, pair: str) -> None:
    plain = build(presets.PRESETS["60m"], vocab_size=GPT2_VOCABULARY, device="meta")
    model = build(
        presets.PRESETS["60m"],
        vocab_size=GPT2_VOCABULARY,
        attention=method,
        coupling=pair,
        device="meta",
    )
    declared = sum(block.attention.parameter_count() for block in model.blocks)
    replaced = sum(block.attention.parameter_count() for block in plain.blocks)
    assert model.parameter_count() == plain.parameter_count() - replaced + declared
    extra = model.parameter_count() / plain.parameter_count() - 1.0
    # Two methods own another matrix per layer by design; a shared key/value head saves two.
    assert -0.07 < extra < 0.08


@pytest.mark.parametrize(("preset", "percent"), [("60m", 0.36), ("150m", 0.32), ("455m", 0.28)])
def test_share_of_the_affine_coupling(preset: str, percent: float) -> None:
    counts = [
        build(
            presets.PRESETS[preset], vocab_size=GPT2_VOCABULARY, coupling=name, device="meta"
        ).parameter_count()
        for name in ("none", "affine")
    ]
    assert 100.0 * (counts[1] / counts[0] - 1.0) == pytest.approx(percent, abs=0.005)


def test_micro_has_about_a_million_parameters_without_embeddings() -> None:
    model = build(presets.PRESETS["micro"], vocab_size=4096, device="meta")
    without = model.parameter_count() - model.embedding.weight.numel()
    assert without == pytest.approx(1e6, rel=0.1)


def test_reading_the_presets_imports_no_torch() -> None:
    code = "import sys, runner.presets, runner.attention, runner.coupling; print(*sys.modules)"
    code += "; assert runner.attention.names() and runner.coupling.names()"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"torch", "pydantic", "numpy"} & set(ended.stdout.split())


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"layers": 0}, "layers must be positive, got 0"),
        ({"head_dim": 7}, "head_dim must be even for rotary pairs, got 7"),
        ({"rope_base": -1.0}, "rope_base must be positive"),
    ],
)
def test_impossible_sizes_are_refused(sizes: dict, message: str) -> None:
    good = {"layers": 1, "width": 8, "heads": 2, "head_dim": 4, "feed_forward": 16}
    with pytest.raises(ValueError, match=message):
        presets.Sizes(**good | sizes)


def test_unknown_preset_names_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"unknown preset '450m': did you mean '455m'\?"):
        presets.find("450m")
