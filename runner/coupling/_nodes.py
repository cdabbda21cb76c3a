"""Half-steps as autograd nodes that keep their inputs only and make the rest again on the way back.

Rows: x_nrd is (N nets, R = B*T rows, D), a view of what the projections wrote, taken a few rows at
a time. Hidden units lie transposed, (N, M, R), because products with so few columns are several
times slower.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

CACHED_NUMBERS = 2**17
"""Numbers of one intermediate that are handled at once on a CPU."""


class Weights(NamedTuple):
    """The parameters of a half-step's networks."""

    inner_ndm: Tensor
    inner_bias: Tensor
    outer_nmf: Tensor
    outer_bias: Tensor


def step(x_bntd: Tensor, condition_bntd: Tensor, bound: float, weights: Weights) -> Tensor:
    """Return x * exp(bound tanh s) + t, with (s, t) from the condition, in the weights' precision.

    Differentiable once, in x, condition and weights.
    """
    return _Step.apply(x_bntd, condition_bntd, bound, *weights)


def pair(
    q_bhtd: Tensor, k_bgtd: Tensor, bound: float, of_key: Weights, of_query: Weights
) -> tuple[Tensor, Tensor]:
    """Move the keys by the mean of their queries, then the queries by the moved keys.

    One node for both steps, so that only q and k are kept. Differentiable once.
    """
    return _Pair.apply(q_bhtd, k_bgtd, bound, *of_key, *of_query)


class _Step(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: FunctionCtx, x_bntd: Tensor, condition_bntd: Tensor, bound: float, *weights: Tensor
    ) -> Tensor:
        ctx.bound = bound
        ctx.save_for_backward(x_bntd, condition_bntd, *weights)
        with torch.autocast(x_bntd.device.type, enabled=False):
            nets = _Nets(Weights(*weights), bound)
            x, condition = _rows(x_bntd, nets), _rows(condition_bntd, nets)
            moved = torch.empty_like(x)
            for part in _parts(x):
                nets.read(condition[:, part]).move(x[:, part], out=moved[:, part])
        return _heads(moved, x_bntd, nets.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad_bntd: Tensor) -> tuple[Tensor | None, ...]:
        x_bntd, condition_bntd, *weights = ctx.saved_tensors
        with torch.autocast(x_bntd.device.type, enabled=False):
            nets = _Nets(Weights(*weights), ctx.bound)
            x, condition, grad = (_rows(t, nets) for t in (x_bntd, condition_bntd, grad_bntd))
            total, total_condition = torch.empty_like(x), torch.empty_like(condition)
            for part in _parts(x):
                made = nets.read(condition[:, part])
                total_condition[:, part] = made.back(grad[:, part], x[:, part], out=total[:, part])
        grads = (
            _heads(g, t, t.dtype) for g, t in ((total, x_bntd), (total_condition, condition_bntd))
        )
        return *grads, None, *nets.grads()


