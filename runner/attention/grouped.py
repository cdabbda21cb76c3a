"""Grouped-query attention; with one key/value head, multi-query attention."""

from __future__ import annotations

from pydantic import PositiveInt

from ._heads import HeadAttention
from .base import MakeCoupling, Options, Shape


class GroupedOptions(Options):
    """Settings of grouped-query attention."""

    kv_heads: PositiveInt = 1
    """Key/value heads; they must divide the query heads. Query head h reads h // (H/G)."""


class Grouped(HeadAttention):
    """Softmax attention whose query heads share keys and values in groups of neighbours."""

    summary = "query heads share keys and values in groups (one group: multi-query)"
    source = (
        "GQA: Training Generalized Multi-Query Transformer Models from Multi-Head Checkpoints, "
        "J. Ainslie et al., 2023, https://arxiv.org/abs/2305.13245"
    )
    Options = GroupedOptions
    examples = ({}, {"kv_heads": 2})

    def __init__(self, shape: Shape, options: GroupedOptions, make_coupling: MakeCoupling) -> None:
        super().__init__(shape, make_coupling, kv_heads=options.kv_heads)
