"""How time grows: a step with length and with size, an analysis with rows."""

from __future__ import annotations

import math
import statistics
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from layers import Layer
from section import Figure, Section

from analysis.compare import compare
from analysis.study import load_study
from analysis.table import load_runs
from runner.measure import Step, interleave
from runner.presets import PRESETS

LENGTHS = (512, 1024, 2048, 4096)
SIZES = ("tiny", "micro", "60m")
ROWS = (1_000, 10_000, 100_000, 1_000_000)
FAMILY = """
[study]
name = "rows"
question = "How does the time grow?"

[seeds]
start = 1
count = {seeds}

[[arms]]
name = "a"

[[arms]]
name = "b"

[family]
metric = "loss"

[[family.comparisons]]
name = "b against a"
treatment = "b"
baseline = "a"
"""


def exponent(times: Mapping[float, float]) -> float:
    """Return the slope of log time over log size.

    >>> round(exponent({1: 3.0, 2: 12.0, 4: 48.0}), 6)
    2.0
    """
    sizes, seconds = zip(*times.items(), strict=True)
    return statistics.linear_regression(
        [math.log(size) for size in sizes], [math.log(second) for second in seconds]
    ).slope


def figure(what: str, times: Mapping[float, float], why: str) -> Figure:
    """Return the exponent with the times it was fitted to."""
    listed = ", ".join(f"{size:,.0f}: {seconds:.3g} s" for size, seconds in times.items())
    return Figure(f"{what}: exponent", f"{exponent(times):.2f} ({listed})", why)


def lengths(section: Section) -> None:
    """Fit a layer's time against the number of tokens."""
    why = {
        "standard": "2 once scores outweigh projections, which grow with 1",
        "differential": "as standard",
        "multi_token": "2: kernels and mixtures act on every score",
        "linear": "1: a running sum",
    }
    for method, reason in why.items():
        times = {}
        for tokens in LENGTHS:
            run = Layer(method=method, tokens=tokens).prepare()
            times[tokens] = interleave({"it": run}, "it", rounds=2)["it"].seconds
        section.add(figure(f"time of one `{method}` layer against length", times, reason))


def sizes(section: Section) -> None:
    """Fit a step's time against the number of parameters."""
    shape = Step(sizes=PRESETS["tiny"], vocab_size=256, batch=4, seq_len=256)
    times = {}
    for name in SIZES:
        take = replace(shape, sizes=PRESETS[name]).prepare()
        times[_parameters(name)] = interleave({"it": take}, "it", rounds=3)["it"].seconds
    why = "1: operations are in proportion; less while scores and overheads weigh"
    section.add(figure("step time against parameters", times, why))


def _parameters(name: str) -> float:
    size = PRESETS[name]
    projections = 4 * size.width * size.heads * size.head_dim
    return float(size.layers * (projections + 3 * size.width * size.feed_forward))


def rows(section: Section) -> None:
    """Fit reading and comparing against rows."""
    reading, comparing = {}, {}
    with tempfile.TemporaryDirectory() as temporary:
        path, family = Path(temporary) / "long.csv", Path(temporary) / "family.toml"
        for count in ROWS:
            _write_table(path, count)
            family.write_text(FAMILY.format(seeds=count // 20), encoding="utf-8")
            begun = time.perf_counter()
            table = load_runs(path)
            reading[count] = time.perf_counter() - begun
            compare(table, load_study(family))
            comparing[count] = time.perf_counter() - begun - reading[count]
    section.add(figure("reading a table against rows", reading, "1"))
    section.add(figure("comparing two of its twenty arms against rows", comparing, "at most 1"))


def _write_table(path: Path, count: int) -> None:
    arms, seeds = ["a", "b", *map(str, range(18))], np.arange(1, count // 20 + 1)
    table = pd.DataFrame({"arm": np.repeat(arms, len(seeds)), "seed": np.tile(seeds, len(arms))})
    drawn = np.random.default_rng(0).normal(3.0, 0.1, len(table))
    table.assign(metric="loss", value=drawn).to_csv(path, index=False)


if __name__ == "__main__":
    torch.set_num_threads(1)
    made = Section("Growth")
    rows(made)
    sizes(made)
    lengths(made)
    made.write()