class _Pair(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: FunctionCtx, q_bhtd: Tensor, k_bgtd: Tensor, bound: float, *weights: Tensor
    ) -> tuple[Tensor, Tensor]:
        ctx.bound = bound
        ctx.save_for_backward(q_bhtd, k_bgtd, *weights)
        with torch.autocast(q_bhtd.device.type, enabled=False):
            key_nets, query_nets = (_Nets(Weights(*w), bound) for w in (weights[:4], weights[4:]))
            q, k = _rows(q_bhtd, query_nets), _rows(k_bgtd, key_nets)
            moved_q, moved_k = torch.empty_like(q), torch.empty_like(k)
            for part in _parts(q):
                key_nets.read(_mean(q[:, part], k)).move(k[:, part], out=moved_k[:, part])
                read = _spread(moved_k[:, part], q)
                query_nets.read(read).move(q[:, part], out=moved_q[:, part])
        return _heads(moved_q, q_bhtd, query_nets.dtype), _heads(moved_k, k_bgtd, key_nets.dtype)

    @staticmethod
    @once_differentiable
    def backward(
        ctx: FunctionCtx, grad_q_bhtd: Tensor, grad_k_bgtd: Tensor
    ) -> tuple[Tensor | None, ...]:
        q_bhtd, k_bgtd, *weights = ctx.saved_tensors
        bound = ctx.bound
        with torch.autocast(q_bhtd.device.type, enabled=False):
            key_nets, query_nets = (_Nets(Weights(*w), bound) for w in (weights[:4], weights[4:]))
            q, k = _rows(q_bhtd, query_nets), _rows(k_bgtd, key_nets)
            grad_q, grad_k = _rows(grad_q_bhtd, query_nets), _rows(grad_k_bgtd, key_nets)
            total_q, total_k = torch.empty_like(q), torch.empty_like(k)
            for part in _parts(q):
                of_key = key_nets.read(_mean(q[:, part], k))
                of_query = query_nets.read(_spread(of_key.move(k[:, part]), q))
                grad = of_query.back(grad_q[:, part], q[:, part], out=total_q[:, part])
                grad = _sum(grad, k).add_(grad_k[:, part])
                grad = of_key.back(grad, k[:, part], out=total_k[:, part])
                total_q[:, part].add_(_spread(grad, q), alpha=len(k) / len(q))
        grads = (*key_nets.grads(), *query_nets.grads())
        grads_qk = (_heads(g, t, t.dtype) for g, t in ((total_q, q_bhtd), (total_k, k_bgtd)))
        return *grads_qk, None, *grads


class _Nets:
    """A half-step's weights made ready, and the sums of their gradients.

    tanh s is taken as 2 sigmoid(2 s) - 1 and exp as a power of 2, which the library does four to
    ten times faster on a CPU; at s = 0 both are exact. The first factor of 2 goes into the weights,
    which are small. The outer bias is one more row of the outer weights, read by a unit that is
    always 1.
    """

    def __init__(self, weights: Weights, bound: float) -> None:
        self.bound, self.dtype = bound, weights.inner_ndm.dtype
        self.log2_bound = bound / math.log(2.0)
        self.log2_lowest = weights.inner_ndm.new_full((), -self.log2_bound)
        self.inner_nmd = weights.inner_ndm.mT
        nets, units, _ = self.inner_nmd.shape
        self.inner_bias_nm1 = weights.inner_bias.view(nets, units, 1)
        outer = torch.cat((weights.outer_nmf, weights.outer_bias.view(nets, 1, -1)), dim=1)
        self.doubled_raw, self.shift = (half.contiguous() for half in outer.chunk(2, dim=-1))
        self.doubled_raw *= 2.0
        self.grad_inner = self.inner_nmd.new_zeros(self.inner_nmd.shape)
        self.grad_inner_bias = torch.zeros_like(self.inner_bias_nm1)
        self.grad_raw, self.grad_shift = (torch.zeros_like(self.shift) for _ in range(2))
        self._rooms: dict[int, _Room] = {}

    def read(self, condition_nrd: Tensor) -> _Made:
        """Return what the networks say about some rows; it holds until they read other ones."""
        return _Made(self, condition_nrd)

    def room(self, rows: int) -> _Room:
        """Return the room for so many rows; all parts but the last have equally many."""
        if rows not in self._rooms:
            nets, units, outputs = self.shift.shape
            before, grad_units = (self.shift.new_empty(nets, units - 1, rows) for _ in range(2))
            ones = self.shift.new_ones(nets, units, rows)
            wide = (self.shift.new_empty(nets, rows, outputs) for _ in range(3))
            self._rooms[rows] = _Room(before, ones, *wide, grad_units)
        return self._rooms[rows]

    def grads(self) -> Weights:
        """Return the gradients that were summed so far, as the weights lie."""
        self.grad_raw *= 4.0 * self.bound
        outer = torch.cat((self.grad_raw, self.grad_shift), dim=-1)
        return Weights(
            self.grad_inner.mT,
            self.grad_inner_bias.flatten(),
            outer[:, :-1],
            outer[:, -1].flatten(),
        )


