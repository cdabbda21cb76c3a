"""Differential attention on a CPU: its blocks, the way back written by hand, what they keep.

That both forms agree at one size is among the laws; here blocks and parts are cut smaller.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.profiler import ProfilerActivity, profile

from runner import attention, coupling
from runner.attention import _difference
from runner.attention.base import Shape
from runner.attention.differential import Differential

torch.set_num_threads(1)
BATCH, HEADS, HEAD_DIM = 3, 12, 5
GROUPINGS = [
    {"kv_heads": None},
    {"kv_heads": 2, "grouping": "flash"},
    {"kv_heads": 2, "grouping": "naive"},
    {"kv_heads": 1, "grouping": "naive"},
    {"kv_heads": 3, "grouping": "naive"},
]
groupings = pytest.mark.parametrize("options", GROUPINGS, ids=str)
SIZES = [(3, 1), (3, 150), (4, 700), (64, 2**17)]  # rows and scores: one pair, some, sequences, all


def layer_of(options: dict, heads: int = HEADS, size: int = HEAD_DIM) -> Differential:
    method, none = attention.load("differential"), coupling.load("none")
    shape = Shape(width=7, heads=heads, head_dim=size, layer=1, layers=2)
    layer = method(shape, method.Options(**options), lambda **h: none(none.Options(), **h))
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(0.4 * torch.randn(parameter.shape, generator=generator))
    return layer.double()


def drawn(layer: Differential, queries: int, keys: int, batch: int = BATCH) -> list[Tensor]:
    generator = torch.Generator().manual_seed(queries)
    size = layer.shape.head_dim
    sizes = ((layer.heads, queries), (layer.kv_heads, keys), (layer.kv_heads, keys))
    made = (torch.randn(batch, *s, size, generator=generator).double() for s in sizes)
    return [x.requires_grad_() for x in made]


def documents(keys: int) -> Tensor:
    borders = torch.tensor([[2, 9], [5, 6], [1, keys - 1]])
    return (torch.arange(keys) >= borders[..., None]).sum(1)


def outcome(layer: Differential, rule, qkv: list[Tensor], documents_bt: Tensor | None) -> list:
    """Return the output and the gradients of queries, keys, values and lambda's vectors."""
    o_bptv = rule(*qkv, documents_bt)
    cotangent = torch.randn(o_bptv.shape, generator=torch.Generator().manual_seed(1)).to(o_bptv)
    lambdas = [getattr(layer, name) for name in sorted(layer.slow)]
    return [o_bptv.detach(), *torch.autograd.grad(o_bptv, [*qkv, *lambdas], cotangent)]


