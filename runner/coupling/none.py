"""No coupling: the baseline of every comparison."""

from __future__ import annotations

import torch
from torch import Tensor

from .base import Coupling, Options


class NoCoupling(Coupling):
    """Returns queries and keys untouched."""

    summary = "queries and keys meet only in the dot product"
    source = "Attention Is All You Need, A. Vaswani et al., 2017, https://arxiv.org/abs/1706.03762"
    Options = Options
    changes_keys = False

    def forward(self, q_bhtd: Tensor, k_bgtd: Tensor) -> tuple[Tensor, Tensor]:
        """Return the arguments."""
        return q_bhtd, k_bgtd

    forward_naive = inverse = forward

    def with_log_det(self, q_bhtd: Tensor, k_bgtd: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the arguments and zeros."""
        return q_bhtd, k_bgtd, torch.zeros_like(k_bgtd[..., 0])

    def parameter_count(self) -> int:
        """Count none."""
        return 0

    def forward_flops(self, tokens: int) -> int:
        """Count none."""
        return 0
