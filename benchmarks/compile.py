"""torch.compile on the runner's step: what it wins a step, and what it costs at the start."""

from __future__ import annotations

import time

import torch
from section import Figure, Section

from runner.measure import Step, interleave
from runner.model import build
from runner.presets import PRESETS

SHAPE = Step(sizes=PRESETS["micro"], vocab_size=256, batch=8, seq_len=256)


def compiled(section: Section, attention: str, coupling: str) -> None:
    """Time a loss with its gradients, as it is and compiled."""
    models = [
        build(SHAPE.sizes, vocab_size=256, attention=attention, coupling=coupling, seed=0)
        for _ in range(2)
    ]
    ids_bt = torch.randint(256, (SHAPE.batch, SHAPE.seq_len + 1))
    losses = {"eager": models[0].loss, "compiled": torch.compile(models[1].loss)}

    def run(name: str) -> None:
        losses[name](ids_bt[:, :-1], ids_bt[:, 1:]).backward()

    begun = time.perf_counter()
    run("compiled")
    first = time.perf_counter() - begun
    calls = {name: lambda name=name: run(name) for name in losses}
    ratio = interleave(calls, "eager", rounds=9)["compiled"]
    what = f"compiled over eager, loss and gradients, micro 8 x 256, {attention}, {coupling}"
    section.add(Figure(what, f"{ratio}; first call {first:.0f} s"))


if __name__ == "__main__":
    torch.set_num_threads(1)
    made = Section("torch.compile")
    for pair in ("none", "affine"):
        compiled(made, "standard", pair)
    made.write()
