"""Chunked cross entropy is the library's, gradients included, and holds no logits."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from runner import cross_entropy
from runner.cross_entropy import mean_nats, nats_per_row

torch.set_num_threads(1)
ROWS, VOCABULARY, WIDTH = 37, 53, 11


def problem() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    states = torch.randn(ROWS, WIDTH, generator=generator, dtype=torch.float64)
    weight = torch.randn(VOCABULARY, WIDTH, generator=generator, dtype=torch.float64)
    target = torch.randint(VOCABULARY, (ROWS,), generator=generator)
    target[::5] = -100
    return states.requires_grad_(), weight.requires_grad_(), target


@pytest.fixture(params=[1, 3 * VOCABULARY, 2**24], ids=["row", "three rows", "all rows"])
def chunk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(cross_entropy, "LOGITS_PER_CHUNK", request.param)
    return request.param


@pytest.mark.usefixtures("chunk")
def test_value_and_gradients_are_the_librarys() -> None:
    states, weight, target = problem()
    expected = F.cross_entropy(states @ weight.T, target)
    grads = torch.autograd.grad(3.0 * expected, (states, weight))
    loss = mean_nats(states, weight, target)
    torch.testing.assert_close(loss, expected, rtol=1e-12, atol=0)
    for ours, theirs in zip(torch.autograd.grad(3.0 * loss, (states, weight)), grads, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-15)


@pytest.mark.usefixtures("chunk")
def test_nats_per_row_are_the_librarys_and_zero_where_nothing_is_scored() -> None:
    states, weight, target = problem()
    expected = F.cross_entropy(states @ weight.T, target, reduction="none")
    nats = nats_per_row(states, weight, target)
    torch.testing.assert_close(nats, expected, rtol=1e-12, atol=0)
    assert (nats[::5] == 0).all()
    assert not nats.requires_grad


@pytest.mark.parametrize("wanted", [(True, False), (False, True), (False, False)])
def test_only_wanted_gradients_are_made(wanted: tuple[bool, bool]) -> None:
    states, weight, target = problem()
    states.requires_grad_(wanted[0])
    weight.requires_grad_(wanted[1])
    loss = mean_nats(states, weight, target)
    assert loss.requires_grad == any(wanted)
    if loss.requires_grad:
        loss.backward()
    assert (states.grad is not None, weight.grad is not None) == wanted


def test_nothing_as_wide_as_the_vocabulary_is_kept_per_row() -> None:
    states, weight, target = problem()
    kept: list[torch.Size] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.shape) or t, lambda t: t):
        mean_nats(states, weight, target)
    assert kept
    assert (ROWS, VOCABULARY) not in {tuple(shape) for shape in kept}


def test_extreme_logits_and_no_target() -> None:
    states, weight, target = (t.detach() for t in problem())
    states = (1e6 * states).requires_grad_()
    loss = mean_nats(states, weight, target)
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(states.grad).all()
    assert mean_nats(states, weight, torch.full_like(target, -1)).isnan()


def test_autocast_multiplies_in_bfloat16_and_sums_in_float32() -> None:
    states, weight, target = (t.detach() for t in problem())
    states, weight = states.float().requires_grad_(), weight.float().requires_grad_()
    exact = mean_nats(states, weight, target)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = mean_nats(states, weight, target)
    loss.backward()
    assert loss.dtype == states.grad.dtype == weight.grad.dtype == torch.float32
    assert 0 < abs(loss.item() - exact.item()) < 0.02 * exact.item()
