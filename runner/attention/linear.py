"""Linear attention: a running sum of outer products instead of a softmax."""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import PositiveInt
from torch import Tensor
from torch.nn import functional as F

from ..layers import RMSNorm, Rotary, wide
from ._heads import HeadAttention, HeadOptions
from ._scoring import spread, visible
from .base import Cache, MakeCoupling, Shape, refuse_documents_in_cache


class LinearOptions(HeadOptions):
    """Settings of linear attention."""

    norm: Literal["rms", "sum"] = "rms"
    """rms: an RMS norm of each head's output. sum: division by the sum of the weights."""
    chunk: PositiveInt = 64
    """Tokens taken at once: quadratic inside a chunk, a running state from chunk to chunk."""


class LinearAttention(HeadAttention):
    """o_t = phi(q_t) S_t with S_t = S_(t-1) + phi(k_t)^T v_t and phi(x) = elu(x) + 1; no rotary.

    The state replaces the cache: what it holds does not grow with the length.
    """

    summary = "running sum of key-value products, elu + 1 features, no softmax, no rotary"
    source = (
        "Transformers are RNNs: Fast Autoregressive Transformers with Linear Attention, "
        "A. Katharopoulos et al., 2020, https://arxiv.org/abs/2006.16236"
    )
    Options = LinearOptions
    examples = ({}, {"chunk": 4}, {"chunk": 5, "norm": "sum", "kv_heads": 2})

    def __init__(self, shape: Shape, options: LinearOptions, make_coupling: MakeCoupling) -> None:
        super().__init__(shape, make_coupling, kv_heads=options.kv_heads)
        self.options = options
        if options.norm == "rms":
            self.head_norm = RMSNorm(shape.head_dim, eps=1e-5)

    def forward(
        self,
        x_bte: Tensor,
        rotary: Rotary,
        *,
        cache: Cache | None = None,
        documents_bt: Tensor | None = None,
    ) -> Tensor:
        """Go through the chunks, from the state that the cache holds."""
        refuse_documents_in_cache(cache, documents_bt)
        q_bhtd, k_bgtd = self.place(*self.coupling(*self.project(x_bte)), rotary, 0)
        v_bgtv = self._with_ones(self.split(self.value(x_bte)))
        state = cache.kept.get("state") if cache else None
        with torch.autocast(x_bte.device.type, enabled=False):
            o_bhtv, state = self._through_chunks(q_bhtd, k_bgtd, v_bgtv, state, documents_bt)
        if cache is not None:
            cache.kept["state"] = state
            cache.tokens += x_bte.shape[1]
        return self.finish(self._weigh(o_bhtv), x_bte)

    def place(
        self,
        q_bhtd: Tensor,
        k_bgtd: Tensor,
        rotary: Rotary,
        offset: int,
    ) -> tuple[Tensor, Tensor]:
        """Return the features, at least in float32; nothing is rotated."""
        q_bhtd, k_bgtd = F.elu(wide(q_bhtd)) + 1.0, F.elu(wide(k_bgtd)) + 1.0
        return q_bhtd * self.shape.head_dim**-0.5, k_bgtd

    def score_naive(
        self, q_bhtd: Tensor, k_bgtd: Tensor, v_bgtd: Tensor, documents_bt: Tensor | None
    ) -> Tensor:
        """Weigh the values by all products of features at once."""
        v_bgtv = self._with_ones(v_bgtd)
        return self._weigh(self._inside(q_bhtd, k_bgtd, v_bgtv, documents_bt))

    def extra_parameter_count(self) -> int:
        """Count the head norm when there is one."""
        return self.shape.head_dim if self.options.norm == "rms" else 0

    def cache_floats_per_token(self) -> int:
        """Count none: the state is all there is."""
        return 0

    def cache_floats_fixed(self) -> int:
        """Count the state, one matrix per key/value head."""
        return self.kv_heads * self.shape.head_dim * self._value_size()

    def forward_flops(self, tokens: int) -> int:
        """Count the projections, the coupling, the squares inside chunks, and the state."""
        size, values, chunk = self.shape.head_dim, self._value_size(), self.options.chunk
        whole, rest = divmod(tokens, chunk)
        inside = 2 * self.heads * (whole * chunk**2 + rest**2) * (size + values)
        reading = 2 * self.heads * max(tokens - chunk, 0) * size * values
        writing = 2 * self.kv_heads * tokens * size * values
        linear = 2 * tokens * self._projection_count() + self.coupling.forward_flops(tokens)
        return linear + inside + reading + writing

    def _value_size(self) -> int:
        return self.shape.head_dim + (self.options.norm == "sum")

    def _with_ones(self, v_bgtd: Tensor) -> Tensor:
        """Append the column whose weighted sum is the sum of the weights, if that is wanted."""
        return (
            F.pad(wide(v_bgtd), (0, 1), value=1.0) if self.options.norm == "sum" else wide(v_bgtd)
        )

    def _weigh(self, o_bhtv: Tensor) -> Tensor:
        if self.options.norm == "rms":
            return self.head_norm(o_bhtv)
        return o_bhtv[..., :-1] / (o_bhtv[..., -1:] + 1e-10)

    def _inside(
        self, q_bhtd: Tensor, k_bgtd: Tensor, v_bgtv: Tensor, documents_bt: Tensor | None
    ) -> Tensor:
        seen = visible(q_bhtd.shape[-2], k_bgtd.shape[-2], q_bhtd.device, documents_bt)
        weights = (q_bhtd @ spread(k_bgtd, self.heads).mT) * seen
        return weights @ spread(v_bgtv, self.heads)

    def _through_chunks(
        self,
        q_bhtd: Tensor,
        k_bgtd: Tensor,
        v_bgtv: Tensor,
        state_bgdv: Tensor | None,
        documents_bt: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """Return the weighted sums and the state after the last token."""
        chunk, outputs = self.options.chunk, []
        for start in range(0, q_bhtd.shape[-2], chunk):
            rows = slice(start, start + chunk)
            q, k, v = q_bhtd[:, :, rows], k_bgtd[:, :, rows], v_bgtv[:, :, rows]
            documents = None if documents_bt is None else documents_bt[:, rows]
            output = self._inside(q, k, v, documents)
            last = start + q.shape[-2] - 1
            written = (k * _same(documents_bt, rows, last, q)).mT @ v
            if state_bgdv is not None:
                goes_on = _same(documents_bt, rows, start - 1, q)
                output = output + q @ spread(state_bgdv, self.heads) * goes_on
                written = written + state_bgdv * goes_on[:, :, -1:]
            outputs.append(output)
            state_bgdv = written
        return torch.cat(outputs, dim=-2), state_bgdv


def _same(documents_bt: Tensor | None, rows: slice, token: int, like: Tensor) -> Tensor:
    """Return (B, 1, T, 1), 1 where a row is of the token's document, else 0."""
    if documents_bt is None:
        return like.new_ones(1, 1, 1, 1)
    same_bt = documents_bt[:, rows] == documents_bt[:, token, None]
    return same_bt[:, None, :, None].to(like.dtype)
