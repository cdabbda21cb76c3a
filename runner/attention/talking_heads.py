"""Talking heads: linear mixtures over heads before and after the softmax."""

from __future__ import annotations

from ._heads import HeadOptions
from .base import MakeCoupling, Shape
from .multi_token import MultiToken, MultiTokenOptions


class TalkingHeads(MultiToken):
    """Softmax attention whose heads exchange scores and then weights; both mixtures start at I.

    No bias: one on the weights would give weight to what is masked.
    """

    summary = "heads exchange scores before the softmax and weights after it"
    source = "Talking-Heads Attention, N. Shazeer et al., 2020, https://arxiv.org/abs/2003.02436"
    Options = HeadOptions
    examples = ({}, {"kv_heads": 2})

    def __init__(self, shape: Shape, options: HeadOptions, make_coupling: MakeCoupling) -> None:
        mixtures_only = MultiTokenOptions(
            kv_heads=options.kv_heads,
            before=False,
            after=False,
            mix_after="linear",
            norm=False,
            gate="none",
        )
        super().__init__(shape, mixtures_only, make_coupling)
