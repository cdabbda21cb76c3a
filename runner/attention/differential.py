"""Differential attention, first version: the difference of two softmax maps per head."""

from __future__ import annotations

import math
from typing import Literal

import torch
from pydantic import PositiveInt
from torch import Tensor, nn

from ..layers import Initial, Normal, RMSNorm
from ._difference import Given, difference
from ._heads import HeadAttention
from ._scoring import attend, masked_softmax, scores, spread, visible
from .base import MakeCoupling, Options, Shape


class DifferentialOptions(Options):
    """Settings of differential attention; a differential head is two of the model's heads."""

    kv_heads: PositiveInt | None = None
    """Differential key/value heads; as many as differential query heads when not given."""
    grouping: Literal["flash", "naive"] = "flash"
    """Which keys a grouped head's two maps read; the official files disagree. flash: map m of
    head h reads key 2 (h // r) + m. naive: sub-head j reads key j // r, so that for even r both
    maps read the same key."""


class Differential(HeadAttention):
    """(softmax(q1 k1) - lambda softmax(q2 k2)) v, then a norm per head that all heads share.

    Sub-heads 2h and 2h + 1 are the two maps of head h, whose value is twice as wide. lambda is one
    number per layer, exp(a1 b1) - exp(a2 b2) + lambda_init, where lambda_init grows with depth.
    """

    summary = "difference of two softmax maps per head, lambda learned, head norm"
    source = "Differential Transformer, T. Ye et al., 2024, https://arxiv.org/abs/2410.05258"
    Options = DifferentialOptions
    examples = ({}, {"kv_heads": 1}, {"kv_heads": 1, "grouping": "naive"})
    slow = frozenset({"lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2"})

    def __init__(
        self, shape: Shape, options: DifferentialOptions, make_coupling: MakeCoupling
    ) -> None:
        if shape.heads % 2:
            raise ValueError(
                f"differential attention pairs its heads: heads must be even, got {shape.heads}"
            )
        pairs = shape.heads // 2
        kv_pairs = options.kv_heads or pairs
        if pairs % kv_pairs:
            raise ValueError(f"kv_heads must divide the {pairs} differential heads, got {kv_pairs}")
        super().__init__(shape, make_coupling, kv_heads=2 * kv_pairs)
        # Under `flash`, queries are kept in the order (pair of keys, map, head of the group), so
        # that those which share a key are neighbours, as scoring and coupling expect.
        self.maps_inside = options.grouping == "flash"
        self.group = pairs // kv_pairs
        self.lambda_init = 0.8 - 0.6 * math.exp(-0.3 * shape.layer)
        self.initial: dict[str, Initial] = {}
        for name in sorted(self.slow):
            setattr(self, name, nn.Parameter(torch.empty(shape.head_dim)))
            self.initial[name] = Normal(0.1)
        self.head_norm = RMSNorm(2 * shape.head_dim, eps=1e-5)

    def project(self, x_bte: Tensor) -> tuple[Tensor, Tensor]:
        """Return queries, neighbours sharing a key, and keys."""
        q_bhtd, k_bgtd = super().project(x_bte)
        if self.maps_inside and self.group > 1:
            q_bhtd = q_bhtd.unflatten(1, (-1, self.group, 2)).transpose(2, 3).flatten(1, 3)
        return q_bhtd, k_bgtd

    def score(
        self, q_bhtd: Tensor, k_bgtd: Tensor, v_bgtd: Tensor, documents_bt: Tensor | None
    ) -> Tensor:
        """Weigh the values with differences of maps, by blocks of rows on a CPU.

        Elsewhere every sub-head attends by the fused kernel, and outputs are subtracted: twice the
        products, at many times the rate.
        """
        if q_bhtd.device.type == "cpu":
            pairs_2p = torch.cat(self._pairs(torch.arange(self.heads)[None]))
            own = (documents_bt, self.lambda_now(), pairs_2p)
            return difference(Given(q_bhtd, k_bgtd, v_bgtd, *own))
        v_bgtv = self._wide_values(v_bgtd).repeat_interleave(2, dim=1)
        o_bhtv = attend(q_bhtd, k_bgtd, v_bgtv, documents_bt=documents_bt)
        return self._subtract(o_bhtv, self.lambda_now())

    def score_naive(
        self, q_bhtd: Tensor, k_bgtd: Tensor, v_bgtd: Tensor, documents_bt: Tensor | None
    ) -> Tensor:
        """Subtract maps, then weigh the values."""
        seen = visible(q_bhtd.shape[-2], k_bgtd.shape[-2], q_bhtd.device, documents_bt)
        maps = masked_softmax(scores(q_bhtd, k_bgtd), seen)
        v_bgtv = self._wide_values(v_bgtd)
        return self._subtract(maps, self.lambda_now()) @ spread(v_bgtv, self.heads // 2)

    def finish(self, o_bhtv: Tensor, x_bte: Tensor) -> Tensor:
        """Normalise each head, scale by the fixed 1 - lambda_init, join, project."""
        return super().finish(self.head_norm(o_bhtv).mul_(1.0 - self.lambda_init), x_bte)

    def lambda_now(self) -> Tensor:
        """Return lambda as it stands; it may exceed 1 or be negative."""
        first = torch.exp((self.lambda_q1 * self.lambda_k1).sum())
        second = torch.exp((self.lambda_q2 * self.lambda_k2).sum())
        return first - second + self.lambda_init

    def extra_parameter_count(self) -> int:
        """Count four lambda vectors and the head norm."""
        return 6 * self.shape.head_dim

    def _wide_values(self, v_bgtd: Tensor) -> Tensor:
        """Join neighbouring value heads: (B, G, T, D) to (B, G/2, T, 2D)."""
        return v_bgtd.unflatten(1, (-1, 2)).transpose(2, 3).flatten(3)

    def _subtract(self, of_maps: Tensor, lambda_now: Tensor) -> Tensor:
        """Return first - lambda second along the head axis, heads in their original order."""
        first, second = self._pairs(of_maps)
        return first - lambda_now.to(first.dtype) * second

    def _pairs(self, of_maps: Tensor) -> tuple[Tensor, Tensor]:
        """Cut the head axis, the second one, into first and second maps of the heads."""
        if self.maps_inside:
            first, second = of_maps.unflatten(1, (-1, 2, self.group)).unbind(2)
            return first.flatten(1, 2), second.flatten(1, 2)
        return of_maps[:, 0::2], of_maps[:, 1::2]
