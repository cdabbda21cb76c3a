"""The affine coupling: a token's query and key scale and shift each other."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import PositiveFloat, PositiveInt
from torch import Tensor, nn

from ._half_step import HalfStep, move_pair
from .base import Coupling, Options


class AffineOptions(Options):
    """Settings of the affine coupling."""

    hidden: PositiveInt = 8
    """Hidden units of each head's network."""
    bound: PositiveFloat = 1.0
    """Largest size of an exponent: a coordinate is scaled by exp(-bound) to exp(bound)."""
    pairs: PositiveInt = 1
    """How many times a key step and a query step follow each other, each with its own networks."""


class Affine(Coupling):
    """Alternates k <- k * exp(c tanh s(q)) + t(q) and q <- q * exp(c tanh s(k)) + t(k).

    Exactly invertible: run the steps backwards with the exponents negated.
    """

    summary = "query and key scale and shift each other, exactly invertible"
    source = (
        "Invertible Query-Key Coupling Composes with Attention Mechanisms, B. Gahtan and "
        "A. M. Bronstein, 2026, https://arxiv.org/abs/2604.01683; half-steps of Density estimation "
        "using Real NVP, L. Dinh et al., 2016, https://arxiv.org/abs/1605.08803"
    )
    Options = AffineOptions
    examples = ({}, {"hidden": 3, "bound": 0.5, "pairs": 2})
    gates = frozenset({"outer", "outer_bias"})

    def __init__(self, options: AffineOptions, *, heads: int, kv_heads: int, head_dim: int) -> None:
        super().__init__(options, heads=heads, kv_heads=kv_heads, head_dim=head_dim)
        sizes = {"head_dim": head_dim, "hidden": options.hidden, "bound": options.bound}
        self.key_steps = nn.ModuleList(
            HalfStep(nets=kv_heads, **sizes) for _ in range(options.pairs)
        )
        self.query_steps = nn.ModuleList(
            HalfStep(nets=heads, **sizes) for _ in range(options.pairs)
        )

    def read_for_key(self, q_bhtd: Tensor, k_bgtd: Tensor) -> Tensor:
        """Return what the key's networks read: the queries."""
        return self.mean_query(q_bhtd)

    def read_for_query(self, q_bhtd: Tensor, k_bgtd: Tensor) -> Tensor:
        """Return what the queries' networks read: the key."""
        return self.shared_key(k_bgtd)

    def forward(self, q_bhtd: Tensor, k_bgtd: Tensor) -> tuple[Tensor, Tensor]:
        """Take every pair of half-steps; only the last result is rounded to what came in."""
        dtype = q_bhtd.dtype
        for key_step, query_step in self._pairs():
            q_bhtd, k_bgtd = move_pair(q_bhtd, k_bgtd, key_step, query_step)
        return q_bhtd.to(dtype), k_bgtd.to(dtype)

    def forward_naive(self, q_bhtd: Tensor, k_bgtd: Tensor) -> tuple[Tensor, Tensor]:
        """Take every pair of half-steps, head by head."""
        for key_step, query_step in self._pairs():
            k_bgtd = key_step.forward_naive(k_bgtd, self.read_for_key(q_bhtd, k_bgtd))
            q_bhtd = query_step.forward_naive(q_bhtd, self.read_for_query(q_bhtd, k_bgtd))
        return q_bhtd, k_bgtd

    def inverse(self, q_bhtd: Tensor, k_bgtd: Tensor) -> tuple[Tensor, Tensor]:
        """Run the half-steps backwards."""
        for key_step, query_step in reversed(list(self._pairs())):
            q_bhtd = query_step.inverse(q_bhtd, self.read_for_query(q_bhtd, k_bgtd))
            k_bgtd = key_step.inverse(k_bgtd, self.read_for_key(q_bhtd, k_bgtd))
        return q_bhtd, k_bgtd

    def with_log_det(self, q_bhtd: Tensor, k_bgtd: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Sum the exponents on the way."""
        log_det_bgt = 0.0
        for key_step, query_step in self._pairs():
            read_bgtd = self.read_for_key(q_bhtd, k_bgtd)
            k_bgtd = key_step(k_bgtd, read_bgtd)
            read_bhtd = self.read_for_query(q_bhtd, k_bgtd)
            q_bhtd = query_step(q_bhtd, read_bhtd)
            of_queries_bht = query_step.exponent_and_shift(read_bhtd)[0].sum(-1)
            log_det_bgt += key_step.exponent_and_shift(read_bgtd)[0].sum(-1)
            log_det_bgt += of_queries_bht.unflatten(1, (self.kv_heads, -1)).sum(2)
        return q_bhtd, k_bgtd, log_det_bgt

    def parameter_count(self) -> int:
        """Count the networks of all half-steps."""
        return sum(step.parameter_count() for pair in self._pairs() for step in pair)

    def forward_flops(self, tokens: int) -> int:
        """Count two products per network."""
        return sum(step.forward_flops(tokens) for pair in self._pairs() for step in pair)

    def _pairs(self) -> Iterator[tuple[HalfStep, HalfStep]]:
        return zip(self.key_steps, self.query_steps, strict=True)
