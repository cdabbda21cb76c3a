"""Scoring by blocks of query rows, so that only one block's maps exist at a time."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable


class Score(Protocol):
    """Scores queries that are the last of the keys' tokens; a pure function of what it is given."""

    def __call__(
        self,
        q_bhtd: Tensor,
        k_bgtd: Tensor,
        v_bgtd: Tensor,
        documents_bt: Tensor | None,
        *parameters: Tensor | None,
    ) -> Tensor:
        """Return (B, H, Tq, V)."""


def in_blocks(
    score: Score,
    q_bhtd: Tensor,
    k_bgtd: Tensor,
    v_bgtd: Tensor,
    documents_bt: Tensor | None,
    *parameters: Tensor | None,
    rows: int,
    reach: int = 0,
) -> Tensor:
    """Return what ``score`` returns for all queries, made ``rows`` queries at a time.

    A block is given the ``reach`` rows above it, too. The way back makes each block's maps again,
    and is differentiable once; a single block keeps its maps, so short rows pay once.
    """
    if q_bhtd.shape[-2] <= rows:
        return score(q_bhtd, k_bgtd, v_bgtd, documents_bt, *parameters)
    return _Blocks.apply(score, rows, reach, documents_bt, q_bhtd, k_bgtd, v_bgtd, *parameters)


class _Blocks(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: FunctionCtx,
        score: Score,
        rows: int,
        reach: int,
        documents_bt: Tensor | None,
        *tensors: Tensor | None,
    ) -> Tensor:
        q_bhtd, k_bgtd, v_bgtd, *parameters = tensors
        ctx.save_for_backward(documents_bt, *tensors)
        ctx.score, ctx.rows, ctx.reach = score, rows, reach
        device = q_bhtd.device.type
        ctx.autocast = {
            "device_type": device,
            "dtype": torch.get_autocast_dtype(device),
            "enabled": torch.is_autocast_enabled(device),
            "cache_enabled": False,
        }
        o_bhtv = None
        for block in _blocks(q_bhtd, k_bgtd, rows, reach):
            made = score(*block.of(q_bhtd, k_bgtd, v_bgtd, documents_bt), *parameters)
            if o_bhtv is None:
                o_bhtv = made.new_empty(*made.shape[:2], q_bhtd.shape[-2], made.shape[-1])
            o_bhtv[:, :, block.own] = made[:, :, block.skipped :]
        return o_bhtv

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad_bhtv: Tensor) -> tuple[Tensor | None, ...]:
        documents_bt, *tensors = ctx.saved_tensors
        leaves = [_leaf(t, n) for t, n in zip(tensors, ctx.needs_input_grad[4:], strict=True)]
        q_bhtd, k_bgtd, v_bgtd, *parameters = leaves
        totals = [
            torch.zeros_like(t) if t is not None and t.requires_grad else None for t in leaves
        ]
        wanted = [i for i, total in enumerate(totals) if total is not None]
        for block in _blocks(q_bhtd, k_bgtd, ctx.rows, ctx.reach):
            with torch.enable_grad(), torch.autocast(**ctx.autocast):
                cut = block.of(q_bhtd, k_bgtd, v_bgtd, documents_bt)
                inputs = [_leaf(t, t.requires_grad) for t in cut[:3]] + parameters
                made = ctx.score(*inputs[:3], cut[3], *parameters)[:, :, block.skipped :]
            asked = [inputs[i] for i in wanted]
            grads = torch.autograd.grad(made, asked, grad_bhtv[:, :, block.own])
            places = (block.queries, block.keys, block.keys)
            for i, grad in zip(wanted, grads, strict=True):
                (totals[i][:, :, places[i]] if i < 3 else totals[i]).add_(grad)
        return None, None, None, None, *totals


class _Block:
    """Which queries and keys a block reads, and which of its rows are its own."""

    def __init__(self, start: int, end: int, reach: int, earlier: int) -> None:
        first = max(start - reach, 0)
        self.queries, self.keys = slice(first, end), slice(0, earlier + end)
        self.own, self.skipped = slice(start, end), start - first

    def of(self, q: Tensor, k: Tensor, v: Tensor, documents_bt: Tensor | None) -> tuple[Any, ...]:
        """Return the block's part of everything."""
        documents = None if documents_bt is None else documents_bt[:, self.keys]
        return q[:, :, self.queries], k[:, :, self.keys], v[:, :, self.keys], documents


def _blocks(q_bhtd: Tensor, k_bgtd: Tensor, rows: int, reach: int) -> list[_Block]:
    """Return the blocks, last first: the memory of the widest maps then serves all others."""
    queries = q_bhtd.shape[-2]
    earlier = k_bgtd.shape[-2] - queries
    return [
        _Block(start, min(start + rows, queries), reach, earlier)
        for start in reversed(range(0, queries, rows))
    ]


def _leaf(tensor: Tensor | None, wanted: bool) -> Tensor | None:
    return None if tensor is None else tensor.detach().requires_grad_(wanted)
