"""Differential attention, second version: lambda per token and head, no head norm."""

from __future__ import annotations

from torch import Tensor

from ..layers import Linear
from ._heads import HeadAttention, HeadOptions
from .base import MakeCoupling, Shape


class DifferentialV2(HeadAttention):
    """a1 - sigmoid(W x) a2 from twice as many query heads, the two of a pair sharing key and value.

    Query heads 2h and 2h + 1 are the pair of head h.
    """

    summary = "difference of two query heads on one key, lambda per token and head"
    source = (
        "Differential Transformer V2, T. Ye et al., 2026, "
        "https://huggingface.co/blog/microsoft/diff-attn-v2"
    )
    Options = HeadOptions
    examples = ({}, {"kv_heads": 2})

    def __init__(self, shape: Shape, options: HeadOptions, make_coupling: MakeCoupling) -> None:
        kv_heads = options.kv_heads or shape.heads
        if shape.heads % kv_heads:
            raise ValueError(
                f"kv_heads must divide the {shape.heads} heads, so that a pair never spans two "
                f"keys, got {kv_heads}"
            )
        super().__init__(shape, make_coupling, heads=2 * shape.heads, kv_heads=kv_heads)
        self.lambda_gate = Linear(shape.width, shape.heads)

    def finish(self, o_bhtd: Tensor, x_bte: Tensor) -> Tensor:
        """Subtract within pairs, join, project."""
        weight_bht1 = self.lambda_gate(x_bte).sigmoid().transpose(1, 2)[..., None]
        return super().finish(o_bhtd[:, 0::2] - weight_bht1 * o_bhtd[:, 1::2], x_bte)

    def extra_parameter_count(self) -> int:
        """Count the matrix of lambda."""
        return self.shape.width * self.shape.heads

    def extra_forward_flops(self, tokens: int) -> int:
        """Count the product of lambda."""
        return 2 * tokens * self.extra_parameter_count()
