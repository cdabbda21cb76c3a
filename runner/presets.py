"""The named model sizes. No torch here: the planner reads this file.

The three sizes of the paper are inferred, not published: GPT-2's vocabulary, tied embedding,
rotary positions, head size 64 and a gated feed-forward of four times the width hit all three
names within 1.3 %.
"""

from __future__ import annotations

from dataclasses import dataclass

from .variants import unknown


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """The shape of a decoder-only transformer, without its vocabulary.

    >>> Sizes(layers=2, width=64, heads=4, head_dim=16, feed_forward=256).rope_base
    10000.0
    """

    layers: int
    width: int
    heads: int
    head_dim: int
    feed_forward: int
    rope_base: float = 10000.0

    def __post_init__(self) -> None:
        for name in ("layers", "width", "heads", "head_dim", "feed_forward", "rope_base"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")
        if self.head_dim % 2:
            raise ValueError(f"head_dim must be even for rotary pairs, got {self.head_dim}")


PRESETS: dict[str, Sizes] = {
    "tiny": Sizes(layers=2, width=64, heads=4, head_dim=16, feed_forward=256),
    "micro": Sizes(layers=4, width=128, heads=4, head_dim=32, feed_forward=512),
    "60m": Sizes(layers=8, width=512, heads=8, head_dim=64, feed_forward=2048),
    "150m": Sizes(layers=12, width=768, heads=12, head_dim=64, feed_forward=3072),
    "455m": Sizes(layers=24, width=1024, heads=16, head_dim=64, feed_forward=4096),
}


def find(name: str) -> Sizes:
    """Return the preset of that name; an unknown name raises ``ValueError``.

    >>> find("60m").width
    512
    """
    if name not in PRESETS:
        raise unknown("preset", name, PRESETS)
    return PRESETS[name]
