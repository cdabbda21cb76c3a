"""A decoder-only transformer that takes an attention and a coupling and knows neither by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from . import attention as attentions
from . import coupling as couplings
from .attention.base import Attention, Cache, Shape
from .cross_entropy import mean_nats, nats_per_row
from .layers import Initial, Linear, Normal, RMSNorm, Rotary, wide
from .presets import Sizes
from .streams import fold


class FeedForward(nn.Module):
    """Gated SiLU: W_out (silu(W_gate x) * W_in x).

    Source: "GLU Variants Improve Transformer", N. Shazeer, 2020, https://arxiv.org/abs/2002.05202.
    """

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gate = Linear(width, hidden)
        self.input = Linear(width, hidden)
        self.output = Linear(hidden, width, zero=True)

    def forward(self, x_bte: Tensor) -> Tensor:
        """Map (B, T, E) to (B, T, E)."""
        return self.output(F.silu(self.gate(x_bte)) * self.input(x_bte))


class Embedding(nn.Module):
    """One row per token, used on the way in and, tied, on the way out."""

    def __init__(self, vocab_size: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab_size, width))
        self.initial: dict[str, Initial] = {"weight": Normal(width**-0.5)}

    def forward(self, x_bt: Tensor) -> Tensor:
        """Look tokens up: (B, T) to (B, T, E)."""
        return F.embedding(x_bt, self.weight)


class Block(nn.Module):
    """Attention and feed-forward, each after a norm and added to the residual stream."""

    def __init__(self, sizes: Sizes, attention: Attention) -> None:
        super().__init__()
        self.attention_norm = RMSNorm(sizes.width)
        self.attention = attention
        self.feed_forward_norm = RMSNorm(sizes.width)
        self.feed_forward = FeedForward(sizes.width, sizes.feed_forward)

    def forward(
        self, x_bte: Tensor, rotary: Rotary, cache: Cache | None, documents_bt: Tensor | None
    ) -> Tensor:
        """Map (B, T, E) to (B, T, E)."""
        x_bte = x_bte + self.attention(
            self.attention_norm(x_bte), rotary, cache=cache, documents_bt=documents_bt
        )
        return x_bte + self.feed_forward(self.feed_forward_norm(x_bte))


class Transformer(nn.Module):
    """Embedding, blocks, norm, and the embedding again."""

    def __init__(
        self,
        sizes: Sizes,
        vocab_size: int,
        make_attention: Callable[[Shape], Attention],
        *,
        checkpoint_blocks: bool = False,
    ) -> None:
        super().__init__()
        self.sizes, self.checkpoint_blocks = sizes, checkpoint_blocks
        self.rotary = Rotary(sizes.rope_base)
        self.embedding = Embedding(vocab_size, sizes.width)
        self.blocks = nn.ModuleList(
            Block(sizes, make_attention(_shape(sizes, layer))) for layer in range(sizes.layers)
        )
        self.norm = RMSNorm(sizes.width)

    def forward(
        self,
        x_bt: Tensor,
        *,
        caches: list[Cache] | None = None,
        documents_bt: Tensor | None = None,
    ) -> Tensor:
        """Return logits (B, T, vocabulary), at least in float32; caches come from ``caches``."""
        return wide(F.linear(self.states(x_bt, caches, documents_bt), self.embedding.weight))

    def loss(self, x_bt: Tensor, y_bt: Tensor, *, documents_bt: Tensor | None = None) -> Tensor:
        """Return the mean nats over the targets that are not negative."""
        states = self.states(x_bt, None, documents_bt).flatten(0, 1)
        return mean_nats(states, self.embedding.weight, y_bt.flatten())

    @torch.no_grad()
    def token_nats(
        self, x_bt: Tensor, y_bt: Tensor, *, documents_bt: Tensor | None = None
    ) -> Tensor:
        """Return the nats of every target (B, T), 0 where the target is negative."""
        states = self.states(x_bt, None, documents_bt).flatten(0, 1)
        return nats_per_row(states, self.embedding.weight, y_bt.flatten()).view_as(y_bt)

    def states(
        self, x_bt: Tensor, caches: list[Cache] | None, documents_bt: Tensor | None
    ) -> Tensor:
        """Return what the last norm gives, (B, T, E)."""
        x_bte = self.embedding(x_bt)
        for layer, block in enumerate(self.blocks):
            extra = (self.rotary, caches[layer] if caches else None, documents_bt)
            if self.checkpoint_blocks and torch.is_grad_enabled():
                x_bte = checkpoint(block, x_bte, *extra, use_reentrant=False)
            else:
                x_bte = block(x_bte, *extra)
        return self.norm(x_bte)

    def caches(self) -> list[Cache]:
        """Return one empty cache per layer, for decoding token by token."""
        return [Cache() for _ in self.blocks]

    def parameter_count(self) -> int:
        """Count the parameters; the tied embedding counts once."""
        return sum(parameter.numel() for parameter in self.parameters())

    def forward_flops(self, tokens: int) -> int:
        """Count the operations of the matrix products on one sequence; a multiply-add is two."""
        feed_forward = 3 * self.sizes.width * self.sizes.feed_forward
        dense = len(self.blocks) * feed_forward + self.embedding.weight.numel()
        attention = sum(block.attention.forward_flops(tokens) for block in self.blocks)
        return 2 * tokens * dense + attention

    def parameter_groups(self) -> dict[str, list[tuple[str, nn.Parameter]]]:
        """Split the parameters by how an optimizer should treat them.

        ``decay`` holds matrices, the embedding too; ``no_decay`` vectors; ``slow`` what its module
        declares to learn at a tenth of the rate, without decay.
        """
        groups: dict[str, list] = {"decay": [], "no_decay": [], "slow": []}
        for module, name, full_name, parameter in _owned(self):
            slow = name in getattr(module, "slow", ())
            group = "slow" if slow else "decay" if parameter.ndim >= 2 else "no_decay"
            groups[group].append((full_name, parameter))
        return groups

    def query_key_weights(self) -> set[nn.Parameter]:
        """Return the weights of the projections that make queries and keys, in every layer."""
        return {
            parameter
            for block in self.blocks
            for name, module in block.attention.named_children()
            if name in block.attention.query_key
            for parameter in module.parameters()
        }


def build(
    sizes: Sizes,
    *,
    vocab_size: int,
    attention: str = "standard",
    attention_options: Mapping[str, Any] | None = None,
    coupling: str = "none",
    coupling_options: Mapping[str, Any] | None = None,
    seed: int | None = None,
    device: str | torch.device | None = None,
    checkpoint_blocks: bool = False,
) -> Transformer:
    """Build a model from names and plain settings, and fill it when a seed is given.

    Each parameter draws from its own stream, named after the parameter, so that two models of one
    seed share the start of every parameter whose name they share. Without a seed nothing is
    filled: use ``device="meta"`` to count, or load weights. An unknown name, an unknown setting or
    one out of range raises ``ValueError``.

    >>> from runner.presets import PRESETS
    >>> build(PRESETS["60m"], vocab_size=50257, device="meta").parameter_count()
    59294720
    """
    attention_class, coupling_class = attentions.load(attention), couplings.load(coupling)
    attention_settings = attention_class.Options(**(attention_options or {}))
    coupling_settings = coupling_class.Options(**(coupling_options or {}))

    def make_coupling(**heads: int) -> nn.Module:
        return coupling_class(coupling_settings, **heads)

    def make_attention(shape: Shape) -> Attention:
        return attention_class(shape, attention_settings, make_coupling)

    with torch.device(device or "cpu"):
        model = Transformer(sizes, vocab_size, make_attention, checkpoint_blocks=checkpoint_blocks)
    if seed is not None:
        fill(model, seed)
    return model


@torch.no_grad()
def fill(model: nn.Module, seed: int) -> None:
    """Give every parameter the start its module declares, from its own stream of the seed."""
    for module, name, full_name, parameter in _owned(model):
        generator = torch.Generator().manual_seed(fold(seed, "init", full_name))
        module.initial[name].fill(parameter, generator)


def _owned(model: nn.Module) -> list[tuple[nn.Module, str, str, nn.Parameter]]:
    """Return (owner, name in the owner, name in the model, parameter) of every parameter."""
    return [
        (module, name, f"{prefix}.{name}" if prefix else name, parameter)
        for prefix, module in model.named_modules()
        for name, parameter in module.named_parameters(recurse=False)
    ]


def _shape(sizes: Sizes, layer: int) -> Shape:
    return Shape(
        width=sizes.width,
        heads=sizes.heads,
        head_dim=sizes.head_dim,
        layer=layer,
        layers=sizes.layers,
    )
