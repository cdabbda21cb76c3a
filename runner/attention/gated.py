"""Gated attention: each head's output times a gate that the layer's input opens."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from ..layers import Linear
from ._heads import HeadAttention, HeadOptions
from .base import MakeCoupling, Shape


class GatedOptions(HeadOptions):
    """Settings of the gate."""

    gate: Literal["element", "head"] = "element"
    """One gate per coordinate of a head's output, or one per head."""


class Gated(HeadAttention):
    """Softmax attention whose head outputs are multiplied by sigmoid(W x) before they are joined.

    Without a bias the gate starts around 0.5.
    """

    summary = "head outputs are gated by the layer's input"
    source = (
        "Gated Attention for Large Language Models: Non-linearity, Sparsity, and Attention-Sink-"
        "Free, Z. Qiu et al., 2025, https://arxiv.org/abs/2505.06708"
    )
    Options = GatedOptions
    examples = ({}, {"gate": "head", "kv_heads": 2})

    def __init__(self, shape: Shape, options: GatedOptions, make_coupling: MakeCoupling) -> None:
        super().__init__(shape, make_coupling, kv_heads=options.kv_heads)
        self.gates_per_head = shape.head_dim if options.gate == "element" else 1
        self.gate = Linear(shape.width, self.heads * self.gates_per_head)

    def finish(self, o_bhtd: Tensor, x_bte: Tensor) -> Tensor:
        """Gate, join, project."""
        gate_bhtd = self.gate(x_bte).unflatten(-1, (self.heads, -1)).transpose(1, 2).sigmoid()
        return super().finish(o_bhtd * gate_bhtd, x_bte)

    def extra_parameter_count(self) -> int:
        """Count the gate's matrix."""
        return self.shape.width * self.heads * self.gates_per_head

    def extra_forward_flops(self, tokens: int) -> int:
        """Count the gate's product."""
        return 2 * tokens * self.extra_parameter_count()