class _Room(NamedTuple):
    """Where a half-step writes what it makes for some rows, so that it stays in the cache."""

    before_nmr: Tensor
    units_nmr: Tensor
    gate_nrd: Tensor
    scale_nrd: Tensor
    spare_nrd: Tensor
    grad_units_nmr: Tensor


class _Made:
    """Scale and hidden units for some rows, and the way back through them."""

    def __init__(self, nets: _Nets, condition_nrd: Tensor) -> None:
        self.nets, self.condition = nets, condition_nrd
        room = self.room = nets.room(condition_nrd.shape[1])
        torch.baddbmm(nets.inner_bias_nm1, nets.inner_nmd, condition_nrd.mT, out=room.before_nmr)
        torch.ops.aten.silu.out(room.before_nmr, out=room.units_nmr[:, :-1])
        gate = torch.bmm(room.units_nmr.mT, nets.doubled_raw, out=room.gate_nrd).sigmoid_()
        torch.add(nets.log2_lowest, gate, alpha=2.0 * nets.log2_bound, out=room.scale_nrd).exp2_()

    def move(self, x_nrd: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Return x * scale + shift; not given where to, in the spare room."""
        shift = torch.bmm(self.room.units_nmr.mT, self.nets.shift, out=self.room.spare_nrd)
        return torch.addcmul(shift, x_nrd, self.room.scale_nrd, out=shift if out is None else out)

    def back(self, grad_nrd: Tensor, x_nrd: Tensor, *, out: Tensor) -> Tensor:
        """Write the gradient of x, add to those of the weights.

        The condition's gradient is returned in the spare room.
        """
        nets, room = self.nets, self.room
        torch.mul(grad_nrd, room.scale_nrd, out=out)
        raw = torch.mul(out, x_nrd, out=room.spare_nrd)
        torch.ops.aten.sigmoid_backward.grad_input(raw, room.gate_nrd, grad_input=raw)
        nets.grad_raw.baddbmm_(room.units_nmr, raw)
        nets.grad_shift.baddbmm_(room.units_nmr, grad_nrd)
        units = torch.bmm(nets.doubled_raw[:, :-1], raw.mT, out=room.grad_units_nmr)
        units.baddbmm_(nets.shift[:, :-1], grad_nrd.mT, beta=2.0 * nets.bound)
        torch.ops.aten.silu_backward.grad_input(units, room.before_nmr, grad_input=units)
        nets.grad_inner.baddbmm_(units, self.condition)
        nets.grad_inner_bias += units.sum(2, keepdim=True)
        return torch.bmm(units.mT, nets.inner_nmd, out=raw)


def _parts(x_nrd: Tensor) -> list[slice]:
    """Return slices of rows: on a CPU so few that what is made for them stays in its cache."""
    nets, rows, size = x_nrd.shape
    step = max(CACHED_NUMBERS // (nets * size), 1) if x_nrd.device.type == "cpu" else rows
    return [slice(start, start + step) for start in range(0, rows, step)]


def _rows(x_bntd: Tensor, nets: _Nets) -> Tensor:
    """Return (N, B*T, D) in the weights' precision, without a copy where strides allow."""
    return x_bntd.transpose(0, 1).flatten(1, 2).to(nets.dtype)


def _heads(x_nrd: Tensor, like_bntd: Tensor, dtype: torch.dtype) -> Tensor:
    """Return (B, N, T, D)."""
    batch, _, tokens, _ = like_bntd.shape
    return x_nrd.unflatten(1, (batch, tokens)).transpose(0, 1).to(dtype)


def _mean(q_hrd: Tensor, k_grd: Tensor) -> Tensor:
    return q_hrd if len(q_hrd) == len(k_grd) else q_hrd.unflatten(0, (len(k_grd), -1)).mean(1)


def _sum(q_hrd: Tensor, k_grd: Tensor) -> Tensor:
    return q_hrd if len(q_hrd) == len(k_grd) else q_hrd.unflatten(0, (len(k_grd), -1)).sum(1)


def _spread(k_grd: Tensor, q_hrd: Tensor) -> Tensor:
    group = len(q_hrd) // len(k_grd)
    return k_grd if group == 1 else k_grd.repeat_interleave(group, dim=0)
