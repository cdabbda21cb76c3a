"""A plain training loop with as little around it as there can be, to compare the runner's with.

Decoder-only transformer of the runner's sizes, written with the library's parts: fused attention,
F.cross_entropy on all logits, AdamW, clipping. Batches are random crops of an array of ids.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from runner.presets import Sizes


class Block(nn.Module):
    """Attention and gated feed-forward."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.heads, inner = sizes.heads, sizes.heads * sizes.head_dim
        self.first_norm, self.second_norm = (nn.RMSNorm(sizes.width) for _ in range(2))
        self.qkv = nn.Linear(sizes.width, 3 * inner, bias=False)
        self.merge = nn.Linear(inner, sizes.width, bias=False)
        self.gate_and_input = nn.Linear(sizes.width, 2 * sizes.feed_forward, bias=False)
        self.output = nn.Linear(sizes.feed_forward, sizes.width, bias=False)

    def forward(self, x_bte: Tensor, cos_td: Tensor, sin_td: Tensor) -> Tensor:
        """Map (B, T, E) to (B, T, E)."""
        heads = self.qkv(self.first_norm(x_bte)).unflatten(-1, (3, self.heads, -1))
        q, k, v = (part.squeeze(2).transpose(1, 2) for part in heads.split(1, dim=2))
        q, k = rotate(q, cos_td, sin_td), rotate(k, cos_td, sin_td)
        o_bhtd = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x_bte = x_bte + self.merge(o_bhtd.transpose(1, 2).flatten(2))
        gate, value = self.gate_and_input(self.second_norm(x_bte)).chunk(2, dim=-1)
        return x_bte + self.output(F.silu(gate) * value)


def rotate(x_bhtd: Tensor, cos_td: Tensor, sin_td: Tensor) -> Tensor:
    """Apply rotary positions, halves as pairs."""
    first, second = x_bhtd.chunk(2, dim=-1)
    return x_bhtd * cos_td + torch.cat((-second, first), dim=-1) * sin_td


class Model(nn.Module):
    """Embedding, blocks, norm, tied head."""

    def __init__(self, sizes: Sizes, vocab_size: int, seq_len: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, sizes.width)
        # As is usual. The library's own start saturates the softmax through the tied head, and
        # gradients too small for normal numbers then slow an Intel processor down tenfold.
        nn.init.normal_(self.embedding.weight, std=0.02)
        self.blocks = nn.ModuleList(Block(sizes) for _ in range(sizes.layers))
        self.norm = nn.RMSNorm(sizes.width)
        rates = sizes.rope_base ** -(torch.arange(0, sizes.head_dim, 2) / sizes.head_dim)
        angle = torch.outer(torch.arange(seq_len), rates).repeat(1, 2)
        self.register_buffer("cos_td", angle.cos())
        self.register_buffer("sin_td", angle.sin())

    def forward(self, x_bt: Tensor, y_bt: Tensor) -> Tensor:
        """Return the mean nats."""
        x_bte = self.embedding(x_bt)
        for block in self.blocks:
            x_bte = block(x_bte, self.cos_td, self.sin_td)
        logits = F.linear(self.norm(x_bte), self.embedding.weight)
        return F.cross_entropy(logits.flatten(0, 1), y_bt.flatten())


def loop(
    sizes: Sizes, ids: np.ndarray, *, vocab_size: int, batch: int, seq_len: int
) -> Callable[[], Tensor]:
    """Return what takes the next step of the loop."""
    torch.manual_seed(0)
    model = Model(sizes, vocab_size, seq_len)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), fused=True)

    def step() -> Tensor:
        starts = torch.randint(len(ids) - seq_len - 1, (batch,)).tolist()
        rows = np.stack([ids[start : start + seq_len + 1] for start in starts]).astype(np.int64)
        x, y = torch.from_numpy(rows[:, :-1]), torch.from_numpy(rows[:, 1:])
        loss = model(x, y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return step
