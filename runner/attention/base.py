"""The contract of a scoring method, and the steps that most of them share.

Shape legend of this folder: B batch, T tokens, E model width, H query heads, G key/value heads,
D head size, V value size. A name ends in its axes: q_bhtd is (B, H, T, D).

The order is fixed: project, couple, the method's own norm, rotary, scoring. A coupling after
rotary would see absolute positions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor, nn

from ..coupling.base import Coupling
from ..layers import Rotary


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
    examples: ClassVar[tuple[dict[str, Any], ...]] = ({},)
    """Settings that the law test runs, for six heads; the first are the defaults."""
    query_key: ClassVar[frozenset[str]] = frozenset({"query", "key"})
    """Its projections that make queries and keys; what values share with them is not among them."""
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


def refuse_documents_in_cache(cache: Cache | None, documents_bt: Tensor | None) -> None:
    """Raise when a cache is asked to hold several documents."""
    if cache is not None and documents_bt is not None:
        raise ValueError(
            "a cache holds one document per sequence: documents_bt must be None with a cache; "
            "decode each document with a cache of its own"
        )
