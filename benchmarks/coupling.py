"""What the affine coupling costs: a training step, the attention block alone, and memory."""

from __future__ import annotations

from dataclasses import replace

from layers import Layer
from section import Section, at_most

from runner import device
from runner.measure import Step, interleave, peak_bytes
from runner.presets import find

VOCABULARY, BATCH, TOKENS = 50_257, 4, 512


def step(section: Section) -> None:
    """Measure a whole training step of the 60m model."""
    none = Step(sizes=find("60m"), vocab_size=VOCABULARY, batch=BATCH, seq_len=TOKENS)
    affine = replace(none, coupling="affine")
    calls = {"none": none.prepare(), "affine": affine.prepare()}
    time = interleave(calls, "none", rounds=15)["affine"]
    what = f"`affine` over `none`, 60m, vocabulary {VOCABULARY:,}, batch {BATCH} x {TOKENS}"
    section.add(at_most(f"{what}, step time", time.median, 1.03, str(time)))
    del calls
    memory = peak_bytes(affine.prepare) / peak_bytes(none.prepare)
    section.add(at_most(f"{what}, peak memory", memory, 1.05))


def block(section: Section) -> None:
    """Measure the attention layer alone."""
    none = Layer(method="standard", tokens=TOKENS, batch=BATCH)
    calls = {"none": none.prepare(), "affine": replace(none, coupling="affine").prepare()}
    time = interleave(calls, "none", rounds=25)["affine"]
    what = "`affine` over `none`, attention layer alone, forward and backward, time"
    section.add(at_most(what, time.median, 1.08, str(time)))


if __name__ == "__main__":
    device.prepare("cpu", threads=1, determinism="auto")  # as a run is set up
    made = Section("Coupling: `affine` over `none`, float32")
    block(made)
    step(made)
    made.write()
