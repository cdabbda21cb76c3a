"""The first version's dynamics with the key moved by the query that has just moved."""

from __future__ import annotations

import torch
from torch import Tensor

from ._nets import HeadNets
from .euler import Euler


class Symplectic(Euler):
    """Takes q <- q + dt k, then k <- k + dt f(q) with the new q: two shears.

    Each shear is undone by subtracting it, and neither changes volume, so log|det| is 0.
    """

    summary = "version 1: symplectic Euler steps of q' = k, k' = f(q), learned dt"
    invertible = True

    def _step(self, q_bhtd: Tensor, k_bgtd: Tensor, force: HeadNets) -> tuple[Tensor, Tensor]:
        q_bhtd = self._move_query(q_bhtd, k_bgtd)
        return q_bhtd, k_bgtd + self._dt_g11() * force(self.mean_query(q_bhtd))

    def inverse(self, q_bhtd: Tensor, k_bgtd: Tensor) -> tuple[Tensor, Tensor]:
        """Subtract the shears in the opposite order."""
        for _ in range(self.options.steps):
            k_bgtd = k_bgtd - self._dt_g11() * self.force(self.mean_query(q_bhtd))
            q_bhtd = self._move_query(q_bhtd, k_bgtd, sign=-1)
        return q_bhtd, k_bgtd

    def with_log_det(self, q_bhtd: Tensor, k_bgtd: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the map and zeros."""
        return *self(q_bhtd, k_bgtd), torch.zeros_like(k_bgtd[..., 0])
