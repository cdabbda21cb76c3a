"""The affine half-step: one vector scales and shifts another."""

from __future__ import annotations

import torch
from torch import Tensor

from ._nets import HeadNets
from ._nodes import Weights, pair, step


def scale_shift(x: Tensor, exponent: Tensor, shift: Tensor) -> Tensor:
    """Return x * exp(exponent) + shift; log|det| is the sum of the exponents."""
    return x * exponent.exp() + shift


def undo_scale_shift(y: Tensor, exponent: Tensor, shift: Tensor) -> Tensor:
    """Return what ``scale_shift`` was given; nothing is divided."""
    return (y - shift) * (-exponent).exp()


class HalfStep(HeadNets):
    """y = x * exp(c tanh s) + t with (s, t) from one network per head; c bounds the exponent.

    The bound is what keeps the inverse exact: a strong contraction loses bits. Whatever autocast
    says and whatever comes in, the result has the parameters' precision.
    """

    def __init__(self, *, nets: int, head_dim: int, hidden: int, bound: float) -> None:
        super().__init__(nets, head_dim, hidden, 2 * head_dim)
        self.bound = bound

    def exponent_and_shift(self, condition_bntd: Tensor) -> tuple[Tensor, Tensor]:
        """Return c tanh s and t, both (B, N, T, D), at least in float32."""
        with torch.autocast(condition_bntd.device.type, enabled=False):
            raw, shift = super().forward(condition_bntd.to(self.inner.dtype)).chunk(2, dim=-1)
        return self.bound * torch.tanh(raw), shift

    def forward(self, x_bntd: Tensor, condition_bntd: Tensor) -> Tensor:
        """Scale and shift x by what the condition says."""
        return step(x_bntd, condition_bntd, self.bound, self.weights())

    def inverse(self, y_bntd: Tensor, condition_bntd: Tensor) -> Tensor:
        """Undo ``forward``."""
        return undo_scale_shift(y_bntd, *self.exponent_and_shift(condition_bntd))

    def forward_naive(self, x_bntd: Tensor, condition_bntd: Tensor) -> Tensor:
        """Do the same, one head after another."""
        raw, shift = super().forward_naive(condition_bntd).chunk(2, dim=-1)
        return scale_shift(x_bntd, self.bound * torch.tanh(raw), shift)

    def weights(self) -> Weights:
        """Return the parameters as the nodes take them."""
        return Weights(self.inner, self.inner_bias, self.outer, self.outer_bias)


def move_pair(
    q_bhtd: Tensor, k_bgtd: Tensor, key_step: HalfStep, query_step: HalfStep
) -> tuple[Tensor, Tensor]:
    """Take both half-steps in one node: keys by the mean of their queries, queries by those."""
    return pair(q_bhtd, k_bgtd, key_step.bound, key_step.weights(), query_step.weights())
