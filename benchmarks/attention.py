"""The fast form of multi-token attention against its naive form."""

from __future__ import annotations

from dataclasses import replace

import torch
from layers import Layer
from section import Figure, Section, at_most
from torch.nn import functional as F

from runner.measure import Ratio, interleave, peak_bytes

TOKENS = 1024
LONG = (2048, 4096, 8192)
MIB = 2**20
UNMIXED = {"mix_before": False, "mix_after": "none"}


def against_naive(fast: Layer, rounds: int) -> tuple[Ratio, float, int]:
    """Return time and memory of a fast form over its naive form, and the naive form's memory."""
    naive = replace(fast, naive=True)
    times = interleave({"naive": naive.prepare(), "fast": fast.prepare()}, "naive", rounds=rounds)
    memory = peak_bytes(naive.prepare)
    return times["fast"], peak_bytes(fast.prepare) / memory, memory


def multi_token(section: Section) -> None:
    """Measure both forms of multi-token attention, with and without mixing of heads."""
    for options, words in (({}, "heads mixed"), (UNMIXED, "heads unmixed")):
        fast = Layer(method="multi_token", tokens=TOKENS, options=options)
        time, memory, naive_bytes = against_naive(fast, rounds=5)
        what = f"`multi_token`, 6 x 11 before and after, {TOKENS:,} tokens, {words}: fast over"
        section.add(at_most(f"{what} naive, time", time.median, 0.5, str(time)))
        section.add(at_most(f"{what} naive, peak memory", memory, 0.6))
        for tokens in LONG:
            layer = replace(fast, tokens=tokens)
            seconds = _seconds(layer)
            grown = naive_bytes * (tokens / TOKENS) ** 2 / MIB
            section.add(
                Figure(
                    f"`multi_token`, {tokens:,} tokens, {words}",
                    f"{seconds:.1f} s, {peak_bytes(layer.prepare, calls=1) / MIB:,.0f} MiB; naive "
                    f"form {grown:,.0f} MiB if it grows with the square",
                )
            )


def _seconds(layer: Layer) -> float:
    run = layer.prepare()
    return interleave({"it": run}, "it", rounds=2)["it"].seconds


def stacked(section: Section) -> None:
    """Time the fused products that a form without maps cannot do without."""
    q, k, v = (torch.randn(1, 8, TOKENS, 6 * 64, requires_grad=True) for _ in range(3))
    cotangent = torch.randn_like(q)

    def products() -> None:
        F.scaled_dot_product_attention(q, k, v, is_causal=True).backward(cotangent)

    blocks = Layer(method="multi_token", tokens=TOKENS, options=UNMIXED).prepare()
    ratio = interleave({"blocks": blocks, "stacked": products}, "blocks", rounds=5)["stacked"]
    section.add(
        Figure(
            "the fused kernel on keys and values stacked to 6 x 64, alone, over the whole layer in "
            f"blocks of rows, {TOKENS:,} tokens, heads unmixed, time",
            str(ratio),
        )
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    made = Section("Multi-token attention: forward and backward of one layer, float32")
    stacked(made)
    multi_token(made)
    made.write()
