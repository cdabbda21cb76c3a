"""What a coupling promises: an exact inverse, its log-determinant, and a start that can learn."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch.autograd import gradcheck

from runner import coupling
from runner.coupling._half_step import HalfStep, move_pair
from runner.coupling.base import Coupling
from runner.model import fill

torch.set_num_threads(1)
BATCH, HEADS, KV_HEADS, TOKENS, HEAD_DIM = 3, 6, 2, 5, 7
CASES = [
    pytest.param(name, options, id=f"{name}-{options}")
    for name in coupling.names()
    for options in coupling.load(name).examples
]
every_case = pytest.mark.parametrize(("name", "options"), CASES)
INVERTIBLE = [case for case in CASES if coupling.load(case.values[0]).invertible]


def made(
    name: str,
    options: dict[str, Any] | None = None,
    *,
    heads: int = HEADS,
    kv_heads: int = KV_HEADS,
    head_dim: int = HEAD_DIM,
    spread: float = 0.3,
) -> Coupling:
    """Return a coupling with every parameter random, in float64."""
    kind = coupling.load(name)
    settings = kind.Options(**(options or {}))
    module = kind(settings, heads=heads, kv_heads=kv_heads, head_dim=head_dim).double()
    generator = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(0.0, spread, generator=generator)
    return module


def vectors(
    heads: int = HEADS, kv_heads: int = KV_HEADS, head_dim: int = HEAD_DIM
) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(5)
    sizes = ((BATCH, n, TOKENS, head_dim) for n in (heads, kv_heads))
    q, k = (torch.randn(size, generator=generator, dtype=torch.float64) for size in sizes)
    return q, k


@pytest.mark.parametrize(("name", "options"), INVERTIBLE)
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)], ids=str
)
def test_inverse_undoes_the_map(
    name: str, options: dict[str, Any], dtype: torch.dtype, tolerance: float
) -> None:
    module = made(name, options).to(dtype)
    q, k = (x.to(dtype) for x in vectors())
    moved = module(q, k)
    if name != "none":
        assert all((a - b).abs().mean() > 1e-3 for a, b in zip(moved, (q, k), strict=True))
    back = module.inverse(*moved)
    for one, other in zip(back, (q, k), strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("name", "options"), INVERTIBLE)
@pytest.mark.parametrize("kv_heads", [1, 2])
def test_log_determinant_is_autograds(name: str, options: dict[str, Any], kv_heads: int) -> None:
    heads, head_dim = 4, 3
    module = made(name, options, heads=heads, kv_heads=kv_heads, head_dim=head_dim)
    q, k = vectors(heads, kv_heads, head_dim)
    *moved, log_det_bgt = module.with_log_det(q, k)
    assert log_det_bgt.shape == (BATCH, kv_heads, TOKENS)
    for one, other in zip(moved, module(q, k), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
    for token in range(TOKENS):
        start = torch.cat([x[1, :, token].flatten() for x in (q, k)])

        def flat(x: torch.Tensor) -> torch.Tensor:
            q_part, k_part = x.split((heads * head_dim, kv_heads * head_dim))
            parts = (p.view(1, -1, 1, head_dim) for p in (q_part, k_part))
            return torch.cat([p.flatten() for p in module(*parts)])

        jacobian = torch.autograd.functional.jacobian(flat, start)
        expected = torch.linalg.slogdet(jacobian).logabsdet
        torch.testing.assert_close(log_det_bgt[1, :, token].sum(), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", [n for n in coupling.names() if not coupling.load(n).invertible])
def test_what_has_no_inverse_says_so(name: str) -> None:
    module = made(name)
    for method in (module.inverse, module.with_log_det):
        with pytest.raises(ValueError, match=r"has no exact inverse and no log-determinant"):
            method(*vectors())


@pytest.mark.parametrize(("name", "options"), [c for c in CASES if c.values[0] != "none"])
def test_gradient_reaches_the_gates_at_step_one(name: str, options: dict[str, Any]) -> None:
    kind = coupling.load(name)
    module = kind(kind.Options(**options), heads=HEADS, kv_heads=KV_HEADS, head_dim=HEAD_DIM)
    fill(module, 3)
    q, k = (x.float() for x in vectors())
    moved_q, moved_k = module(q, k)
    (moved_q.sum(1) * moved_k.sum(1)).sum().backward()
    named = [(n.split(".")[-1], p) for n, p in module.named_parameters()]
    gates = [p for n, p in named if n in kind.gates]
    assert gates
    assert all((p.grad != 0).any() for p in gates)
    if not options:
        assert torch.equal(moved_q, q)
        assert torch.equal(moved_k, k)


@pytest.mark.parametrize("name", ["affine", "uncoupled"])
@pytest.mark.parametrize("raw", [1e9, -1e9])
def test_raw_outputs_of_a_billion_stay_finite(name: str, raw: float) -> None:
    """The exponent stops at the bound, so the map still has its inverse and its gradients."""
    module = made(name).float()
    with torch.no_grad():
        for parameter_name, parameter in module.named_parameters():
            if parameter_name.endswith("outer_bias"):
                parameter.view(-1, 2, HEAD_DIM)[:, 0] = raw
    q, k = (x.float().requires_grad_() for x in vectors())
    moved = module(q, k)
    for form in (moved, module.forward_naive(q, k)):
        assert all(torch.isfinite(x).all() for x in form)
    (moved[0].square().sum() + moved[1].square().sum()).backward()
    grads = (q.grad, k.grad, *(p.grad for p in module.parameters()))
    assert all(torch.isfinite(g).all() for g in grads)
    if module.invertible:
        for one, other in zip(module.inverse(*moved), (q, k), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


def test_affine_by_hand() -> None:
    """One head of size one, one hidden unit, numbers that a pocket calculator checks."""
    module = made("affine", {"hidden": 1, "bound": 0.5}, heads=1, kv_heads=1, head_dim=1)
    values = {"inner": [2.0], "inner_bias": [1.0], "outer": [0.3, -1.0], "outer_bias": [0.1, 0.5]}
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            value = torch.tensor(values[name.split(".")[-1]], dtype=torch.float64)
            parameter.copy_(value.view_as(parameter))

    def step(x: float, condition: float) -> float:
        unit = 2.0 * condition + 1.0
        unit = unit / (1.0 + math.exp(-unit))
        return x * math.exp(0.5 * math.tanh(0.3 * unit + 0.1)) + (-1.0 * unit + 0.5)

    k_expected = step(-0.7, 1.2)
    q_expected = step(1.2, k_expected)
    q, k = (torch.full((1, 1, 1, 1), x, dtype=torch.float64) for x in (1.2, -0.7))
    moved_q, moved_k = module(q, k)
    assert moved_k.item() == pytest.approx(k_expected, abs=1e-12)
    assert moved_q.item() == pytest.approx(q_expected, abs=1e-12)


@pytest.mark.parametrize(("name", "k_reads"), [("euler", 0), ("symplectic", 1)])
def test_dynamics_by_hand(name: str, k_reads: int) -> None:
    """Both move q by dt k; explicit Euler then reads the old q, the symplectic form the new."""
    module = made(name, {"hidden": 1}, heads=1, kv_heads=1, head_dim=1)
    values = {"inner": 2.0, "inner_bias": 1.0, "outer": 0.3, "outer_bias": 0.1, "dt": 0.25}
    with torch.no_grad():
        for parameter_name, parameter in module.named_parameters():
            parameter.fill_(values[parameter_name.split(".")[-1]])
    q = (1.2, 1.2 + 0.25 * -0.7)
    unit = 2.0 * q[k_reads] + 1.0
    force = 0.3 * unit / (1.0 + math.exp(-unit)) + 0.1
    moved_q, moved_k = module(
        *(torch.full((1, 1, 1, 1), x, dtype=torch.float64) for x in (1.2, -0.7))
    )
    assert moved_q.item() == pytest.approx(q[1], abs=1e-12)
    assert moved_k.item() == pytest.approx(-0.7 + 0.25 * force, abs=1e-12)


def test_pairs_compose_in_order() -> None:
    """Two pairs are one pair after the other."""
    both = made("affine", {"pairs": 2})
    q, k = vectors()
    one_by_one = (q, k)
    for key_step, query_step in zip(both.key_steps, both.query_steps, strict=True):
        one_by_one = move_pair(*one_by_one, key_step, query_step)
    for whole, part in zip(both(q, k), one_by_one, strict=True):
        assert torch.equal(whole, part)


@pytest.mark.parametrize("name", ["affine", "symplectic", "euler"])
def test_coupled_vectors_depend_on_each_other(name: str) -> None:
    module, (q, k) = made(name), vectors()
    assert not torch.equal(module(q, k)[1], module(q + 1.0, k)[1])
    assert not torch.equal(module(q, k)[0], module(q, k + 1.0)[0])


def test_uncoupled_vectors_do_not_and_the_control_has_the_same_capacity() -> None:
    module, coupled, (q, k) = made("uncoupled"), made("affine"), vectors()
    assert torch.equal(module(q, k)[1], module(q + 1.0, k)[1])
    assert torch.equal(module(q, k)[0], module(q, k + 1.0)[0])
    assert module.parameter_count() == coupled.parameter_count()
    assert module.forward_flops(TOKENS) == coupled.forward_flops(TOKENS)


@pytest.mark.parametrize("name", [n for n in coupling.names() if n != "none"])
def test_heads_of_different_keys_and_tokens_do_not_meet(name: str) -> None:
    """Query heads 0 to 2 share key 0; nothing of theirs reaches key 1, nor another token."""
    module, (q, k) = made(name), vectors()
    moved_q, moved_k = q.clone(), k.clone()
    moved_q[:, :3, 2:] += 1.0
    moved_k[:, :1, 2:] += 1.0
    before, after = module(q, k), module(moved_q, moved_k)
    for one, other, heads in zip(before, after, (3, 1), strict=True):
        assert torch.equal(one[:, heads:], other[:, heads:])
        assert torch.equal(one[:, :, :2], other[:, :, :2])


def test_a_key_reads_the_mean_of_its_queries() -> None:
    """Queries that agree are, to their key, one query: grouped keys reduce to the plain case."""
    grouped, plain = made("affine"), made("affine", heads=KV_HEADS)
    _, k = vectors()
    q, _ = vectors(heads=KV_HEADS)
    shared = dict(plain.named_parameters())
    with torch.no_grad():
        for name, parameter in grouped.named_parameters():
            if name.startswith("key_steps"):
                parameter.copy_(shared[name])
    grouped_k = grouped(q.repeat_interleave(HEADS // KV_HEADS, dim=1), k)[1]
    torch.testing.assert_close(grouped_k, plain(q, k)[1], rtol=1e-12, atol=1e-12)


@every_case
def test_float32_inside_whatever_autocast_says(name: str, options: dict[str, Any]) -> None:
    module = made(name, options).float()
    q, k = (x.bfloat16() for x in vectors())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        low = module(q, k)
    wide = module(q.float(), k.float())
    for one, other in zip(low, wide, strict=True):
        assert one.dtype == torch.bfloat16
        assert torch.equal(one, other.bfloat16())


def test_nodes_have_the_gradients_of_finite_differences() -> None:
    key_step = HalfStep(nets=1, head_dim=3, hidden=2, bound=0.7).double()
    query_step = HalfStep(nets=2, head_dim=3, hidden=2, bound=0.7).double()
    generator = torch.Generator().manual_seed(2)
    for step in (key_step, query_step):
        for parameter in step.parameters():
            torch.nn.init.normal_(parameter, generator=generator)
    q = torch.randn(2, 2, 3, 3, generator=generator, dtype=torch.float64, requires_grad=True)
    k = torch.randn(2, 1, 3, 3, generator=generator, dtype=torch.float64, requires_grad=True)
    weights = (*key_step.parameters(), *query_step.parameters())
    assert gradcheck(lambda q, k, *_: move_pair(q, k, key_step, query_step), (q, k, *weights))
    assert gradcheck(lambda q, k, *_: key_step(k, q[:, :1]), (q, k, *key_step.parameters()))


def test_parameters_of_the_papers_size() -> None:
    """8 hidden units at head size 64 and 8 heads in 8 layers: 0.36 % of 59.3 million."""
    module = made("affine", heads=8, kv_heads=8, head_dim=64)
    assert 8 * module.parameter_count() == 8 * 8 * 2 * (64 * 8 + 8 + 8 * 128 + 128) == 214_016


@pytest.mark.parametrize("settings", [{"hidden": 0}, {"bound": -1.0}, {"pairs": 0}, {"width": 8}])
def test_settings_out_of_range_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        coupling.load("affine").Options(**settings)


def test_unknown_name_names_the_nearest() -> None:
    expected = r"unknown coupling 'afine': did you mean 'affine'\? Known: affine, euler, none"
    with pytest.raises(ValueError, match=expected):
        coupling.load("afine")
