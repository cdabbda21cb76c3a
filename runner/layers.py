"""The parts every variant is built from: how a parameter starts, linear map, norm, rotary.

Every module that owns parameters has an attribute ``initial`` that says how each of them starts,
and may have ``slow``: the names of those that learn at a tenth of the rate, without decay.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Initial(Protocol):
    """How a parameter starts."""

    def fill(self, parameter: Tensor, generator: torch.Generator) -> None:
        """Write the start into the parameter; the generator lives on the CPU."""


@dataclass(frozen=True)
class Normal:
    """Independent draws from N(0, std)."""

    std: float

    def fill(self, parameter: Tensor, generator: torch.Generator) -> None:
        """Draw on the CPU, so that every device starts from the same bits."""
        drawn = torch.empty(parameter.shape, device="cpu")
        parameter.copy_(drawn.normal_(0.0, self.std, generator=generator))


@dataclass(frozen=True)
class Constant:
    """One value everywhere."""

    value: float

    def fill(self, parameter: Tensor, generator: torch.Generator) -> None:
        """Write the value; nothing is drawn."""
        parameter.fill_(self.value)


class Linear(nn.Module):
    """y = x W^T without a bias, W of shape (outputs, inputs).

    W starts as N(0, inputs^-0.5), or as zero for a projection that ends a residual branch.
    """

    def __init__(self, inputs: int, outputs: int, *, zero: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        self.initial: dict[str, Initial] = {
            "weight": Constant(0.0) if zero else Normal(inputs**-0.5)
        }

    def forward(self, x: Tensor) -> Tensor:
        """Map the last axis from inputs to outputs."""
        return F.linear(x, self.weight)


class RMSNorm(nn.Module):
    """y = weight * x / sqrt(mean(x^2) + eps) over the last axis.

    Source: "Root Mean Square Layer Normalization", B. Zhang and R. Sennrich, 2019,
    https://arxiv.org/abs/1910.07467.
    """

    def __init__(self, size: int, *, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.empty(size))
        self.initial: dict[str, Initial] = {"weight": Constant(1.0)}

    def forward(self, x: Tensor) -> Tensor:
        """Normalise the last axis, at least in float32; the dtype stays."""
        return F.rms_norm(wide(x), self.weight.shape, self.weight, self.eps).to(x.dtype)


def wide(x: Tensor) -> Tensor:
    """Return x in float32, or as it is when it is float64."""
    return x if x.dtype == torch.float64 else x.float()


class Rotary:
    """Rotates pairs of coordinates by an angle that grows with the token's position.

    The layout says which coordinates form a pair: ``half`` pairs i with i + D/2, ``interleaved``
    pairs 2i with 2i + 1. ``start`` is the position of the first token.
    Source: "RoFormer: Enhanced Transformer with Rotary Position Embedding", J. Su et al., 2021,
    https://arxiv.org/abs/2104.09864.

    >>> Rotary()(torch.ones(1, 1, 1, 2), offset=0)
    tensor([[[[1., 1.]]]])
    """

    def __init__(self, base: float = 10000.0, *, layout: str = "half", start: int = 0) -> None:
        if layout not in ("half", "interleaved"):
            raise ValueError(f"rotary layout must be 'half' or 'interleaved', got {layout!r}")
        self.base, self.layout, self.start = base, layout, start
        self._tables: dict[tuple, tuple[Tensor, Tensor]] = {}

    def __call__(self, x_bhtd: Tensor, *, offset: int) -> Tensor:
        """Rotate (B, H, T, D); the first token stands at position start + offset."""
        cos, sin = self.tables(x_bhtd, offset)
        if self.layout == "half":
            first, second = x_bhtd.chunk(2, dim=-1)
            return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
        first, second = x_bhtd[..., 0::2], x_bhtd[..., 1::2]
        turned = torch.stack((first * cos - second * sin, second * cos + first * sin), dim=-1)
        return turned.flatten(-2)

    def tables(self, x_bhtd: Tensor, offset: int) -> tuple[Tensor, Tensor]:
        """Return cos and sin, each (T, D/2), in the dtype and on the device of x."""
        tokens, size = x_bhtd.shape[-2:]
        key = (size, x_bhtd.dtype, x_bhtd.device)
        end = self.start + offset + tokens
        if key not in self._tables or len(self._tables[key][0]) < end:
            self._tables[key] = self._compute(end, size, x_bhtd)
        cos, sin = self._tables[key]
        return cos[end - tokens : end], sin[end - tokens : end]

    def _compute(self, tokens: int, size: int, like: Tensor) -> tuple[Tensor, Tensor]:
        # float64 first: at position 8,192 a float32 angle is already off by 5e-4. Never as
        # inference tensors: an evaluation may come first, and training keeps these for backward.
        with torch.inference_mode(False):
            exponent = torch.arange(0, size, 2, dtype=torch.float64, device="cpu") / size
            position = torch.arange(tokens, dtype=torch.float64, device="cpu")
            angle = torch.outer(position, self.base**-exponent)
            return tuple(table.to(like.device, like.dtype) for table in (angle.cos(), angle.sin()))
