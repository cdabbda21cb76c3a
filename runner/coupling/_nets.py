"""One small network per head, all heads in two batched products."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..layers import Constant, Initial, Normal


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
