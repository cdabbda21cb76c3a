"""The first version's dynamics, one explicit Euler step at a time."""

from __future__ import annotations

import torch
from pydantic import PositiveInt
from torch import Tensor, nn

from ..layers import Constant
from ._nets import HeadNets
from .base import Coupling, Options, refuse_inverse


class DynamicsOptions(Options):
    """Settings of the first version's couplings."""

    hidden: PositiveInt = 8
    """Hidden units of each head's network f."""
    steps: PositiveInt = 1
    """How many steps; all share f and dt."""
    dt: float = 0.0
    """Where each head's learned step size starts; only 0 makes the start the identity."""


class Euler(Coupling):
    """Takes q + dt k and k + dt f(q) from the same old q and k; f is a SiLU network per head.

    The determinant of such a step, det(I - dt^2 f'(q)), may vanish, so there is no inverse.
    """

    summary = "version 1: explicit Euler steps of q' = k, k' = f(q), learned dt"
    source = (
        "Coupled Query-Key Dynamics for Attention (version 1 of Invertible Query-Key Coupling), "
        "B. Gahtan and A. M. Bronstein, 2026, https://arxiv.org/abs/2604.01683v1"
    )
    Options = DynamicsOptions
    examples = ({}, {"hidden": 3, "steps": 3, "dt": 0.1})
    gates = frozenset({"dt"})
    invertible = False

    def __init__(
        self, options: DynamicsOptions, *, heads: int, kv_heads: int, head_dim: int
    ) -> None:
        super().__init__(options, heads=heads, kv_heads=kv_heads, head_dim=head_dim)
        self.force = HeadNets(kv_heads, head_dim, options.hidden, head_dim, zero=False)
        self.dt = nn.Parameter(torch.empty(kv_heads))
        self.initial = {"dt": Constant(options.dt)}

    def forward(self, q_bhtd: Tensor, k_bgtd: Tensor) -> tuple[Tensor, Tensor]:
        """Take all steps, in float32 or wider."""
        return self._steps(q_bhtd, k_bgtd, self.force)

    def forward_naive(self, q_bhtd: Tensor, k_bgtd: Tensor) -> tuple[Tensor, Tensor]:
        """Take all steps with the networks head by head."""
        return self._steps(q_bhtd, k_bgtd, self.force.forward_naive)

    inverse = refuse_inverse
    with_log_det = refuse_inverse

    def parameter_count(self) -> int:
        """Count the networks and one dt each."""
        return self.force.parameter_count() + self.kv_heads

    def forward_flops(self, tokens: int) -> int:
        """Count the networks once per step."""
        return self.options.steps * self.force.forward_flops(tokens)

    def _steps(self, q_bhtd: Tensor, k_bgtd: Tensor, force: HeadNets) -> tuple[Tensor, Tensor]:
        dtype = q_bhtd.dtype
        with torch.autocast(q_bhtd.device.type, enabled=False):
            q_bhtd, k_bgtd = q_bhtd.to(self.dt.dtype), k_bgtd.to(self.dt.dtype)
            for _ in range(self.options.steps):
                q_bhtd, k_bgtd = self._step(q_bhtd, k_bgtd, force)
        return q_bhtd.to(dtype), k_bgtd.to(dtype)

    def _step(self, q_bhtd: Tensor, k_bgtd: Tensor, force: HeadNets) -> tuple[Tensor, Tensor]:
        moved = self._move_query(q_bhtd, k_bgtd)
        return moved, k_bgtd + self._dt_g11() * force(self.mean_query(q_bhtd))

    def _move_query(self, q_bhtd: Tensor, k_bgtd: Tensor, sign: int = 1) -> Tensor:
        return q_bhtd + sign * self.shared_key(self._dt_g11() * k_bgtd)

    def _dt_g11(self) -> Tensor:
        return self.dt.view(-1, 1, 1)
