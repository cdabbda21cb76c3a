"""Kernels over (query, key) maps, and the start that makes them do nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn import functional as F


@dataclass(frozen=True)
class Identity:
    """The start that changes nothing: one tap of a kernel, or the diagonal of a mixture."""

    tap: tuple[int, int] | None = None

    def fill(self, parameter: Tensor, generator: torch.Generator) -> None:
        """Write ones where the identity has them; nothing is drawn."""
        parameter.zero_()
        if self.tap is None:
            parameter.diagonal(dim1=-2, dim2=-1).fill_(1.0)
        else:
            parameter[..., self.tap[0], self.tap[1]] = 1.0


class Correlate(Protocol):
    """Slides one kernel (A, B) per head over maps (B, H, S, T) without padding."""

    def __call__(self, maps_bhst: Tensor, kernel_hab: Tensor) -> Tensor:
        """Return (B, H, S - A + 1, T - B + 1)."""


def correlate_naive(maps_bhst: Tensor, kernel_hab: Tensor) -> Tensor:
    """Call the library."""
    return F.conv2d(maps_bhst, kernel_hab[:, None], groups=len(kernel_hab))


def correlate(maps_bhst: Tensor, kernel_hab: Tensor) -> Tensor:
    """Do what ``correlate_naive`` does, with a faster way back on a CPU. Differentiable once.

    There the library needs seven times as long for the gradient of a depthwise kernel as for all
    else. That gradient is itself a correlation, of the maps with the gradient of what came out.
    """
    if maps_bhst.device.type == "cpu":
        return _Correlate.apply(maps_bhst, kernel_hab)
    return correlate_naive(maps_bhst, kernel_hab)


class _Correlate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: FunctionCtx, maps_bhst: Tensor, kernel_hab: Tensor) -> Tensor:
        ctx.save_for_backward(maps_bhst, kernel_hab)
        return correlate_naive(maps_bhst, kernel_hab)

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad_bhst: Tensor) -> tuple[Tensor | None, Tensor | None]:
        maps_bhst, kernel_hab = ctx.saved_tensors
        maps, kernel = maps_bhst.to(grad_bhst.dtype), kernel_hab.to(grad_bhst.dtype)
        grad_maps = grad_kernel = None
        if ctx.needs_input_grad[0]:
            grad_maps = F.conv_transpose2d(grad_bhst, kernel[:, None], groups=len(kernel))
            grad_maps = grad_maps.to(maps_bhst.dtype)
        if ctx.needs_input_grad[1]:
            each = correlate_naive(maps.flatten(0, 1)[None], grad_bhst.flatten(0, 1))
            grad_kernel = each.view(len(maps), *kernel.shape).sum(0).to(kernel_hab.dtype)
        return grad_maps, grad_kernel


def convolve(
    maps_bhst: Tensor,
    kernel_hab: Tensor,
    left: int,
    documents_bt: Tensor | None = None,
    *,
    correlate: Correlate = correlate,
) -> Tensor:
    """Return sum over a, b of kernel[h, a, b] maps[h, s - (A - 1) + a, t - left + b].

    Maps are zero outside. With documents, a row takes nothing from rows of another document.
    """
    _, back, taps = kernel_hab.shape
    kernel = kernel_hab.to(maps_bhst.dtype)
    sides = (left, taps - 1 - left)
    if documents_bt is None:
        return correlate(F.pad(maps_bhst, (*sides, back - 1, 0)), kernel)
    padded = F.pad(maps_bhst, sides)
    total = torch.zeros_like(maps_bhst)
    rows_bs = documents_bt[:, -maps_bhst.shape[-2] :]
    for a in range(back):
        n = back - 1 - a
        above = F.pad(padded, (0, 0, n, 0))[:, :, : padded.shape[-2]]
        same = rows_bs == F.pad(rows_bs, (n, 0), value=-1)[:, : rows_bs.shape[1]]
        total = total + correlate(above, kernel[:, a : a + 1]) * same[:, None, :, None]
    return total
