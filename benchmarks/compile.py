"""`compile = true` in [train]: what it wins a step, and what it costs at the start."""

from __future__ import annotations

import time

import torch
from section import Figure, Section

from runner import device
from runner.compiled import CompiledLoss, report
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
    where = device.choose()
    models = [model.to(where) for model in models]
    ids_bt = torch.randint(256, (SHAPE.batch, SHAPE.seq_len + 1)).to(where)
    x_bt, y_bt = ids_bt[:, :-1].contiguous(), ids_bt[:, 1:].contiguous()
    losses = {"eager": models[0].loss, "compiled": CompiledLoss(models[1], where)}

    def run(name: str) -> None:
        losses[name](x_bt, y_bt).backward()

    begun = time.perf_counter()
    run("compiled")
    first = time.perf_counter() - begun
    calls = {name: lambda name=name: run(name) for name in losses}
    ratio = interleave(calls, "eager", rounds=9)["compiled"]
    what = f"compiled over eager, loss and gradients, micro 8 x 256, {attention}, {coupling}"
    said = f"{ratio}; first call {first:.0f} s; {report()['graphs']} graphs"
    section.add(Figure(what, said))


if __name__ == "__main__":
    torch.set_num_threads(1)
    made = Section("torch.compile")
    for pair in ("none", "affine"):
        compiled(made, "standard", pair)
    made.write()
