"""Differential attention without projections: scoring alone, against naive and plain scoring."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from section import Section, at_most

from runner import attention, coupling
from runner.attention.base import Shape
from runner.measure import interleave, peak_bytes
from runner.model import fill

HEADS, HEAD_DIM, TOKENS = 16, 64, 1024


@dataclass(frozen=True)
class Scoring:
    """Queries, keys and values through one method's rule, forward and backward."""

    method: str
    naive: bool = False

    def prepare(self) -> Callable[[], None]:
        """Build a layer for its rule and draw what it scores; return what runs it."""
        torch.manual_seed(0)
        method, none = attention.load(self.method), coupling.load("none")
        shape = Shape(width=1, heads=HEADS, head_dim=HEAD_DIM)
        layer = method(shape, method.Options(), lambda **heads: none(none.Options(), **heads))
        fill(layer, 0)
        rule = layer.score_naive if self.naive else layer.score
        qkv = [torch.randn(1, HEADS, TOKENS, HEAD_DIM, requires_grad=True) for _ in range(3)]

        def run() -> None:
            rule(*qkv, None).sum().backward()
            for tensor in qkv:
                tensor.grad = None

        return run


if __name__ == "__main__":
    torch.set_num_threads(1)
    fast = Scoring("differential")
    naive, plain = replace(fast, naive=True), Scoring("standard")
    made = Section("Differential attention: scoring alone, float32")
    what = f"scoring of `differential`, {HEADS} sub-heads of {HEAD_DIM}, {TOKENS:,} tokens, over"
    for name, other, limit in (("naive", naive, 0.5), ("plain", plain, 2.2)):
        calls = {"other": other.prepare(), "fast": fast.prepare()}
        time = interleave(calls, "other", rounds=11)["fast"]
        made.add(at_most(f"{what} {name} scoring, time", time.median, limit, str(time)))
    memory = peak_bytes(fast.prepare) / peak_bytes(naive.prepare)
    made.add(at_most(f"{what} naive scoring, peak memory", memory, 0.35))
    made.write()
