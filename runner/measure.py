"""Speed and memory as ratios: what is compared is timed in turn, in one process.

A figure in seconds says little on a machine that others use too. Two calls timed one right after
the other meet the same load, so their ratio holds; its spread over rounds says how well.
"""

from __future__ import annotations

import multiprocessing
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from . import device
from .model import build
from .optim import build_optimizer
from .presets import Sizes
from .settings import Train

RESET_PEAK = "5"  # written to clear_refs, it sets the peak of the resident set to what it is now


@dataclass(frozen=True)
class Ratio:
    """Time of a call over the reference's: median and quartiles of the rounds' ratios.

    ``seconds`` is the call's own median.
    """

    median: float
    low: float
    high: float
    seconds: float
    rounds: int

    def __str__(self) -> str:
        return f"{self.median:.3f} ({self.low:.3f} to {self.high:.3f})"


def interleave(
    calls: Mapping[str, Callable[[], Any]], reference: str, *, rounds: int = 9
) -> dict[str, Ratio]:
    """Time every call once a round, after one that is not timed, and return ratios by name.

    >>> fast, slow = lambda: sum(range(10)), lambda: sum(range(100_000))
    >>> interleave({"fast": fast, "slow": slow}, "fast", rounds=3)["slow"].median > 1
    True
    """
    names = list(calls)
    for call in calls.values():
        call()
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        first = number % len(names)  # nobody is always the one that finds the cache cold
        for name in names[first:] + names[:first]:
            begun = _now()
            calls[name]()
            seconds[name].append(_now() - begun)
    return {name: _ratio(seconds[name], seconds[reference]) for name in names}


def _now() -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def _ratio(seconds: Sequence[float], reference: Sequence[float]) -> Ratio:
    ratios = [one / other for one, other in zip(seconds, reference, strict=True)]
    low, median, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return Ratio(median, low, high, statistics.median(seconds), len(ratios))


@dataclass(frozen=True, kw_only=True)
class Step:
    """One training step of a model on one batch of random tokens; a plain value, so it travels."""

    sizes: Sizes
    vocab_size: int
    batch: int
    seq_len: int
    attention: str = "standard"
    coupling: str = "none"
    precision: str = "float32"

    def prepare(self) -> Callable[[], float]:
        """Build model, optimiser and batch; return what takes a step and returns the loss."""
        where = device.choose()
        schedule = Train(
            seq_len=self.seq_len, batch=self.batch, tokens=self.batch * self.seq_len, lr=1e-4
        )
        model = build(
            self.sizes,
            vocab_size=self.vocab_size,
            attention=self.attention,
            coupling=self.coupling,
            seed=0,
        ).to(where)
        optimizer = build_optimizer(model, schedule)
        ids_bt = torch.randint(self.vocab_size, (self.batch, self.seq_len + 1)).to(where)

        def take() -> float:
            with device.autocast(where, self.precision):
                loss = model.loss(ids_bt[:, :-1], ids_bt[:, 1:])
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), schedule.clip_norm)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            return loss.item()

        return take


def peak_bytes(prepare: Callable[[], Callable[[], Any]], *, calls: int = 2) -> int:
    """Return by how much memory grows, at its peak, in a process that prepares and calls.

    What ``prepare`` builds counts too. On a GPU it is the memory of the GPU. ``prepare`` must be
    picklable.

    Raises:
        ValueError: The process died, as it does when memory runs out.
    """
    forking = multiprocessing.get_context("forkserver")
    forking.set_forkserver_preload(["runner.measure"])
    receiver, sender = forking.Pipe(duplex=False)
    child = forking.Process(
        target=_report_peak, args=(prepare, calls, torch.get_num_threads(), sender)
    )
    child.start()
    sender.close()
    try:
        return int(receiver.recv())
    except EOFError:
        child.join()
        raise ValueError(
            f"the measuring process died (exit code {child.exitcode}): take a smaller size"
        ) from None
    finally:
        child.join()


def _report_peak(
    prepare: Callable[[], Callable[[], Any]], calls: int, threads: int, sender: Any
) -> None:
    torch.set_num_threads(threads)
    before = _resident_bytes("VmRSS")
    Path("/proc/self/clear_refs").write_text(RESET_PEAK, encoding="ascii")
    call = prepare()
    for _ in range(calls):
        call()
    if torch.cuda.is_available():
        sender.send(torch.cuda.max_memory_allocated())
    else:
        sender.send(_resident_bytes("VmHWM") - before)


def _resident_bytes(field: str) -> int:
    """Return VmRSS (now) or VmHWM (peak) of this process; Linux only."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{field}:"):
            return 1024 * int(line.split()[1])
    raise ValueError("memory is measured through /proc/self/status, which Linux has")
