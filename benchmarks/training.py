"""The runner's training step against a plain loop, and many runs on few cores."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import baseline_loop
import numpy as np
import torch
from section import Figure, Section, at_least, at_most

from analysis.design import Train
from runner import allocator, device, forkserver
from runner.data import Tokens
from runner.distributed import Group
from runner.evaluate import split_loss
from runner.learner import Learner
from runner.measure import interleave
from runner.model import build
from runner.presets import PRESETS, Sizes
from runner.settings import ModelSettings, RunSettings, TextSettings, VariantSettings
from runner.sources import Text

SHAPES = {
    "micro, vocabulary 256, batch 8 x 256": (PRESETS["micro"], 256, 8, 256),
    "60m, vocabulary 50,257, batch 1 x 512": (PRESETS["60m"], 50_257, 1, 512),
}
SIDE_BY_SIDE = ("tiny", "micro")
SECONDS, TRIES, STARTS = 4.0, 9, 9
EVAL_BATCHES = (8, 32, 128)


def learner(sizes: Sizes, vocab_size: int, batch: int, seq_len: int) -> Learner:
    """Return a run's learner on random ids."""
    ids = random_ids(vocab_size)
    tokens = Tokens(ids, ids, ids, vocab_size, n_bytes={}, n_words=None, sha256="")
    settings = RunSettings(
        data=TextSettings(corpus="random", text_sha256="0" * 64, tokenizer="byte"),
        model=ModelSettings(**vars(sizes)),
        attention=VariantSettings(name="standard"),
        coupling=VariantSettings(name="none"),
        train=Train(seq_len=seq_len, batch=batch, tokens=1000 * batch * seq_len, lr=1e-3),
        seed=1,
    )
    return Learner(settings, Text(tokens), Group())


def random_ids(vocab_size: int) -> np.ndarray:
    """Return a text of a million random ids, as it lies in the cache."""
    dtype = "<u2" if vocab_size <= 2**16 else "<u4"
    return np.random.default_rng(0).integers(vocab_size, size=1_000_000).astype(dtype)


def against_baseline(section: Section) -> None:
    """Compare tokens per second with the plain loop's, and weigh the drawing of batches."""
    for words, (sizes, vocab_size, batch, seq_len) in SHAPES.items():
        ours = learner(sizes, vocab_size, batch, seq_len)
        plain = baseline_loop.loop(
            sizes, random_ids(vocab_size), vocab_size=vocab_size, batch=batch, seq_len=seq_len
        )
        calls: dict[str, Callable[[], Any]] = {"runner": ours.take_step, "plain": _freely(plain)}
        times = interleave(calls, "runner", rounds=9)["plain"]
        what = f"tokens per second of the runner over the plain loop, {words}"
        section.add(at_least(what, times.median, 1.0, str(times)))
        draw = {"step": ours.take_step, "batch": lambda ours=ours: list(ours._parts())}
        share = interleave(draw, "step", rounds=9)["batch"]
        shown = f"{share.median:.5f} ({share.low:.5f} to {share.high:.5f})"
        section.add(at_most(f"drawing a batch over a step, {words}", share.median, 0.01, shown))


def _freely(call: Callable[[], Any]) -> Callable[[], Any]:
    """Let a call take whatever algorithm is fastest, as a loop does that promises nothing."""

    def free() -> None:
        torch.use_deterministic_algorithms(False)
        call()
        torch.use_deterministic_algorithms(True)

    return free


def eval_batches(section: Section) -> None:
    """Compare the tokens per second of scoring a split by how many windows are scored at once."""
    window, most = 256, max(EVAL_BATCHES)
    ids = random_ids(256)[: most * window + 1]
    for name in ("tiny", "micro"):
        model = build(PRESETS[name], vocab_size=256, seed=0)
        calls = {
            str(batch): partial(split_loss, model, ids, window=window, batch=batch)
            for batch in EVAL_BATCHES
        }
        times = interleave(calls, "32", rounds=5)
        for batch in (b for b in EVAL_BATCHES if b != 32):
            ratio = times[str(batch)]
            shown = (
                f"{1 / ratio.median:.3f} ({1 / ratio.high:.3f} to {1 / ratio.low:.3f}); "
                f"{(len(ids) - 1) / ratio.seconds:,.0f} a second"
            )
            what = f"tokens per second of scoring at eval_batch {batch} over the default 32, {name}"
            section.add(Figure(f"{what}, windows of {window}", shown))


