"""The contract of a coupling.

A coupling acts on one token's own query and key, before rotary and scoring. Shapes: q_bhtd is
(B, H, T, D) and k_bgtd is (B, G, T, D), G dividing H. With grouped keys the key's network reads the
mean of its group's queries, and every query of the group is acted on by the one key they
share; with one query per key that is the plain case.
"""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn

from pydantic import BaseModel, ConfigDict
from torch import Tensor, nn


class Options(BaseModel):
    """Settings of a variant; a study's table is validated by it."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Coupling(nn.Module):
    """A map of (q, k) to (q, k) that is the identity at the start.

    ``gates`` names the parameters whose start makes it so.
    """

    summary: ClassVar[str]
    source: ClassVar[str]
    Options: ClassVar[type[Options]]
    examples: ClassVar[tuple[dict[str, Any], ...]] = ({},)
    """Settings that the law test runs; the first are the defaults."""
    gates: ClassVar[frozenset[str]] = frozenset()
    invertible: ClassVar[bool] = True
    changes_keys: ClassVar[bool] = True

    def __init__(self, options: Options, *, heads: int, kv_heads: int, head_dim: int) -> None:
        super().__init__()
        assert heads % kv_heads == 0
        self.options, self.heads, self.kv_heads, self.head_dim = options, heads, kv_heads, head_dim

    def forward(self, q_bhtd: Tensor, k_bgtd: Tensor) -> tuple[Tensor, Tensor]:
        """Map queries and keys, quickly; shapes and dtypes stay."""
        raise NotImplementedError

    def forward_naive(self, q_bhtd: Tensor, k_bgtd: Tensor) -> tuple[Tensor, Tensor]:
        """Map queries and keys, readably."""
        raise NotImplementedError

    def inverse(self, q_bhtd: Tensor, k_bgtd: Tensor) -> tuple[Tensor, Tensor]:
        """Undo ``forward``."""
        raise NotImplementedError

    def with_log_det(self, q_bhtd: Tensor, k_bgtd: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return (q, k, log|det|), the last (B, G, T): one for each key and its queries."""
        raise NotImplementedError

    def parameter_count(self) -> int:
        """Count the parameters."""
        raise NotImplementedError

    def forward_flops(self, tokens: int) -> int:
        """Count the operations of the matrix products on one sequence; a multiply-add is two."""
        raise NotImplementedError

    def mean_query(self, q_bhtd: Tensor) -> Tensor:
        """Return what a key's network reads: the mean of its group's queries, (B, G, T, D)."""
        if self.heads == self.kv_heads:
            return q_bhtd
        return q_bhtd.unflatten(1, (self.kv_heads, -1)).mean(2)

    def shared_key(self, k_bgtd: Tensor) -> Tensor:
        """Return what a query's network reads: its group's key, (B, H, T, D)."""
        if self.heads == self.kv_heads:
            return k_bgtd
        return k_bgtd.repeat_interleave(self.heads // self.kv_heads, dim=1)


def refuse_inverse(self: Coupling, q_bhtd: Tensor, k_bgtd: Tensor) -> NoReturn:
    """Raise ``ValueError``: this coupling cannot be undone."""
    raise ValueError(
        f"{type(self).__name__} has no exact inverse and no log-determinant; "
        "couplings with `invertible = True` do"
    )
