"""Attention with a sink: each head may give weight to nothing."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..layers import Initial, Normal
from ._heads import HeadAttention, HeadOptions
from ._scoring import scores, spread, visible
from .base import MakeCoupling, Shape


class SinkOptions(HeadOptions):
    """Settings of the sink."""

    sink: Literal["learned", "zero"] = "learned"
    """A learned logit per head, or the constant 0, which adds 1 to every denominator."""


class Sink(HeadAttention):
    """A softmax over the scores and one more logit per head, whose weight is thrown away.

    A logit of minus infinity gives plain attention; 0 gives the softmax that is off by one.
    """

    summary = "one learned logit per head joins each softmax and takes weight away"
    source = (
        "Efficient Streaming Language Models with Attention Sinks, G. Xiao et al., 2023, "
        "https://arxiv.org/abs/2309.17453; learned logit of gpt-oss-120b & gpt-oss-20b Model Card, "
        "OpenAI, 2025, https://arxiv.org/abs/2508.10925"
    )
    Options = SinkOptions
    examples = ({}, {"sink": "zero", "kv_heads": 2})

    def __init__(self, shape: Shape, options: SinkOptions, make_coupling: MakeCoupling) -> None:
        super().__init__(shape, make_coupling, kv_heads=options.kv_heads)
        self.learned = options.sink == "learned"
        self.initial: dict[str, Initial] = {}
        if self.learned:
            self.sink = nn.Parameter(torch.empty(self.heads))
            self.initial["sink"] = Normal(0.02)

    def score(
        self, q_bhtd: Tensor, k_bgtd: Tensor, v_bgtd: Tensor, documents_bt: Tensor | None
    ) -> Tensor:
        """Hand the sink to the fused kernel as a key at the front that only a spare axis sees."""
        queries, keys, size = q_bhtd.shape[-2], k_bgtd.shape[-2], q_bhtd.shape[-1]
        spare = 8 - size % 8
        logit_h11 = (self._sink_h() * size**0.5).view(-1, 1, 1).expand(-1, queries, 1)
        logit_bht1 = logit_h11.to(q_bhtd.dtype).expand(len(q_bhtd), -1, -1, -1)
        q_bhtp = torch.cat((F.pad(q_bhtd, (0, spare - 1)), logit_bht1), dim=-1)
        k_bgsp, v_bgsp = (F.pad(x_bgtd, (0, spare, 1, 0)) for x_bgtd in (k_bgtd, v_bgtd))
        k_bgsp[:, :, 0, -1] = 1.0
        plain = documents_bt is None and queries == keys
        if plain:
            # A query before all others moves the causal triangle by the sink's one column.
            q_bhtp, mask = F.pad(q_bhtp, (0, 0, 1, 0)), None
        else:
            mask = F.pad(visible(queries, keys, q_bhtd.device, documents_bt), (1, 0), value=True)
        o_bhtp = F.scaled_dot_product_attention(
            q_bhtp,
            k_bgsp,
            v_bgsp,
            attn_mask=mask,
            is_causal=plain,
            scale=size**-0.5,
            enable_gqa=self.heads != self.kv_heads,
        )
        return o_bhtp[:, :, -queries:, :size]

    def score_naive(
        self, q_bhtd: Tensor, k_bgtd: Tensor, v_bgtd: Tensor, documents_bt: Tensor | None
    ) -> Tensor:
        """Append the sink's column, take the softmax, drop the column."""
        seen = visible(q_bhtd.shape[-2], k_bgtd.shape[-2], q_bhtd.device, documents_bt)
        raw = scores(q_bhtd, k_bgtd).masked_fill(~seen, float("-inf"))
        column = self._sink_h().to(raw.dtype).view(-1, 1, 1).expand_as(raw[..., :1])
        weights = torch.cat((raw, column), dim=-1).softmax(-1)[..., :-1]
        return weights @ spread(v_bgtd, self.heads)

    def extra_parameter_count(self) -> int:
        """Count one logit per head when it is learned."""
        return self.heads if self.learned else 0

    def _sink_h(self) -> Tensor:
        return self.sink if self.learned else self.query.weight.new_zeros(self.heads)
