"""Differential attention against its naive form and plain attention: scoring alone, and a layer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from layers import Layer
from section import Figure, Section, at_most

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


Part = Scoring | Layer


def measure(section: Section, what: str, fast: Part, plain: Part) -> None:
    """Take a part's time and memory over its naive form's, and its time over plain attention's."""
    naive = replace(fast, naive=True)
    what = f"{what} of `differential`, {HEADS} sub-heads of {HEAD_DIM}, {TOKENS:,} tokens, over"
    calls = {"naive": naive.prepare(), "fast": fast.prepare(), "plain": plain.prepare()}
    over_naive = interleave(calls, "naive", rounds=9)
    over_plain = interleave(calls, "plain", rounds=9)["fast"]
    time, floor = over_naive["fast"], over_naive["plain"]
    section.add(at_most(f"{what} naive, time", time.median, 0.5, str(time)))
    section.add(at_most(f"{what} plain attention, time", over_plain.median, 2.2, str(over_plain)))
    most, least, used = (peak_bytes(part.prepare) for part in (naive, plain, fast))
    section.add(at_most(f"{what} naive, peak memory", used / most, 0.35))
    same = f"the same {what.split()[0]} of plain attention over that naive form"
    section.add(
        Figure(f"{same}, time", str(floor)), Figure(f"{same}, peak memory", f"{least / most:.3f}")
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    made = Section("Differential attention: scoring alone and the layer, float32")
    measure(made, "scoring", Scoring("differential"), Scoring("standard"))
    layer = Layer(method="differential", tokens=TOKENS, heads=HEADS, head_dim=HEAD_DIM)
    measure(made, "layer", layer, replace(layer, method="standard"))
    made.write()