@groupings
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("packed", [False, True])
def test_blocks_of_any_size_are_the_naive_form(options, sizes, packed, monkeypatch) -> None:
    monkeypatch.setattr(_difference, "ROWS", sizes[0])
    monkeypatch.setattr(_difference, "SCORES", sizes[1])
    layer = layer_of(options)
    for queries, keys in ((11, 11), (1, 11), (4, 11)):
        qkv, documents_bt = drawn(layer, queries, keys), documents(keys) if packed else None
        fast = outcome(layer, layer.score, qkv, documents_bt)
        naive = outcome(layer, layer.score_naive, qkv, documents_bt)
        assert len(fast) == 8
        for one, other in zip(fast, naive, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


def test_the_sizes_cut_pairs_and_sequences_as_they_say(monkeypatch) -> None:
    layer, found = layer_of({}), []
    given = _difference.Given(*drawn(layer, 11, 11), None, torch.ones(()), torch.ones(2, 6))
    for rows, scores in SIZES:
        monkeypatch.setattr(_difference, "ROWS", rows)
        monkeypatch.setattr(_difference, "SCORES", scores)
        found.append(len(list(_difference._parts(given))))
    assert found == [18, 6, 2, 1]


@pytest.mark.parametrize("options", GROUPINGS[1:4], ids=str)
def test_gradients_are_those_of_finite_differences(options, monkeypatch) -> None:
    monkeypatch.setattr(_difference, "ROWS", 2)
    monkeypatch.setattr(_difference, "SCORES", 30)
    layer = layer_of(options, size=2)
    qkv = drawn(layer, 3, 5, batch=1)
    lambda_now = torch.tensor(1.3, dtype=torch.float64, requires_grad=True)
    pairs_2p = torch.cat(layer._pairs(torch.arange(HEADS)[None]))

    def rule(q: Tensor, k: Tensor, v: Tensor, of_map: Tensor) -> Tensor:
        return _difference.difference(_difference.Given(q, k, v, None, of_map, pairs_2p))

    assert torch.autograd.gradcheck(rule, [*qkv, lambda_now])


def test_any_layout_in_memory_is_the_same(monkeypatch) -> None:
    monkeypatch.setattr(_difference, "SCORES", 1)
    layer = layer_of({"kv_heads": 2})
    qkv = drawn(layer, 7, 7)
    turned = [x.detach().transpose(1, 2).contiguous().transpose(1, 2) for x in qkv]
    for one, other in zip(
        outcome(layer, layer.score, qkv, None),
        outcome(layer, layer.score, [x.requires_grad_() for x in turned], None),
        strict=True,
    ):
        assert torch.equal(one, other)


def test_bits_repeat_with_gradients_and_without() -> None:
    layer = layer_of({"kv_heads": 2}).float()
    qkv = [x.detach().float().requires_grad_() for x in drawn(layer, 70, 83)]
    once, again = (outcome(layer, layer.score, qkv, None) for _ in range(2))
    assert all(torch.equal(one, other) for one, other in zip(once, again, strict=True))
    for without in (torch.no_grad, torch.inference_mode):
        with without():
            assert torch.equal(layer.score(*qkv, None), once[0])


@pytest.mark.parametrize("given", [torch.float32, torch.bfloat16])
def test_autocast_gives_bfloat16_and_gradients_in_what_was_given(given) -> None:
    layer = layer_of({"kv_heads": 1}).float()
    qkv = [x.detach().to(given).requires_grad_() for x in drawn(layer, 67, 67)]
    wide = [x.detach().float().requires_grad_() for x in qkv]
    exact = outcome(layer, layer.score_naive, wide, None)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = outcome(layer, layer.score, qkv, None)
    dtypes = [torch.bfloat16, *[given] * 3, *[torch.float32] * 4]
    for one, other, dtype in zip(found, exact, dtypes, strict=True):
        assert one.dtype == dtype
        assert (one.float() - other).norm() < 0.02 * other.norm()


def largest(tokens: int) -> int:
    """Return the largest single allocation of scoring, forward and backward."""
    layer = layer_of({}, heads=2, size=2).float()
    qkv = [x.detach().float().requires_grad_() for x in drawn(layer, tokens, tokens, batch=1)]
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as made:
        outcome(layer, layer.score, qkv, None)
    events = made.profiler.kineto_results.events()
    return max(event.nbytes() for event in events if event.name() == "[memory]")


def test_no_memory_grows_with_the_square_of_the_length() -> None:
    short, long = largest(2048 + 1), largest(2 * 2048 + 1)
    assert short < 2048**2
    assert long < 2.1 * short


def test_a_dry_run_goes_through_no_block_and_counts_what_is_kept(monkeypatch) -> None:
    monkeypatch.setattr(_difference, "_parts", None)  # no part can be made
    layer = layer_of({"kv_heads": 2})
    with FakeTensorMode(allow_non_fake_inputs=True):
        queries, keys = torch.empty(2, HEADS, 999, 5), torch.empty(2, 4, 999, 5)
        qkv = [x.requires_grad_() for x in (queries, keys, keys.clone())]
        kept: list[Tensor] = []
        with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x) or x, lambda x: x):
            o_bptv = layer.score(*qkv, None)
    assert o_bptv.shape == (2, HEADS // 2, 999, 10)
    of_tokens = [x for x in kept if x.numel() > 100]
    assert sorted(x.numel() for x in of_tokens) == sorted(x.numel() for x in qkv)
