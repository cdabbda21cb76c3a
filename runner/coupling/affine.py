"""The affine coupling: a token's query and key scale and shift each other."""

from __future__ import annotations

from pydantic import PositiveFloat, PositiveInt
from torch import Tensor, nn

from .base import Coupling, HalfStep, Options


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

    def forward(self, q_bhtd: Tensor, k_bgtd: Tensor) -> tuple[Tensor, Tensor]:
        """Take every pair of half-steps."""
        for key_step, query_step in zip(self.key_steps, self.query_steps, strict=True):
            k_bgtd = key_step(k_bgtd, self.mean_query(q_bhtd))
            q_bhtd = query_step(q_bhtd, self.shared_key(k_bgtd))
        return q_bhtd, k_bgtd

    def forward_naive(self, q_bhtd: Tensor, k_bgtd: Tensor) -> tuple[Tensor, Tensor]:
        """Take every pair of half-steps, head by head."""
        for key_step, query_step in zip(self.key_steps, self.query_steps, strict=True):
            k_bgtd = key_step.forward_naive(k_bgtd, self.mean_query(q_bhtd))
            q_bhtd = query_step.forward_naive(q_bhtd, self.shared_key(k_bgtd))
        return q_bhtd, k_bgtd

    def inverse(self, q_bhtd: Tensor, k_bgtd: Tensor) -> tuple[Tensor, Tensor]:
        """Run the half-steps backwards."""
        steps = zip(reversed(self.key_steps), reversed(self.query_steps), strict=True)
        for key_step, query_step in steps:
            q_bhtd = query_step.inverse(q_bhtd, self.shared_key(k_bgtd))
            k_bgtd = key_step.inverse(k_bgtd, self.mean_query(q_bhtd))
        return q_bhtd, k_bgtd

    def with_log_det(self, q_bhtd: Tensor, k_bgtd: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Sum the exponents on the way."""
        log_det_bgt = k_bgtd.new_zeros(k_bgtd.shape[:-1])
        for key_step, query_step in zip(self.key_steps, self.query_steps, strict=True):
            exponent_bgtd = key_step.exponent_and_shift(self.mean_query(q_bhtd))[0]
            k_bgtd = key_step(k_bgtd, self.mean_query(q_bhtd))
            exponent_bhtd = query_step.exponent_and_shift(self.shared_key(k_bgtd))[0]
            q_bhtd = query_step(q_bhtd, self.shared_key(k_bgtd))
            grouped = exponent_bhtd.unflatten(1, (self.kv_heads, -1)).sum((2, -1))
            log_det_bgt = log_det_bgt + exponent_bgtd.sum(-1) + grouped
        return q_bhtd, k_bgtd, log_det_bgt

    def parameter_count(self) -> int:
        """Count the networks of all half-steps."""
        steps = (*self.key_steps, *self.query_steps)
        return sum(step.parameter_count() for step in steps)

    def forward_flops(self, tokens: int) -> int:
        """Count two products per network."""
        steps = (*self.key_steps, *self.query_steps)
        return sum(step.forward_flops(tokens) for step in steps)