def side_by_side(section: Section) -> None:
    """Compare two single-threaded runs at once with one run on two threads."""
    what = "steps per second of two single-threaded runs at once over one two-threaded run"
    for preset in SIDE_BY_SIDE:
        ratios = [
            _steps(preset, processes=2, threads=1) / _steps(preset, processes=1, threads=2)
            for _ in range(TRIES)
        ]
        low, median, high = statistics.quantiles(ratios, n=4, method="inclusive")
        shown = f"{median:.3f} ({low:.3f} to {high:.3f}, {TRIES} tries)"
        section.add(at_least(f"{what}, {preset}", median, 1.25, shown))


def _steps(preset: str, *, processes: int, threads: int) -> int:
    """Return how many steps all processes take together in a fixed time."""
    context = forkserver.context(threads)
    barrier, results = context.Barrier(processes), context.Queue()
    children = [
        context.Process(target=_step_for_a_while, args=(preset, threads, barrier, results))
        for _ in range(processes)
    ]
    for child in children:
        child.start()
    total = sum(results.get() for _ in children)
    for child in children:
        child.join()
    return total


def _step_for_a_while(preset: str, threads: int, barrier: Any, results: Any) -> None:
    device.prepare("cpu", threads, "auto")
    mine = learner(PRESETS[preset], 256, 8, 128)
    mine.take_step()
    barrier.wait()
    end, steps = time.perf_counter() + SECONDS, 0
    while time.perf_counter() < end:
        mine.take_step()
        steps += 1
    results.put(steps)


def kept_memory(section: Section) -> None:
    """Compare a step in a process that keeps freed memory, as runs do, with one that does not."""
    context = forkserver.context(1)
    times, peaks = [], []
    for _ in range(TRIES):
        measured = {}
        for keeps in (True, False):
            receiver, sender = context.Pipe(duplex=False)
            child = context.Process(target=_step_alone, args=(keeps, sender))
            child.start()
            measured[keeps] = receiver.recv()
            child.join()
        (kept, kept_peak), (left, left_peak) = measured[True], measured[False]
        times.append(kept / left)
        peaks.append(kept_peak / left_peak)
    what = "a step that keeps freed memory over one that does not, micro, vocabulary 4,096"
    for quantity, ratios in (("time", times), ("peak memory", peaks)):
        low, median, high = statistics.quantiles(ratios, n=4, method="inclusive")
        shown = f"{median:.3f} ({low:.3f} to {high:.3f}, {TRIES} tries)"
        section.add(Figure(f"{what}, batch 16 x 128, {quantity}", shown))


def _step_alone(keeps: bool, sender: Any) -> None:
    if keeps:
        allocator.keep_freed_memory()
    mine, seconds = learner(PRESETS["micro"], 4096, 16, 128), []
    for _ in range(9):
        begun = time.perf_counter()
        mine.take_step()
        seconds.append(time.perf_counter() - begun)
    sender.send((statistics.median(seconds[1:]), device.peak_memory_bytes("cpu")))


def starts(section: Section) -> None:
    """Time the start of a run's process, as the runner starts it, up to a model that is ready."""
    context = forkserver.context(1)
    arrived, ready = [], []
    for _ in range(1 + STARTS):
        receiver, sender = context.Pipe(duplex=False)
        begun = time.time()
        child = context.Process(target=_arrive, args=(sender,))
        child.start()
        times = receiver.recv()
        arrived.append(times[0] - begun)
        ready.append(times[1] - begun)
        child.join()
    what = "start of a run after the first, seconds until"
    process, model = statistics.median(arrived[1:]), statistics.median(ready[1:])
    section.add(
        at_most(
            f"{what} its process runs", process, 0.2, f"{process:.3f} (first {arrived[0]:.2f})"
        ),
        Figure(f"{what} a tiny model with its optimiser is ready", f"{model:.3f}"),
    )


def _arrive(sender: Any) -> None:
    here = time.time()
    learner(PRESETS["tiny"], 256, 4, 32)
    sender.send((here, time.time()))


if __name__ == "__main__":
    torch.set_num_threads(1)
    made = Section("Training: the runner's step, and many runs on few cores, float32")
    starts(made)
    side_by_side(made)
    kept_memory(made)
    device.prepare("cpu", threads=1, determinism="auto")  # as a run is set up
    against_baseline(made)
    made.write()
    scored = Section("Scoring: windows at once, float32")
    eval_batches(scored)
    scored.write()
