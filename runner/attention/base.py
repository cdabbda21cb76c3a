"""The contract of a scoring method, and the steps that most of them share.

Shape legend of this folder: B batch, T tokens, E model width, H query heads, G key/value heads,
D head size, V value size. A name ends in its axes: q_bhtd is (B, H, T, D).

The order is fixed: project, couple, the method's own norm, rotary, scoring. A coupling after
rotary would see absolute positions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from pydantic import BaseModel, ConfigDict, PositiveInt
from torch import Tensor, nn
from torch.nn import functional as F

from ..coupling.base import Coupling
from ..layers import Linear, Rotary


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What a model tells its attention: sizes, and which of how many layers this is (0-based)."""

    width: int
    heads: int
    head_dim: int
    layer: int = 0
    layers: int = 1


class MakeCoupling(Protocol):
    """Builds the study's coupling for the heads that a method really has."""

    def __call__(self, *, heads: int, kv_heads: int, head_dim: int) -> Coupling:
        """Return a coupling of ``heads`` queries with ``kv_heads`` keys of ``head_dim``."""


class Cache:
    """What one layer keeps of the tokens it has seen, by name."""

    def __init__(self) -> None:
        self.tokens = 0
        self.kept: dict[str, Tensor] = {}

    def extend(self, name: str, new_bhtd: Tensor, *, last: int | None = None) -> Tensor:
        """Append along T and return everything; keep only the ``last`` tokens when given."""
        whole = torch.cat((self.kept[name], new_bhtd), -2) if name in self.kept else new_bhtd
        self.kept[name] = whole if last is None else whole[..., max(whole.shape[-2] - last, 0) :, :]
        return whole

    def floats(self) -> int:
        """Count the numbers kept."""
        return sum(tensor.numel() for tensor in self.kept.values())


class Options(BaseModel):
    """Settings of a variant; a study's table is validated by it."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Attention(nn.Module):
    """A scoring method: maps (B, T, E) to (B, T, E), causally.

    A variant says in ``summary`` what it is in one line and in ``source`` where it comes from
    (title, authors, year, link). Its counts include those of the coupling it asked for.
    """

    summary: ClassVar[str]
    source: ClassVar[str]
    Options: ClassVar[type[Options]]
    coupling: Coupling
    shift_invariant: bool = True
    """Whether moving all positions by one amount leaves the output as it was."""

    def __init__(self, shape: Shape, options: Options, make_coupling: MakeCoupling) -> None:
        raise NotImplementedError

    def forward(
        self,
        x_bte: Tensor,
        rotary: Rotary,
        *,
        cache: Cache | None = None,
        documents_bt: Tensor | None = None,
    ) -> Tensor:
        """Score, quickly. With a cache, x continues what it holds. Documents never see each other.

        ``documents_bt`` holds a number per token; tokens of one document are neighbours.
        """
        raise NotImplementedError

    def forward_naive(
        self, x_bte: Tensor, rotary: Rotary, *, documents_bt: Tensor | None = None
    ) -> Tensor:
        """Score, readably: every score is there to be looked at."""
        raise NotImplementedError

    def parameter_count(self) -> int:
        """Count the parameters, the coupling's included."""
        raise NotImplementedError

    def cache_floats_per_token(self) -> int:
        """Count the numbers a cache keeps for each token of one sequence."""
        raise NotImplementedError

    def cache_floats_fixed(self) -> int:
        """Count the numbers a cache keeps whatever the length."""
        return 0

    def forward_flops(self, tokens: int) -> int:
        """Count the operations of the matrix products on one sequence.

        A multiply-add is two, and the whole square of scores counts, as is the custom in
        utilisation figures.
        """
        raise NotImplementedError


def visible(
    queries: int, keys: int, device: torch.device, documents_bt: Tensor | None = None
) -> Tensor:
    """Return what each query may see, True for yes: (Tq, Tk), or (B, 1, Tq, Tk) with documents.

    The queries are the last ones of the keys' tokens.

    >>> visible(2, 3, torch.device("cpu")).int()
    tensor([[1, 1, 0],
            [1, 1, 1]], dtype=torch.int32)
    """
    causal = torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)
    if documents_bt is None:
        return causal
    same = documents_bt[:, -queries:, None] == documents_bt[:, None, :]
    return (causal & same)[:, None]


