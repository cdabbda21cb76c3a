"""The frame of most variants: projections into heads around a coupling and a scoring rule."""

from __future__ import annotations

from pydantic import PositiveInt
from torch import Tensor, nn

from ..layers import Linear, Rotary
from ._scoring import attend, softmax_over_scores
from .base import Attention, Cache, MakeCoupling, Options, Shape, refuse_documents_in_cache


class HeadOptions(Options):
    """Settings of a method that may share keys and values among query heads."""

    kv_heads: PositiveInt | None = None
    """Key/value heads; as many as query heads when not given."""


class HeadAttention(Attention):
    """The common frame: four projections around a coupling, a norm, rotary and a scoring rule.

    A variant changes what it needs to: ``normalise`` (its own norm of queries and keys), ``score``
    and ``score_naive`` (the rule), ``finish`` (what happens to the heads).
    """

    def __init__(
        self,
        shape: Shape,
        make_coupling: MakeCoupling,
        *,
        heads: int | None = None,
        kv_heads: int | None = None,
    ) -> None:
        nn.Module.__init__(self)
        self.shape = shape
        self.heads = heads or shape.heads
        self.kv_heads = kv_heads or self.heads
        if self.heads % self.kv_heads:
            raise ValueError(
                f"kv_heads must divide the {self.heads} query heads, got {self.kv_heads}"
            )
        width, size = shape.width, shape.head_dim
        self.query = Linear(width, self.heads * size)
        self.key = Linear(width, self.kv_heads * size)
        self.value = Linear(width, self.kv_heads * size)
        self.output = Linear(shape.heads * size, width, zero=True)
        self.coupling = make_coupling(heads=self.heads, kv_heads=self.kv_heads, head_dim=size)

    def forward(
        self,
        x_bte: Tensor,
        rotary: Rotary,
        *,
        cache: Cache | None = None,
        documents_bt: Tensor | None = None,
    ) -> Tensor:
        """Project, couple, normalise, rotate, score."""
        refuse_documents_in_cache(cache, documents_bt)
        offset = cache.tokens if cache else 0
        q_bhtd, k_bgtd = self.place(*self.coupling(*self.project(x_bte)), rotary, offset)
        qkv = (q_bhtd, k_bgtd, self.split(self.value(x_bte)))
        if cache is not None:
            qkv = self.recall(cache, *qkv)
            cache.tokens += x_bte.shape[1]
        o_bhtd = self.score(*qkv, documents_bt)
        return self.finish(o_bhtd[:, :, -x_bte.shape[1] :], x_bte)

    def forward_naive(
        self, x_bte: Tensor, rotary: Rotary, *, documents_bt: Tensor | None = None
    ) -> Tensor:
        """Take the same steps with the coupling and the scoring written out."""
        q_bhtd, k_bgtd = self.coupling.forward_naive(*self.project(x_bte))
        q_bhtd, k_bgtd = self.place(q_bhtd, k_bgtd, rotary, 0)
        v_bgtd = self.split(self.value(x_bte))
        return self.finish(self.score_naive(q_bhtd, k_bgtd, v_bgtd, documents_bt), x_bte)

    def split(self, x_btf: Tensor) -> Tensor:
        """Cut the features into heads: (B, T, H*D) to (B, H, T, D)."""
        return x_btf.unflatten(-1, (-1, self.shape.head_dim)).transpose(1, 2)

    def project(self, x_bte: Tensor) -> tuple[Tensor, Tensor]:
        """Return queries and keys before any other step."""
        return self.split(self.query(x_bte)), self.split(self.key(x_bte))

    def place(
        self, q_bhtd: Tensor, k_bgtd: Tensor, rotary: Rotary, offset: int
    ) -> tuple[Tensor, Tensor]:
        """Normalise and rotate."""
        q_bhtd, k_bgtd = self.normalise(q_bhtd, k_bgtd)
        return rotary(q_bhtd, offset=offset), rotary(k_bgtd, offset=offset)

    def recall(
        self, cache: Cache, q_bhtd: Tensor, k_bgtd: Tensor, v_bgtd: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Keep what later tokens will need, and put what is kept before what is new."""
        return q_bhtd, cache.extend("key", k_bgtd), cache.extend("value", v_bgtd)

    def normalise(self, q_bhtd: Tensor, k_bgtd: Tensor) -> tuple[Tensor, Tensor]:
        """Apply the method's own norm; none here."""
        return q_bhtd, k_bgtd

    def score(
        self, q_bhtd: Tensor, k_bgtd: Tensor, v_bgtd: Tensor, documents_bt: Tensor | None
    ) -> Tensor:
        """Return (B, H, T, D) without storing scores."""
        return attend(q_bhtd, k_bgtd, v_bgtd, documents_bt=documents_bt)

    def score_naive(
        self, q_bhtd: Tensor, k_bgtd: Tensor, v_bgtd: Tensor, documents_bt: Tensor | None
    ) -> Tensor:
        """Return (B, H, T, D) with every score written out."""
        return softmax_over_scores(q_bhtd, k_bgtd, v_bgtd, documents_bt=documents_bt)

    def finish(self, o_bhtd: Tensor, x_bte: Tensor) -> Tensor:
        """Join the heads and project; the layer's input is there for methods that gate with it."""
        return self.output(o_bhtd.transpose(1, 2).flatten(2))

    def parameter_count(self) -> int:
        """Count four projections, the method's own parameters and the coupling."""
        own = self._projection_count() + self.extra_parameter_count()
        return own + self.coupling.parameter_count()

    def extra_parameter_count(self) -> int:
        """Count what the method owns beside the projections."""
        return 0

    def cache_floats_per_token(self) -> int:
        """Count one key and one value per key/value head."""
        return 2 * self.kv_heads * self.shape.head_dim

    def forward_flops(self, tokens: int) -> int:
        """Count the projections, the coupling, the scores, the weighted sum and the extras."""
        square = 4 * tokens**2 * self.heads * self.shape.head_dim
        linear = 2 * tokens * self._projection_count() + self.coupling.forward_flops(tokens)
        return linear + square + self.extra_forward_flops(tokens)

    def extra_forward_flops(self, tokens: int) -> int:
        """Count the operations of the method's own matrix products."""
        return 0

    def _projection_count(self) -> int:
        heads = self.heads + 2 * self.kv_heads + self.shape.heads
        return self.shape.width * self.shape.head_dim * heads
