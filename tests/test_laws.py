"""Laws that hold for every scoring method under every coupling.

Both folders are walked: a new file is covered without an edit here. A variant's ``examples`` are
the settings tried; the sizes are odd or prime where a variant allows it, so that a swapped
axis cannot pass.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from runner import attention, coupling
from runner.attention.base import Attention, Cache, Shape
from runner.coupling.base import Coupling
from runner.layers import Rotary
from runner.model import build, fill
from runner.presets import Sizes
from runner.streams import fold

torch.set_num_threads(1)
WIDTH, HEADS, HEAD_DIM, BATCH, TOKENS = 23, 6, 10, 3, 13
EXEMPT_FROM_IDENTITY = "dt"
"""The setting that starts a coupling away from the identity on purpose."""


@dataclass(frozen=True)
class Case:
    """One scoring method and one coupling, each with settings."""

    attention: str
    coupling: str
    attention_options: dict[str, Any] = field(default_factory=dict)
    coupling_options: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        spelled = [
            f"{name}({', '.join(f'{k}={v}' for k, v in options.items())})" if options else name
            for name, options in (
                (self.attention, self.attention_options),
                (self.coupling, self.coupling_options),
            )
        ]
        return " x ".join(spelled)

    def layer(self, dtype: torch.dtype = torch.float64, **sizes: int) -> Attention:
        """Return the layer with every parameter random, those that start at zero too."""
        shape = Shape(
            **{"width": WIDTH, "heads": HEADS, "head_dim": HEAD_DIM, "layer": 1, "layers": 2}
            | sizes
        )
        variant, pair = attention.load(self.attention), coupling.load(self.coupling)
        options = pair.Options(**self.coupling_options)
        layer = variant(
            shape, variant.Options(**self.attention_options), lambda **h: pair(options, **h)
        )
        return randomise(layer).to(dtype)


def randomise(module: torch.nn.Module, *, leave: frozenset[str] = frozenset()) -> torch.nn.Module:
    """Draw every parameter by its name, except those that ``leave`` names."""
    for name, parameter in module.named_parameters():
        if name.split(".")[-1] not in leave or ".coupling." not in f".{name}":
            generator = torch.Generator().manual_seed(fold(0, name))
            with torch.no_grad():
                parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator) + 0.1)
    return module


CASES = [
    Case(method, pair, {}, options)
    for method in attention.names()
    for pair in coupling.names()
    for options in coupling.load(pair).examples
] + [
    Case(method, pair, options, {})
    for method in attention.names()
    for options in attention.load(method).examples[1:]
    for pair in ("none", "affine")
]
every_case = pytest.mark.parametrize("case", CASES, ids=str)
every_method = pytest.mark.parametrize("name", attention.names())


def inputs(dtype: torch.dtype = torch.float64, tokens: int = TOKENS) -> torch.Tensor:
    generator = torch.Generator().manual_seed(7)
    return torch.randn(BATCH, tokens, WIDTH, generator=generator).to(dtype)


def same(one: torch.Tensor, other: torch.Tensor, tolerance: float = 1e-10) -> None:
    torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    "case", [case for case in CASES if EXEMPT_FROM_IDENTITY not in case.coupling_options], ids=str
)
def test_identity_at_the_start(case: Case) -> None:
    """Bit for bit the uncoupled model, with everything else random, output projections too."""
    sizes = Sizes(layers=2, width=WIDTH, heads=HEADS, head_dim=HEAD_DIM, feed_forward=29)
    shared = {"vocab_size": 17, "attention": case.attention, "seed": 3}
    shared["attention_options"] = case.attention_options
    plain = randomise(build(sizes, **shared))
    coupled = build(sizes, coupling=case.coupling, coupling_options=case.coupling_options, **shared)
    gates = coupling.load(case.coupling).gates
    randomise(coupled, leave=gates)
    x_bt = torch.arange(BATCH * TOKENS).view(BATCH, TOKENS) * 7 % 17
    logits = plain(x_bt)
    assert torch.equal(coupled(x_bt), logits)
    assert logits.std() > 0.1


@every_case
def test_no_token_sees_a_later_one(case: Case) -> None:
    layer, rotary, x, t = case.layer(), Rotary(), inputs(), 8
    moved = x.clone()
    moved[:, t:] += 1.0
    for form in (layer, layer.forward_naive):
        before, after = form(x, rotary), form(moved, rotary)
        assert torch.equal(before[:, :t], after[:, :t])
        assert (before[:, t:] != after[:, t:]).any(dim=-1).all()


class Disturb(torch.nn.Module):
    """Wraps a coupling and moves the keys from token t on: later scores change, values do not."""

    def __init__(self, inside: Coupling, t: int) -> None:
        super().__init__()
        self.inside, self.t, self.changes_keys = inside, t, True

    def forward(self, q: torch.Tensor, k: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        q, k = self.inside(q, k)
        later = torch.arange(k.shape[-2])[:, None] >= self.t
        return q, torch.where(later, 3.0 - 2.0 * k, k)

    forward_naive = forward


@every_case
def test_no_token_sees_the_score_of_a_later_key(case: Case) -> None:
    layer, rotary, x, t = case.layer(), Rotary(), inputs(), 6
    before = [layer(x, rotary), layer.forward_naive(x, rotary)]
    layer.coupling = Disturb(layer.coupling, t)
    after = [layer(x, rotary), layer.forward_naive(x, rotary)]
    for one, other in zip(before, after, strict=True):
        same(one[:, :t], other[:, :t], 1e-12)
        assert (one[:, t:] - other[:, t:]).abs().amax() > 1e-6


@every_case
def test_sequences_of_a_batch_do_not_meet(case: Case) -> None:
    layer, rotary, x = case.layer(), Rotary(), inputs()
    moved = x.clone()
    moved[1:] *= -2.0
    assert torch.equal(layer(x, rotary)[0], layer(moved, rotary)[0])
    same(layer(x, rotary)[:1], layer(x[:1], rotary))


@every_case
def test_positions_matter_only_as_promised(case: Case) -> None:
    layer, x = case.layer(), inputs()
    here, there = layer(x, Rotary(start=0)), layer(x, Rotary(start=41))
    difference = (here - there).abs().max().item()
    assert (difference < 1e-10) == layer.shift_invariant, difference


@every_case
@pytest.mark.parametrize("documents", [False, True])
def test_fast_form_is_the_naive_form_with_all_gradients(case: Case, documents: bool) -> None:
    layer, rotary = case.layer(), Rotary()
    documents_bt = document_numbers() if documents else None
    cotangent = torch.randn(BATCH, TOKENS, WIDTH, generator=torch.Generator().manual_seed(1))
    results = []
    for form in (layer, layer.forward_naive):
        x = inputs().requires_grad_()
        layer.zero_grad()
        out = form(x, rotary, documents_bt=documents_bt)
        (out * cotangent).sum().backward()
        results.append((out.detach(), x.grad, *(p.grad for p in layer.parameters())))
    for fast, naive in zip(*results, strict=True):
        assert naive.abs().max() > 0
        same(fast, naive)


def document_numbers() -> torch.Tensor:
    """Return borders that differ from row to row and never fall on a round number."""
    token = torch.arange(TOKENS)
    borders = torch.tensor([[5, 9], [1, 12], [7, 8]])
    return (token >= borders[..., None]).sum(1)


@every_case
def test_documents_do_not_meet(case: Case) -> None:
    layer, rotary, x, documents_bt = case.layer(), Rotary(), inputs(), document_numbers()
    packed = layer(x, rotary, documents_bt=documents_bt)
    for row in range(BATCH):
        for number in range(3):
            mine = documents_bt[row] == number
            moved = x.clone()
            moved[row, ~mine] += 1.0
            again = layer(moved, rotary, documents_bt=documents_bt)
            same(packed[row, mine], again[row, mine], 1e-12)
            if layer.shift_invariant:
                same(packed[row, mine], layer(x[row, mine][None], rotary)[0])


@every_case
def test_saved_and_loaded_is_the_same(case: Case) -> None:
    layer, rotary, x = case.layer(torch.float32), Rotary(), inputs(torch.float32)
    copy = case.layer(torch.float32)
    with torch.no_grad():
        for parameter in copy.parameters():
            parameter.zero_()
    copy.load_state_dict({name: tensor.clone() for name, tensor in layer.state_dict().items()})
    assert torch.equal(layer(x, rotary), copy(x, rotary))
    assert set(layer.state_dict()) == {name for name, _ in layer.named_parameters()}


@every_case
def test_decoding_is_the_full_pass_and_keeps_what_it_declares(case: Case) -> None:
    layer, rotary, tokens = case.layer(), Rotary(), 29
    x, cache, made = inputs(tokens=tokens), Cache(), []
    with torch.no_grad():
        for part in x.split((4, 1, 3, *(1,) * (tokens - 8)), dim=1):
            made.append(layer(part, rotary, cache=cache))
        same(torch.cat(made, dim=1), layer(x, rotary))
    declared = tokens * layer.cache_floats_per_token() + layer.cache_floats_fixed()
    assert cache.floats() == BATCH * declared


@every_case
def test_declared_counts_are_the_real_ones(case: Case) -> None:
    layer, rotary, x = case.layer(), Rotary(), inputs()[:1]
    assert layer.parameter_count() == sum(p.numel() for p in layer.parameters())
    # Fast forms are handed padding (sizes a fused kernel wants, a bias as one more row) or skip
    # work, so that the count is that of the plain formula: of a coupling's naive form, and of
    # one of the two forms of a scoring method.
    layer.coupling.forward = layer.coupling.forward_naive
    counted = []
    for form in (layer, layer.forward_naive):
        with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as flops:
            form(x, rotary)
        counted.append(flops.get_total_flops())
    assert layer.forward_flops(TOKENS) in counted


@every_case
def test_finite_under_bfloat16_autocast(case: Case) -> None:
    layer, rotary = case.layer(torch.float32), Rotary()
    x = inputs(torch.float32).requires_grad_()
    exact = layer(x, rotary)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = layer(x, rotary)
    out.float().square().mean().backward()
    assert all(torch.isfinite(g).all() for g in (out, x.grad, *gradients(layer)))
    error = (out.float() - exact).square().mean().sqrt() / exact.square().mean().sqrt()
    assert error < 0.2


def gradients(layer: Attention) -> list[torch.Tensor]:
    return [parameter.grad for parameter in layer.parameters()]


@every_case
@pytest.mark.parametrize("size", [0.0, 1e-12, 1e3])
def test_gradients_stay_finite_on_extreme_inputs(case: Case, size: float) -> None:
    """The largest gives scores of 10^7; from 10^8 on float32 cannot tell neighbouring scores apart.

    There the library's fused backward, which makes the scores again, overflows.
    """
    layer, rotary = case.layer(torch.float32), Rotary()
    x = (size * inputs(torch.float32)).requires_grad_()
    out = layer(x, rotary)
    out.sum().backward()
    assert all(torch.isfinite(g).all() for g in (out, x.grad, *gradients(layer)))


def refuses(name: str, sizes: dict[str, int]) -> bool:
    """Say whether the method declines these sizes in words that name the wanted and the given."""
    try:
        Case(name, "affine").layer(**sizes)
    except ValueError as refusal:
        return f"heads must be even, got {sizes['heads']}" in str(refusal)
    return False


@every_method
@pytest.mark.parametrize(("heads", "tokens"), [(1, 1), (3, 5), (2, 1), (7, 2)])
def test_any_size_works_or_is_refused(name: str, heads: int, tokens: int) -> None:
    sizes = {"heads": heads, "head_dim": 2, "width": 5}
    if heads % 2 and refuses(name, sizes):
        return
    layer = Case(name, "affine").layer(**sizes)
    x = inputs(tokens=tokens)[..., :5]
    assert layer(x, Rotary()).shape == x.shape
    same(layer(x, Rotary()), layer.forward_naive(x, Rotary()))


@pytest.mark.parametrize(
    ("folder", "name"),
    [(folder, name) for folder in (attention, coupling) for name in folder.names()],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_a_variant_says_what_it_is_and_refuses_unknown_settings(folder: Any, name: str) -> None:
    variant = folder.load(name)
    assert 10 < len(variant.summary) < 90
    assert "\n" not in variant.summary
    assert "https://" in variant.source
    assert "20" in variant.source
    assert variant.examples[0] == {}
    with pytest.raises(ValueError, match="no_such_setting"):
        variant.Options(no_such_setting=1)


@every_case
def test_every_parameter_declares_its_start_and_draws_from_its_own_stream(case: Case) -> None:
    layer, again = case.layer(torch.float32), case.layer(torch.float32)
    fill(layer, 5)
    fill(again, 5)
    for one, other in zip(layer.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)
    fill(again, 6)
    assert not torch.equal(layer.value.weight, again.value.weight)
    assert layer.output.weight.abs().max() == 0


def test_a_cache_refuses_documents() -> None:
    for name in attention.names():
        layer = Case(name, "none").layer()
        with pytest.raises(ValueError, match="a cache holds one document per sequence"):
            layer(inputs(), Rotary(), cache=Cache(), documents_bt=document_numbers())


WINDOW = '''
"""Attention to the last few tokens only."""

from __future__ import annotations

from pydantic import PositiveInt

from ._heads import HeadAttention
from ._scoring import masked_softmax, scores, spread, visible
from .base import Options


class WindowOptions(Options):
    """Settings."""

    window: PositiveInt = 5


class Window(HeadAttention):
    """Softmax over a window."""

    summary = "softmax over the last few tokens"
    source = "Longformer, I. Beltagy et al., 2020, https://arxiv.org/abs/2004.05150"
    Options = WindowOptions

    def __init__(self, shape, options, make_coupling):
        super().__init__(shape, make_coupling)
        self.window = options.window

    def score_naive(self, q, k, v, documents_bt):
        seen = visible(q.shape[-2], k.shape[-2], q.device, documents_bt)
        near = seen & ~visible(q.shape[-2], k.shape[-2], q.device).tril(
            k.shape[-2] - q.shape[-2] - self.window
        )
        return masked_softmax(scores(q, k), near) @ spread(v, self.heads)

    score = score_naive
'''


def test_a_file_dropped_into_the_folder_is_listed_and_obeys_the_laws(tmp_path: Path) -> None:
    root = Path(__file__).parent.parent
    unwanted = shutil.ignore_patterns("__pycache__")
    shutil.copytree(root / "runner", tmp_path / "runner", ignore=unwanted)
    shutil.copy(root / "pyproject.toml", tmp_path)
    (tmp_path / "tests").mkdir()
    shutil.copy(__file__, tmp_path / "tests" / "test_laws.py")
    (tmp_path / "runner" / "attention" / "window.py").write_text(WINDOW)
    command = [sys.executable, "-m", "pytest", "-q", "tests/test_laws.py", "-k", "window"]
    ended = subprocess.run(
        [*command, "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr
    assert "passed" in ended.stdout
