"""Plain causal attention."""

from __future__ import annotations

from ._heads import HeadAttention
from .base import MakeCoupling, Options, Shape


class Standard(HeadAttention):
    """Softmax of scaled dot products, one key/value head per query head."""

    summary = "softmax of scaled dot products"
    source = "Attention Is All You Need, A. Vaswani et al., 2017, https://arxiv.org/abs/1706.03762"
    Options = Options

    def __init__(self, shape: Shape, options: Options, make_coupling: MakeCoupling) -> None:
        super().__init__(shape, make_coupling)
