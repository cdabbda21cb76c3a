"""Cross entropy over a large vocabulary without ever holding all logits.

The rows are taken in chunks. Where a gradient is wanted it is computed in the same pass, while a
chunk's logits are at hand, so nothing is computed twice and nothing of the vocabulary's width is
kept. A target below zero is not scored.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn import functional as F

from .layers import wide

LOGITS_PER_CHUNK = 2**24
"""Logits held at once: 64 MiB in float32."""


def mean_nats(states_ne: Tensor, weight_ve: Tensor, target_n: Tensor) -> Tensor:
    """Return the mean nats of the scored targets under softmax(states weight^T).

    Differentiable once, in states and weight. Without a scored target the mean is NaN.

    >>> mean_nats(torch.zeros(3, 2), torch.ones(5, 2), torch.tensor([0, 4, -100])).exp().round()
    tensor(5.)
    """
    dtype = torch.promote_types(states_ne.dtype, weight_ve.dtype)
    if torch.is_autocast_enabled(states_ne.device.type):
        dtype = torch.get_autocast_dtype(states_ne.device.type)
    return _MeanNats.apply(states_ne.to(dtype), weight_ve, target_n)


def nats_per_row(states_ne: Tensor, weight_ve: Tensor, target_n: Tensor) -> Tensor:
    """Return the nats of each target (N), 0 where it is below zero. Keeps no graph."""
    weight = weight_ve.detach()
    rows = [
        F.cross_entropy(wide(F.linear(states, weight)), target, reduction="none")
        for states, target in _chunks(states_ne.detach(), target_n, len(weight_ve))
    ]
    return torch.cat(rows)


class _MeanNats(torch.autograd.Function):
    @staticmethod
    def forward(ctx: FunctionCtx, states_ne: Tensor, weight_ve: Tensor, target_n: Tensor) -> Tensor:
        with torch.autocast(states_ne.device.type, enabled=False):
            return _MeanNats._forward(ctx, states_ne, weight_ve, target_n)

    @staticmethod
    def _forward(
        ctx: FunctionCtx, states_ne: Tensor, weight_ve: Tensor, target_n: Tensor
    ) -> Tensor:
        weight = weight_ve.detach().to(states_ne.dtype)
        scored = (target_n >= 0).sum()
        grad_states = torch.empty_like(states_ne) if ctx.needs_input_grad[0] else None
        grad_weight = torch.zeros_like(weight_ve) if ctx.needs_input_grad[1] else None
        total = wide(weight.new_zeros(()))
        done = 0
        for states, target in _chunks(states_ne, target_n, len(weight)):
            logits = wide(states @ weight.T)
            log_sum = logits.logsumexp(-1, keepdim=True)
            known = target.clamp(min=0)[:, None]
            rows = (target >= 0)[:, None]
            total += ((log_sum - logits.gather(-1, known)) * rows).sum()
            if any(ctx.needs_input_grad):
                grad = logits.sub_(log_sum).exp_()
                grad.scatter_add_(-1, known, torch.full_like(log_sum, -1.0))
                grad = grad.mul_(rows.to(grad.dtype) / scored).to(states.dtype)
                if grad_states is not None:
                    torch.mm(grad, weight, out=grad_states[done : done + len(states)])
                if grad_weight is not None:
                    _add_product(grad_weight, grad, states)
            done += len(states)
        ctx.save_for_backward(grad_states, grad_weight)
        return total / scored

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        states, weight = ctx.saved_tensors
        return (
            None if states is None else states * grad,
            None if weight is None else weight * grad,
            None,
        )


def _chunks(states_ne: Tensor, target_n: Tensor, vocabulary: int) -> list[tuple[Tensor, Tensor]]:
    rows = max(LOGITS_PER_CHUNK // vocabulary, 1)
    return list(zip(states_ne.split(rows), target_n.split(rows), strict=True))


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    # A low-precision product is summed over chunks in the weight's own precision.
    if left.dtype == total.dtype:
        total.addmm_(left.T, right)
    else:
        total.add_(left.T @ right)