def attend(
    q_bhtd: Tensor,
    k_bgtd: Tensor,
    v_bgtv: Tensor,
    *,
    scale: float | None = None,
    documents_bt: Tensor | None = None,
) -> Tensor:
    """Softmax attention that stores no score: (B, H, Tq, V). Query head h reads key h // (H/G)."""
    queries, keys = q_bhtd.shape[-2], k_bgtd.shape[-2]
    square = documents_bt is None and queries == keys
    mask = None
    if documents_bt is not None or 1 < queries < keys:
        mask = visible(queries, keys, q_bhtd.device, documents_bt)
    return F.scaled_dot_product_attention(
        q_bhtd,
        k_bgtd,
        v_bgtv,
        attn_mask=mask,
        is_causal=square and queries > 1,
        scale=scale,
        enable_gqa=q_bhtd.shape[1] != k_bgtd.shape[1],
    )


def scores(q_bhtd: Tensor, k_bgtd: Tensor, *, scale: float | None = None) -> Tensor:
    """Return every score, (B, H, Tq, Tk), scaled by D^-0.5 unless told otherwise."""
    scale = q_bhtd.shape[-1] ** -0.5 if scale is None else scale
    return scale * (q_bhtd @ spread(k_bgtd, q_bhtd.shape[1]).mT)


def spread(x_bgtd: Tensor, heads: int) -> Tensor:
    """Repeat each key/value head for its group of query heads: (B, G, T, D) to (B, H, T, D)."""
    return x_bgtd.repeat_interleave(heads // x_bgtd.shape[1], dim=1)


def masked_softmax(scores_bhts: Tensor, visible_ts: Tensor) -> Tensor:
    """Return the weights of a softmax over what is visible."""
    return scores_bhts.masked_fill(~visible_ts, float("-inf")).softmax(-1)


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
        v_bgtd = self.split(self.value(x_bte))
        if cache is not None:
            k_bgtd, v_bgtd = cache.extend("key", k_bgtd), cache.extend("value", v_bgtd)
            cache.tokens += x_bte.shape[1]
        return self.finish(self.score(q_bhtd, k_bgtd, v_bgtd, documents_bt), x_bte)

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
        seen = visible(q_bhtd.shape[-2], k_bgtd.shape[-2], q_bhtd.device, documents_bt)
        weights = masked_softmax(scores(q_bhtd, k_bgtd), seen)
        return weights @ spread(v_bgtd, self.heads)

    def finish(self, o_bhtd: Tensor, x_bte: Tensor) -> Tensor:  # noqa: ARG002
        """Join the heads and project; the layer's input is there for methods that gate with it."""
        return self.output(o_bhtd.transpose(1, 2).flatten(2))

    def parameter_count(self) -> int:
        """Count four projections and the coupling."""
        return self._projection_count() + self.coupling.parameter_count()

    def cache_floats_per_token(self) -> int:
        """Count one key and one value per key/value head."""
        return 2 * self.kv_heads * self.shape.head_dim

    def forward_flops(self, tokens: int) -> int:
        """Count the projections, the coupling, the scores and the weighted sum."""
        square = 4 * tokens**2 * self.heads * self.shape.head_dim
        return 2 * tokens * self._projection_count() + self.coupling.forward_flops(tokens) + square

    def _projection_count(self) -> int:
        heads = self.heads + 2 * self.kv_heads + self.shape.heads
        return self.shape.width * self.shape.head_dim * heads


def refuse_documents_in_cache(cache: Cache | None, documents_bt: Tensor | None) -> None:
    """Raise when a cache is asked to hold several documents."""
    if cache is not None and documents_bt is not None:
        raise ValueError(
            "a cache holds one document per sequence: documents_bt must be None with a cache; "
            "decode each document with a cache of its own"
        )
