"""The demo's analysis; ten thousand finished runs: status, dry run, analysis; a million rows."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import make_results
import numpy as np
import pandas as pd
from section import Section, at_most

RUNS, ROWS, TRIES = 10_000, 1_000_000, 5
GIB = 2**30
FAMILY = """
[study]
name = "table"
question = "How large a table?"

[seeds]
values = [{seeds}]

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


def seconds_and_bytes(*arguments: str | Path, folder: Path) -> tuple[float, float, int]:
    """Run `cqk`; return wall time, processor time, and the largest set of all children so far."""
    begun, used = time.perf_counter(), _processor_seconds()
    command = ["cqk", *map(str, arguments)]
    code = f"import sys; sys.argv = {command!r}; from runner.cli import app; app()"
    ended = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=folder, stdout=subprocess.DEVNULL
    )
    assert ended.returncode in (0, 3), ended.returncode
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    return time.perf_counter() - begun, _processor_seconds() - used, peak


def _processor_seconds() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


def many_runs(section: Section, folder: Path) -> None:
    """Time what reads a plan and the records of many runs."""
    results = make_results.make(RUNS, folder)
    study = folder / "many.toml"
    commands = {
        f"`cqk status`, {RUNS:,} finished runs": (("status", results), 2.0),
        f"`cqk run --dry-run`, {RUNS:,} runs of 100 kinds": (("run", study, "--dry-run"), 5.0),
        f"`cqk analyze --no-figures`, {RUNS:,} finished runs, 90 comparisons": (
            ("analyze", results, "--no-figures", "--out", folder / "report"),
            20.0,
        ),
    }
    for what, (arguments, limit) in commands.items():
        time_command(section, what, *arguments, folder=folder, limit=limit)


def demo(section: Section, folder: Path) -> None:
    """Train the demo's six runs, then time their analysis."""
    seconds_and_bytes("run", "demo", folder=folder)
    analyze = ("analyze", folder / "results" / "demo")
    what = "`cqk analyze results/demo`, six runs, six figures in three formats"
    time_command(section, what, *analyze, folder=folder, limit=4.0)
    what = "`cqk analyze --no-figures results/demo`"
    time_command(section, what, *analyze, "--no-figures", folder=folder, limit=1.5)


def time_command(
    section: Section, what: str, *arguments: str | Path, folder: Path, limit: float
) -> None:
    """Take the best wall time of a few tries, since others may use the machine meanwhile."""
    tries = [seconds_and_bytes(*arguments, folder=folder)[:2] for _ in range(TRIES)]
    walls, processors = zip(*tries, strict=True)
    best, slowest, used = min(walls), max(walls), min(processors)
    shown = f"{best:.1f} s (best of {TRIES}, slowest {slowest:.1f} s; {used:.1f} s of processor)"
    section.add(at_most(what, best, limit, shown))


def million_rows(section: Section, folder: Path) -> None:
    """Time and weigh the analysis of a long table."""
    arms, seeds = ["a", "b", *map(str, range(98))], np.arange(1, 101)
    metrics = ["loss", *(f"loss on domain {number}" for number in range(49))]
    index = pd.MultiIndex.from_product(
        [arms, seeds, metrics, ["valid", "test"]], names=["arm", "seed", "metric", "split"]
    )
    assert len(index) == ROWS
    path = folder / "long.csv"
    drawn = np.random.default_rng(0).normal(3.0, 0.1, ROWS)
    pd.DataFrame({"value": drawn}, index=index).reset_index().to_csv(path, index=False)
    family = folder / "family.toml"
    family.write_text(FAMILY.format(seeds=", ".join(map(str, seeds))), encoding="utf-8")
    arguments = ("analyze", path, "--family", family, "--no-figures", "--out", folder / "long")
    seconds, _, peak = seconds_and_bytes(*arguments, folder=folder)
    what = f"`cqk analyze --no-figures` of a table of {ROWS:,} rows ({seconds:.1f} s), peak GiB"
    section.add(at_most(what, peak / GIB, 1.5))


if __name__ == "__main__":
    made = Section("Bookkeeping")
    with tempfile.TemporaryDirectory() as temporary:
        million_rows(made, Path(temporary))  # first: its peak is that of all children so far
        demo(made, Path(temporary))
        many_runs(made, Path(temporary))
    made.write()
