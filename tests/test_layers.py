"""Rotary keeps lengths and relative positions; norm and starts are what they say."""

from __future__ import annotations

import pytest
import torch

from runner.layers import Constant, Linear, Normal, RMSNorm, Rotary, wide

torch.set_num_threads(1)
LAYOUTS = pytest.mark.parametrize("layout", ["half", "interleaved"])


def heads(dtype: torch.dtype = torch.float64) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(2, 3, 7, 10, generator=generator, dtype=torch.float64).to(dtype)


@LAYOUTS
def test_rotary_keeps_lengths_and_position_zero(layout: str) -> None:
    x = heads()
    turned = Rotary(layout=layout)(x, offset=0)
    torch.testing.assert_close(turned.norm(dim=-1), x.norm(dim=-1), rtol=1e-12, atol=0)
    assert torch.equal(turned[:, :, 0], x[:, :, 0])
    assert not torch.equal(turned[:, :, 1], x[:, :, 1])


@LAYOUTS
def test_scores_depend_on_the_distance_only(layout: str) -> None:
    q, k = heads(), heads().flip(1)
    near, far = (Rotary(layout=layout, start=start) for start in (0, 1000))
    scores = [r(q, offset=0) @ r(k, offset=0).mT for r in (near, far)]
    torch.testing.assert_close(scores[0], scores[1], rtol=0, atol=1e-11)
    moved = near(q, offset=0) @ near(k, offset=1).mT
    assert (moved - scores[0]).abs().max() > 0.1


def test_layouts_differ_by_a_permutation_of_coordinates() -> None:
    x = heads()
    order = torch.cat((torch.arange(0, 10, 2), torch.arange(1, 10, 2)))
    half = Rotary(layout="half")(x[..., order], offset=0)
    interleaved = Rotary(layout="interleaved")(x, offset=0)
    torch.testing.assert_close(half, interleaved[..., order], rtol=0, atol=1e-14)


@LAYOUTS
def test_offset_continues_and_tables_grow(layout: str) -> None:
    rotary, x = Rotary(layout=layout), heads()
    parts = [rotary(x[:, :, :2], offset=0), rotary(x[:, :, 2:], offset=2)]
    assert torch.equal(torch.cat(parts, dim=2), Rotary(layout=layout)(x, offset=0))


def test_angles_are_made_in_float64() -> None:
    """At position 8,192 a float32 angle is off by more than the table's own rounding."""
    x = torch.ones(1, 1, 1, 2)
    turned = Rotary()(x, offset=8192)
    expected = torch.tensor(8192.0, dtype=torch.float64)
    assert turned[..., 0].item() == pytest.approx(
        (expected.cos() - expected.sin()).item(), abs=1e-6
    )


@LAYOUTS
def test_tables_made_in_evaluation_serve_training(layout: str) -> None:
    rotary, x = Rotary(layout=layout), heads().requires_grad_()
    with torch.inference_mode():
        rotary(x, offset=0)
    rotary(x, offset=0).sum().backward()
    assert torch.isfinite(x.grad).all()


def test_unknown_layout_is_refused() -> None:
    with pytest.raises(ValueError, match="must be 'half' or 'interleaved', got 'split'"):
        Rotary(layout="split")


def test_norm_is_its_formula_and_keeps_the_dtype() -> None:
    norm, x = RMSNorm(10, eps=1e-3).double(), heads()
    with torch.no_grad():
        norm.weight.copy_(torch.arange(10))
    expected = torch.arange(10) * x / (x.square().mean(-1, keepdim=True) + 1e-3).sqrt()
    torch.testing.assert_close(norm(x), expected, rtol=1e-12, atol=1e-14)
    low = norm.float()(x.bfloat16())
    assert low.dtype == torch.bfloat16
    torch.testing.assert_close(low, norm(wide(x.bfloat16())).bfloat16(), rtol=0, atol=0)


@pytest.mark.parametrize("start", [Normal(0.5), Constant(0.5)])
def test_starts_depend_on_the_generator_only(start: Normal | Constant) -> None:
    drawn = []
    for global_seed, seed in ((1, 7), (2, 7), (2, 8)):
        torch.manual_seed(global_seed)
        parameter = torch.empty(211, 31)
        start.fill(parameter, torch.Generator().manual_seed(seed))
        drawn.append(parameter)
    assert torch.equal(drawn[0], drawn[1])
    assert torch.equal(drawn[1], drawn[2]) == isinstance(start, Constant)
    assert drawn[0].square().mean().sqrt().item() == pytest.approx(0.5, rel=0.03)


def test_linear_declares_its_start() -> None:
    assert Linear(16, 3).initial["weight"] == Normal(0.25)
    assert Linear(16, 3, zero=True).initial["weight"] == Constant(0.0)
