"""Kernels over (query, key) maps, and the start that makes them do nothing."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
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


def convolve(
    maps_bhst: Tensor, kernel_hab: Tensor, left: int, documents_bt: Tensor | None = None
) -> Tensor:
    """Return sum over a, b of kernel[h, a, b] maps[h, s - (A - 1) + a, t - left + b].

    Maps are zero outside. With documents, a row takes nothing from rows of another document.
    """
    heads, back, taps = kernel_hab.shape
    sides = (left, taps - 1 - left)
    if documents_bt is None:
        padded = F.pad(maps_bhst, (*sides, back - 1, 0))
        return F.conv2d(padded, kernel_hab[:, None].to(maps_bhst.dtype), groups=heads)
    padded = F.pad(maps_bhst, sides)
    total = torch.zeros_like(maps_bhst)
    rows_bs = documents_bt[:, -maps_bhst.shape[-2] :]
    for a in range(back):
        n = back - 1 - a
        above = F.pad(padded, (0, 0, n, 0))[:, :, : padded.shape[-2]]
        same = rows_bs == F.pad(rows_bs, (n, 0), value=-1)[:, : rows_bs.shape[1]]
        kernel = kernel_hab[:, None, a : a + 1].to(maps_bhst.dtype)
        total = total + F.conv2d(above, kernel, groups=heads) * same[:, None, :, None]
    return total
