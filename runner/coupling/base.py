"""The contract of a coupling, and the per-head networks that couplings are made of.

A coupling acts on one token's own query and key, before rotary and scoring. Shapes: q_bhtd is
(B, H, T, D) and k_bgtd is (B, G, T, D), G dividing H. With grouped keys the key's network reads the
mean of its group's queries, and every query of the group is acted on by the one key they
share; with one query per key that is the plain case.
"""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn

import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor, nn
from torch.nn import functional as F

from ..layers import Constant, Initial, Normal


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


class HeadNets(nn.Module):
    """One network per head, inputs -> hidden -> outputs with SiLU, as two batched products.

    The last layer starts at zero unless ``zero`` is off. Biases are stored flat, so that they
    count as vectors (no weight decay).
    """

    def __init__(
        self, nets: int, inputs: int, hidden: int, outputs: int, *, zero: bool = True
    ) -> None:
        super().__init__()
        self.inner = nn.Parameter(torch.empty(nets, inputs, hidden))
        self.inner_bias = nn.Parameter(torch.empty(nets * hidden))
        self.outer = nn.Parameter(torch.empty(nets, hidden, outputs))
        self.outer_bias = nn.Parameter(torch.empty(nets * outputs))
        self.initial: dict[str, Initial] = {
            "inner": Normal(inputs**-0.5),
            "inner_bias": Constant(0.0),
            "outer": Constant(0.0) if zero else Normal(hidden**-0.5),
            "outer_bias": Constant(0.0),
        }

    def forward(self, x_bntd: Tensor) -> Tensor:
        """Map (B, N, T, inputs) to (B, N, T, outputs), net n on row n."""
        nets, _, hidden = self.inner.shape
        inner = x_bntd @ self.inner + self.inner_bias.view(nets, 1, hidden)
        return F.silu(inner) @ self.outer + self.outer_bias.view(nets, 1, -1)

    def forward_naive(self, x_bntd: Tensor) -> Tensor:
        """Do the same, one net after another."""
        nets = len(self.inner)
        inner_bias, outer_bias = self.inner_bias.view(nets, -1), self.outer_bias.view(nets, -1)
        rows = []
        for n in range(nets):
            units = F.silu(x_bntd[:, n] @ self.inner[n] + inner_bias[n])
            rows.append(units @ self.outer[n] + outer_bias[n])
        return torch.stack(rows, dim=1)

    def parameter_count(self) -> int:
        """Count weights and biases of all nets."""
        nets, inputs, hidden = self.inner.shape
        outputs = self.outer.shape[-1]
        return nets * (inputs * hidden + hidden + hidden * outputs + outputs)

    def forward_flops(self, tokens: int) -> int:
        """Count the operations of both products for every net."""
        return 2 * tokens * (self.inner.numel() + self.outer.numel())


def scale_shift(x: Tensor, exponent: Tensor, shift: Tensor) -> Tensor:
    """Return x * exp(exponent) + shift; log|det| is the sum of the exponents."""
    return x * exponent.exp() + shift


def undo_scale_shift(y: Tensor, exponent: Tensor, shift: Tensor) -> Tensor:
    """Return what ``scale_shift`` was given; nothing is divided."""
    return (y - shift) * (-exponent).exp()


class HalfStep(HeadNets):
    """y = x * exp(c tanh s) + t with (s, t) from one network per head; c bounds the exponent.

    The bound is what keeps the inverse exact: a strong contraction loses bits. Inside, everything
    is float32 (or float64) whatever autocast says.
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
        return scale_shift(x_bntd, *self.exponent_and_shift(condition_bntd)).to(x_bntd.dtype)

    def inverse(self, y_bntd: Tensor, condition_bntd: Tensor) -> Tensor:
        """Undo ``forward``."""
        return undo_scale_shift(y_bntd, *self.exponent_and_shift(condition_bntd)).to(y_bntd.dtype)

    def forward_naive(self, x_bntd: Tensor, condition_bntd: Tensor) -> Tensor:
        """Do the same, one head after another."""
        raw, shift = super().forward_naive(condition_bntd).chunk(2, dim=-1)
        return x_bntd * torch.exp(self.bound * torch.tanh(raw)) + shift
