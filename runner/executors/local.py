"""Runs on this machine: one process per run, as many at once as there are slots.

The processes are forked from a server that has imported torch already, which brings the start of a
run from seconds to a fraction of one. Nothing is shared: a killed process costs its own run only.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

REPORT_EVERY_STEPS = 5


@dataclass(frozen=True)
class Slots:
    """How many runs at once, and with how many threads each; their product is at most the cores."""

    jobs: int
    threads: int


@dataclass
class _Child:
    folder: Path
    process: Any
    reports: Connection
    ended: str | None = None


@dataclass(frozen=True)
class Event:
    """What a run reports: ``ended`` is empty while it trains, with the steps taken so far."""

    folder: Path
    step: int = 0
    steps: int = 0
    ended: str = ""
    detail: str = ""


def choose_slots(planned: int, jobs: int | None, threads: int | None) -> Slots:
    """Return the slots for a plan of that many runs on this machine's cores.

    Two single-threaded runs side by side beat one two-threaded run by about a third, and more
    threads than cores cost more than half, so runs come first and threads take what is left. All
    planned runs count, not the missing ones: a run made again later gets the same threads, on
    which its last bits depend.

    Raises:
        ValueError: ``jobs * threads`` is more than the cores that this process may use.
    """
    cores = len(os.sched_getaffinity(0))
    if jobs is not None and threads is not None and jobs * threads > cores:
        raise ValueError(
            f"--jobs {jobs} times --threads {threads} is more than the {cores} cores here; "
            "oversubscribed runs take more than twice as long: lower one of them"
        )
    if jobs is None:
        jobs = max(1, min(planned, cores // (threads or 1)))
    if threads is None:
        threads = max(1, cores // jobs)
    return Slots(jobs, threads)


def run_all(
    folders: Sequence[Path], slots: Slots, on_event: Callable[[Event], None]
) -> dict[Path, str]:
    """Execute every run and return how each ended; ``interrupted`` are those not started.

    The first SIGINT asks the running ones to stop with a checkpoint, a second one kills them.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["runner.worker"])
    waiting, running, ended = list(folders), [], {}
    with _Interrupts() as interrupts, _server_environment(slots.threads):
        while waiting or running:
            while waiting and len(running) < slots.jobs and not interrupts.count:
                running.append(_start(context, waiting.pop(0), slots.threads))
            if interrupts.count and waiting:
                ended.update(dict.fromkeys(waiting, "interrupted"))
                waiting.clear()
            interrupts.pass_on(running)
            for event in _events(running):
                on_event(event)
            for child in [c for c in running if c.ended is not None]:
                running.remove(child)
                ended[child.folder] = child.ended
    return ended


def _start(context: Any, folder: Path, threads: int) -> _Child:
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(folder, threads, sender), daemon=False)
    process.start()
    sender.close()
    return _Child(folder, process, receiver)


def _work(folder: Path, threads: int, reports: Connection) -> None:
    """Execute one run in the child; its reports go through the pipe, its outcome into files."""
    from ..folder import RunFolder
    from ..worker import StopSignal, execute

    # The terminal sends SIGINT to the whole group; only the parent decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    stop = StopSignal()

    def progress(step: int, steps: int) -> None:
        if step % REPORT_EVERY_STEPS == 0 or step == steps:
            try:
                reports.send((step, steps))
            except OSError:
                stop.received = True  # the parent is gone: nobody waits for this run

    ended = execute(RunFolder(folder), threads=threads, should_stop=stop, progress=progress)
    with suppress(OSError):
        reports.send(ended)


def _events(running: list[_Child]) -> Iterator[Event]:
    """Wait for reports or ends, a quarter of a second at most, and yield them."""
    by_source: dict[Any, _Child] = {}
    for child in running:
        by_source[child.reports] = by_source[child.process.sentinel] = child
    for source in wait(list(by_source), timeout=0.25):
        child = by_source[source]
        if source is child.reports:
            yield from _received(child)
        elif child.ended is None:
            yield from _received(child)
            yield from _buried(child)


def _received(child: _Child) -> Iterator[Event]:
    try:
        while child.ended is None and child.reports.poll():
            message = child.reports.recv()
            if isinstance(message, str):
                child.process.join()
                child.ended = message
                yield Event(child.folder, ended=message)
            else:
                yield Event(child.folder, *message)
    except (EOFError, OSError):
        child.process.join()
        yield from _buried(child)


def _buried(child: _Child) -> Iterator[Event]:
    """Report a process that ended without a word: killed, most often for memory."""
    if child.ended is None:
        code = child.process.exitcode
        if code == -signal.SIGTERM:  # asked to stop before it had begun
            child.ended = "stopped"
            yield Event(child.folder, ended="stopped")
            return
        child.ended = "killed"
        cause = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
        hint = " (out of memory?)" if code == -signal.SIGKILL else ""
        yield Event(child.folder, ended="killed", detail=f"{cause}{hint}")


class _Interrupts:
    """Counts SIGINT while runs are going, and passes it on once per count."""

    def __init__(self) -> None:
        self.count = 0
        self._passed = 0

    def __enter__(self) -> _Interrupts:
        self._before = signal.signal(signal.SIGINT, self._receive)
        return self

    def __exit__(self, *exc: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _receive(self, number: int, frame: object) -> None:
        self.count += 1

    def pass_on(self, running: list[_Child]) -> None:
        if self.count > self._passed:
            self._passed = self.count
            for child in running:
                child.process.terminate() if self.count == 1 else child.process.kill()


@contextmanager
def _server_environment(threads: int) -> Iterator[None]:
    """Start the fork server with its threads bounded, and deaf to modules in the current folder.

    Its socket lies in the system's own temporary folder: a path that TMPDIR makes longer than
    about a hundred bytes is none that a socket can have.
    """
    wanted = {"PYTHONSAFEPATH": "1", "TMPDIR": "/tmp"}
    for library in ("OMP", "MKL", "OPENBLAS"):
        wanted[f"{library}_NUM_THREADS"] = str(threads)
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    tempfile.tempdir = None
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        tempfile.tempdir = None
