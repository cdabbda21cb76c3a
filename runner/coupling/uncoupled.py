"""The capacity-matched control: the affine coupling's networks, each reading its own vector."""

from __future__ import annotations

from torch import Tensor

from .affine import Affine
from .base import refuse_inverse


class Uncoupled(Affine):
    """Applies k <- k * exp(c tanh s(k)) + t(k) and q <- q * exp(c tanh s(q)) + t(q).

    As many parameters and operations as the affine coupling, but query and key never meet. A
    vector that sets its own scale cannot in general be recovered, so there is no inverse.
    """

    summary = "control: the affine networks without the exchange between query and key"
    source = (
        "Coupled Query-Key Dynamics for Attention (version 1 of Invertible Query-Key Coupling), "
        "B. Gahtan and A. M. Bronstein, 2026, https://arxiv.org/abs/2604.01683v1"
    )
    invertible = False

    def read_for_key(self, q_bhtd: Tensor, k_bgtd: Tensor) -> Tensor:
        """Return the key itself."""
        return k_bgtd

    def read_for_query(self, q_bhtd: Tensor, k_bgtd: Tensor) -> Tensor:
        """Return the query itself."""
        return q_bhtd

    def forward(self, q_bhtd: Tensor, k_bgtd: Tensor) -> tuple[Tensor, Tensor]:
        """Take every pair of half-steps, each on its own."""
        dtype = q_bhtd.dtype
        for key_step, query_step in self._pairs():
            q_bhtd, k_bgtd = query_step(q_bhtd, q_bhtd), key_step(k_bgtd, k_bgtd)
        return q_bhtd.to(dtype), k_bgtd.to(dtype)

    inverse = refuse_inverse
    with_log_det = refuse_inverse
