"""`cqk bench`: a training step of every attention under every coupling, as ratios."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace

from . import attention, coupling, device
from .measure import Ratio, Step, interleave, peak_bytes
from .presets import find
from .variants import unknown

HEADER = (
    f"{'attention':<16} {'coupling':<11} {'time/none':>9}  {'quartiles':<16} "
    f"{'time/standard':>13}  {'memory/none':>11}  {'memory/standard':>15}  {'tokens/s':>9}"
)


@dataclass(frozen=True)
class Row:
    """One attention under one coupling, against two references.

    ``none`` is the same attention without a coupling, ``standard`` plain attention without one.
    Memory is what a process grows by, at its peak, from before the model is built.
    """

    attention: str
    coupling: str
    time_over_none: Ratio
    time_over_standard: float
    memory_over_none: float
    memory_over_standard: float
    tokens_per_second: float

    def line(self) -> str:
        """Return the row as aligned text under ``HEADER``."""
        time = self.time_over_none
        return (
            f"{self.attention:<16} {self.coupling:<11} {time.median:>9.3f}  "
            f"{f'{time.low:.3f} to {time.high:.3f}':<16} {self.time_over_standard:>13.3f}  "
            f"{self.memory_over_none:>11.3f}  {self.memory_over_standard:>15.3f}  "
            f"{self.tokens_per_second:>9,.0f}"
        )


def step(preset: str, *, seq_len: int, batch: int, vocab_size: int) -> Step:
    """Return the step that every variant is measured on; an unknown preset raises ``ValueError``.

    >>> step("tiny", seq_len=8, batch=1, vocab_size=16).sizes.layers
    2
    """
    return Step(sizes=find(preset), vocab_size=vocab_size, batch=batch, seq_len=seq_len)


def rows(
    plain: Step,
    attentions: Sequence[str] | None = None,
    couplings: Sequence[str] | None = None,
    *,
    rounds: int = 5,
    threads: int = 1,
) -> Iterator[Row]:
    """Measure the named variants, all where none is named; yield rows as they are known.

    Raises:
        ValueError: There is no such variant, or a process ran out of memory.
    """
    for folder, named in ((attention, attentions), (coupling, couplings)):
        for name in named or ():
            if name not in folder.names():
                raise unknown(folder.__name__.rsplit(".", 1)[1], name, folder.names())
    device.prepare(device.choose(), threads, "auto")  # as a run is set up
    plain_memory = peak_bytes(plain.prepare)
    for name in attentions or attention.names():
        of_one = replace(plain, attention=name)
        yield from _rows_of(of_one, plain, plain_memory, couplings or coupling.names(), rounds)


def _rows_of(
    step: Step, plain: Step, plain_memory: int, couplings: Sequence[str], rounds: int
) -> Iterator[Row]:
    steps = {c: replace(step, coupling=c) for c in dict.fromkeys(("none", *couplings))}
    calls = {name: each.prepare() for name, each in steps.items()}
    against_none = interleave(calls, "none", rounds=rounds)
    pair = {"standard": plain.prepare(), "method": calls["none"]}
    against_plain = interleave(pair, "standard", rounds=rounds)["method"].median
    memory = {name: peak_bytes(each.prepare) for name, each in steps.items()}
    for name in couplings:
        yield Row(
            attention=step.attention,
            coupling=name,
            time_over_none=against_none[name],
            time_over_standard=against_plain * against_none[name].median,
            memory_over_none=memory[name] / memory["none"],
            memory_over_standard=memory[name] / plain_memory,
            tokens_per_second=step.batch * step.seq_len / against_none[name].seconds,
        )


def as_json(step: Step, rows: Sequence[Row]) -> str:
    """Return the one JSON document that `cqk bench --json` prints."""
    return json.dumps({"step": asdict(step), "bench": [asdict(row) for row in rows]}, indent=1)
