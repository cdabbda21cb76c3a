"""Multi-head latent attention: keys and values from one small latent vector per token."""

from __future__ import annotations

import torch
from pydantic import PositiveInt, field_validator
from torch import Tensor, nn

from ..layers import Linear, RMSNorm, Rotary
from ._scoring import attend, softmax_over_scores
from .base import Attention, Cache, MakeCoupling, Options, Shape, refuse_documents_in_cache


class LatentOptions(Options):
    """Settings of latent attention; head size D is that of the part without positions."""

    kv_rank: PositiveInt | None = None
    """Size of the latent vector; a quarter of the model's width when not given."""
    query_rank: PositiveInt | None = None
    """Size of a latent vector for queries; queries are projected directly when not given."""
    rotary_dim: PositiveInt | None = None
    """Extra coordinates that carry positions; D/2, made even, when not given."""

    @field_validator("rotary_dim")
    @classmethod
    def _refuse_odd(cls, value: int | None) -> int | None:
        if value is not None and value % 2:
            raise ValueError(f"rotary_dim must be even for rotary pairs, got {value}")
        return value


class Latent(Attention):
    """k = [W_k c, rotary(k_r)] and v = W_v c with c = RMS(W_c x); k_r is shared by all heads.

    The coupling acts on the part without positions. Coupled keys depend on their token's query, so
    they can no longer be rebuilt from the latent vector and have to be cached themselves.
    """

    summary = "keys and values rebuilt from one small vector per token, rotary kept apart"
    source = (
        "DeepSeek-V2: A Strong, Economical, and Efficient Mixture-of-Experts Language Model, "
        "DeepSeek-AI, 2024, https://arxiv.org/abs/2405.04434"
    )
    Options = LatentOptions
    query_key = frozenset({"query", "query_down", "query_up", "key"})
    examples = ({}, {"kv_rank": 7, "query_rank": 5, "rotary_dim": 14})

    def __init__(self, shape: Shape, options: LatentOptions, make_coupling: MakeCoupling) -> None:
        nn.Module.__init__(self)
        width, heads, size = shape.width, shape.heads, shape.head_dim
        self.shape, self.heads = shape, heads
        self.kv_rank = options.kv_rank or max(width // 4, 1)
        self.query_rank = options.query_rank
        self.rotary_dim = options.rotary_dim or 2 * max(size // 4, 1)
        queries = heads * (size + self.rotary_dim)
        if self.query_rank is None:
            self.query = Linear(width, queries)
        else:
            self.query_down = Linear(width, self.query_rank)
            self.query_norm = RMSNorm(self.query_rank)
            self.query_up = Linear(self.query_rank, queries)
        self.latent = Linear(width, self.kv_rank + self.rotary_dim)
        self.latent_norm = RMSNorm(self.kv_rank)
        self.key = Linear(self.kv_rank, heads * size)
        self.value = Linear(self.kv_rank, heads * size)
        self.output = Linear(heads * size, width, zero=True)
        self.coupling = make_coupling(heads=heads, kv_heads=heads, head_dim=size)

    def forward(
        self,
        x_bte: Tensor,
        rotary: Rotary,
        *,
        cache: Cache | None = None,
        documents_bt: Tensor | None = None,
    ) -> Tensor:
        """Project, couple the part without positions, rotate the other, score."""
        refuse_documents_in_cache(cache, documents_bt)
        q_bhts, q_rotary_bhtr, latent_b1tc, k_rotary_b1tr = self._project(
            x_bte, rotary, cache.tokens if cache else 0
        )
        q_bhtd, k_bhtd = self.coupling(q_bhts, self._split(self.key(latent_b1tc[:, 0])))
        if cache is not None:
            latent_b1tc = cache.extend("latent", latent_b1tc)
            k_rotary_b1tr = cache.extend("rotary", k_rotary_b1tr)
            if self.coupling.changes_keys:
                k_bhtd = cache.extend("key", k_bhtd)
            else:
                k_bhtd = self._split(self.key(latent_b1tc[:, 0]))
            cache.tokens += x_bte.shape[1]
        v_bhtd = self._split(self.value(latent_b1tc[:, 0]))
        q_bhtf, k_bhtf = _join(q_bhtd, q_rotary_bhtr), _join(k_bhtd, k_rotary_b1tr)
        return self._finish(attend(q_bhtf, k_bhtf, v_bhtd, documents_bt=documents_bt))

    def forward_naive(
        self, x_bte: Tensor, rotary: Rotary, *, documents_bt: Tensor | None = None
    ) -> Tensor:
        """Take the same steps without a cache and with the scores written out."""
        q_bhtd, q_rotary_bhtr, latent_b1tc, k_rotary_b1tr = self._project(x_bte, rotary, 0)
        k_bhtd, v_bhtd = (self._split(up(latent_b1tc[:, 0])) for up in (self.key, self.value))
        q_bhtd, k_bhtd = self.coupling.forward_naive(q_bhtd, k_bhtd)
        q_bhtf, k_bhtf = _join(q_bhtd, q_rotary_bhtr), _join(k_bhtd, k_rotary_b1tr)
        return self._finish(softmax_over_scores(q_bhtf, k_bhtf, v_bhtd, documents_bt=documents_bt))

    def parameter_count(self) -> int:
        """Count the projections, down and up, the norms and the coupling."""
        norms = self.kv_rank + (self.query_rank or 0)
        return self._projection_count() + norms + self.coupling.parameter_count()

    def cache_floats_per_token(self) -> int:
        """Count the latent vector, the shared rotary key, and keys if a coupling changes them."""
        keys = self.heads * self.shape.head_dim if self.coupling.changes_keys else 0
        return self.kv_rank + self.rotary_dim + keys

    def forward_flops(self, tokens: int) -> int:
        """Count the projections, the coupling, the scores and the weighted sum."""
        per_pair = self.heads * (2 * self.shape.head_dim + self.rotary_dim)
        linear = 2 * tokens * self._projection_count() + self.coupling.forward_flops(tokens)
        return linear + 2 * tokens**2 * per_pair

    def _projection_count(self) -> int:
        width, inner = self.shape.width, self.heads * self.shape.head_dim
        queries = inner + self.heads * self.rotary_dim
        query = width * queries
        if self.query_rank is not None:
            query = self.query_rank * (width + queries)
        latent = width * (self.kv_rank + self.rotary_dim) + 2 * self.kv_rank * inner
        return query + latent + inner * width

    def _project(
        self, x_bte: Tensor, rotary: Rotary, offset: int
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return queries in two parts, the latent vector and the rotary key, both rotated."""
        query = self.query if self.query_rank is None else self._query_through_latent
        sizes = (self.shape.head_dim, self.rotary_dim)
        q_bhtf = query(x_bte).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        q_bhtd, q_rotary_bhtr = q_bhtf.split(sizes, dim=-1)
        latent_btc, k_rotary_btr = self.latent(x_bte).split((self.kv_rank, sizes[1]), dim=-1)
        return (
            q_bhtd,
            rotary(q_rotary_bhtr, offset=offset),
            self.latent_norm(latent_btc)[:, None],
            rotary(k_rotary_btr[:, None], offset=offset),
        )

    def _query_through_latent(self, x_bte: Tensor) -> Tensor:
        return self.query_up(self.query_norm(self.query_down(x_bte)))

    def _split(self, x_btf: Tensor) -> Tensor:
        return x_btf.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def _finish(self, o_bhtd: Tensor) -> Tensor:
        return self.output(o_bhtd.transpose(1, 2).flatten(2))


def _join(x_bhtd: Tensor, rotary_bntr: Tensor) -> Tensor:
    """Put the two parts of a head side by side; a part with one head serves all."""
    return torch.cat((x_bhtd, rotary_bntr.expand(-1, x_bhtd.shape[1], -1, -1)), dim=-1)
