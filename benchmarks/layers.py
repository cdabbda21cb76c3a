"""Attention layers alone, ready to be timed or weighed: forward and backward of one sequence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from runner import attention, coupling
from runner.attention.base import Shape
from runner.layers import Rotary
from runner.model import fill


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One layer of a method at one length; ``naive`` takes its written-out form."""

    method: str
    tokens: int
    heads: int = 8
    head_dim: int = 64
    batch: int = 1
    naive: bool = False
    coupling: str = "none"
    options: dict[str, Any] = field(default_factory=dict)

    def prepare(self) -> Callable[[], None]:
        """Build the layer and its input; return what runs it forward and backward."""
        torch.manual_seed(0)
        width = self.heads * self.head_dim
        method, pair = attention.load(self.method), coupling.load(self.coupling)
        shape = Shape(width=width, heads=self.heads, head_dim=self.head_dim)
        layer = method(
            shape, method.Options(**self.options), lambda **heads: pair(pair.Options(), **heads)
        )
        fill(layer, 0)
        form = layer.forward_naive if self.naive else layer
        rotary = Rotary()
        x_bte = torch.randn(self.batch, self.tokens, width, requires_grad=True)
        cotangent_bte = torch.randn(self.batch, self.tokens, width)

        def run() -> None:
            form(x_bte, rotary).backward(cotangent_bte)
            layer.zero_grad(set_to_none=True)
            x_bte.grad = None

        return run
