"""Runs on this machine: one process per run, as many at once as there are slots.

Nothing is shared: a killed process costs its own run only. A run that another command holds is
waited for, and taken over when that command dies.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from .. import forkserver
from ..attempt import BUSY, ELSEWHERE, UNWRITABLE, Ended, buried
from ..folder import RunFolder
from ..writing import CannotWrite
from .machine import Slots

REPORT_SECONDS = 0.25
ELSEWHERE_SECONDS = 1.0


@dataclass(frozen=True)
class Event:
    """What a run reports: that it started, how far it is (see workload.py), or how it ended."""

    folder: Path
    done: int = 0
    total: int = 0
    ended: Ended | None = None


OnEvent = Callable[[Event], None]


@dataclass
class _Child:
    folder: Path
    slot: int
    process: Any
    reports: Connection
    ended: Ended | None = None


@dataclass(frozen=True)
class Finished:
    """How the runs ended that were begun, and the signal that stopped the rest, if one did."""

    ended: dict[Path, Ended]
    stopped_by: int | None = None


def run_all(folders: Sequence[Path], slots: Slots, on_event: OnEvent) -> Finished:
    """Execute every run and say how each ended.

    The first SIGINT, or SIGTERM, asks the running ones to stop with a checkpoint; a second one
    kills them.

    Raises:
        CannotWrite: The results folder is full or closed; the other runs were stopped.
    """
    pool = _Pool(list(folders), slots, on_event)
    with StopRequests() as requests:
        pool.work(requests)
    for ended in pool.ended.values():
        if ended.status == UNWRITABLE:
            raise CannotWrite(ended.detail)
    return Finished(pool.ended, requests.last)


class StopRequests:
    """Counts SIGINT and SIGTERM for the length of a block; outside the main thread, none come."""

    def __init__(self) -> None:
        self.count = 0
        self.last: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopRequests:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _receive(self, number: int, frame: object) -> None:
        self.count += 1
        self.last = number


@dataclass
class _Pool:
    waiting: list[Path]
    slots: Slots
    on_event: OnEvent
    running: list[_Child] = field(default_factory=list)
    elsewhere: dict[Path, float] = field(default_factory=dict)
    ended: dict[Path, Ended] = field(default_factory=dict)
    asked: int = 0

    def work(self, requests: StopRequests) -> None:
        """Keep the slots filled until every run has ended, or a stop was asked for."""
        context = forkserver.context(self.slots.threads)
        while self.waiting or self.running or self.elsewhere:
            stopping = requests.count or any(
                ended.status == UNWRITABLE for ended in self.ended.values()
            )
            if stopping:
                self.waiting.clear()
                self.elsewhere.clear()
            while self.waiting and len(self.running) < self.slots.jobs:
                self._start(context, self.waiting.pop(0))
            self._ask_to_stop(max(requests.count, int(bool(stopping))))
            for event in self._events():
                self.on_event(event)
            self._look_elsewhere()

    def _start(self, context: Any, folder: Path) -> None:
        free = set(range(self.slots.jobs)) - {child.slot for child in self.running}
        slot = min(free)
        gpus = self.slots.gpus[slot] if self.slots.gpus else None
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(folder, self.slots.threads, gpus, sender))
        process.start()
        sender.close()
        self.running.append(_Child(folder, slot, process, receiver))
        self.on_event(Event(folder))

    def _ask_to_stop(self, times: int) -> None:
        if times > self.asked:
            for child in self.running:
                child.process.terminate() if times == 1 else child.process.kill()
            self.asked = times

    def _events(self) -> Iterator[Event]:
        """Wait for reports or ends, a quarter of a second at most, and yield them."""
        sources: dict[Any, _Child] = {}
        for child in self.running:
            sources[child.reports] = sources[child.process.sentinel] = child
        if not sources:
            time.sleep(REPORT_SECONDS)
        for source in wait(list(sources), timeout=REPORT_SECONDS):
            child = sources[source]
            if child.ended is None:
                yield from _received(child, gone=source is not child.reports)
        for child in [c for c in self.running if c.ended is not None]:
            self.running.remove(child)
            assert child.ended is not None
            yield from self._settle(child.folder, child.ended)

    def _settle(self, folder: Path, ended: Ended) -> Iterator[Event]:
        if ended.status == BUSY:
            self.elsewhere[folder] = time.monotonic()
        else:
            self.ended[folder] = ended
            yield Event(folder, ended=ended)

    def _look_elsewhere(self) -> None:
        """Follow the runs that another command holds: over, or free to be taken over."""
        now = time.monotonic()
        for path in [p for p, seen in self.elsewhere.items() if now - seen > ELSEWHERE_SECONDS]:
            folder = RunFolder(path)
            self.elsewhere[path] = now
            if folder.result_path.exists():
                del self.elsewhere[path]
                ended = Ended(folder.read_result().status, ELSEWHERE)
                self.ended[path] = ended
                self.on_event(Event(path, ended=ended))
            elif not folder.is_locked():
                del self.elsewhere[path]
                self.waiting.append(path)


def _received(child: _Child, *, gone: bool) -> Iterator[Event]:
    """Yield what a child has said; when it is gone without a last word, say so for it."""
    try:
        while child.ended is None and child.reports.poll():
            message = child.reports.recv()
            if isinstance(message, Ended):
                child.process.join()
                child.ended = message
            else:
                yield Event(child.folder, *message)
    except (EOFError, OSError):
        gone = True
    if gone and child.ended is None:
        child.process.join()
        child.ended = buried(child.process.exitcode)


def _work(folder: Path, threads: int, gpus: str | None, reports: Connection) -> None:
    """Execute one run in the child; its reports go through the pipe, its outcome into files."""
    from ..ranks import run
    from ..stopping import StopSignal

    if gpus is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpus
    stop = StopSignal()
    last = 0.0

    def progress(done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= REPORT_SECONDS or done == total:
            last = now
            try:
                reports.send((done, total))
            except OSError:
                stop.received = signal.SIGHUP  # the parent is gone: nobody waits for this run

    ended = run(RunFolder(folder), threads, stop, progress)
    with suppress(OSError):
        reports.send(ended)
