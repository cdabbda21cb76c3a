"""Starts a run in one process, or in as many ranks as its settings give it devices."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any

from . import device, forkserver
from .attempt import DONE, EXIT_CODES, Ended, buried, failed
from .distributed import joined
from .execute import execute, follow
from .folder import RunFolder
from .stopping import StopSignal
from .train import Progress

POLL_SECONDS = 0.25


def run(
    folder: RunFolder,
    threads: int,
    should_stop: Callable[[], bool],
    progress: Progress = lambda done, total: None,
) -> Ended:
    """Bring a run to its end on the devices that its settings ask for; return how it ended.

    Nothing is raised: a folder that cannot even be read is a run that failed.
    """
    try:
        ranks = folder.settings().train.devices
        if ranks == 1 or folder.result_path.exists():
            return execute(folder, threads=threads, should_stop=should_stop, progress=progress)
        return _supervise(folder, ranks, threads, should_stop, progress)
    except Exception as error:
        return failed(error)


def run_rank_of_torchrun(folder: RunFolder, threads: int, should_stop: Callable[[], bool]) -> Ended:
    """Be the rank that torchrun's environment says this process is."""
    rank, size, local = (int(os.environ[n]) for n in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    with joined(rank, size, device.choose(local)) as group:
        if group.leads:
            return execute(folder, threads=threads, should_stop=should_stop, group=group)
        follow(folder, threads, group)
    return Ended(DONE)  # what became of the run is the first rank's to say


def _supervise(
    folder: RunFolder,
    ranks: int,
    threads: int,
    should_stop: Callable[[], bool],
    progress: Progress,
) -> Ended:
    """Start the ranks and wait; one that fails takes the others along, which wait for it."""
    context = forkserver.context(threads)
    receiver, sender = context.Pipe(duplex=False)
    with tempfile.TemporaryDirectory(prefix="cqk-ranks-") as meeting:
        started: list[Any] = []
        try:
            for rank in range(ranks):
                reports = sender if rank == 0 else None
                of_rank = (rank, ranks, f"file://{meeting}/store", reports, folder, threads)
                started.append(context.Process(target=_rank, args=of_rank))
                started[-1].start()
            sender.close()
            return _until_over(started, receiver, should_stop, progress)
        finally:
            for process in started:
                process.kill()
                process.join()


def _until_over(
    started: list[Any],
    reports: Connection,
    should_stop: Callable[[], bool],
    progress: Progress,
) -> Ended:
    asked = False
    while True:
        if should_stop() and not asked:
            asked = True
            started[0].terminate()
        alive = [process.sentinel for process in started if process.is_alive()]
        wait([reports, *alive], timeout=POLL_SECONDS)
        dead = [process for process in started if process.exitcode]
        try:
            while reports.poll():
                message = reports.recv()
                if isinstance(message, Ended):
                    return message
                progress(*message)
        except EOFError:
            dead = dead or started[:1]
        if dead:
            dead[0].join()
            return buried(dead[0].exitcode)


def _rank(
    rank: int,
    size: int,
    meeting: str,
    reports: Connection | None,
    folder: RunFolder,
    threads: int,
) -> None:
    """Be one rank, in a process of its own; the first one reports and listens to signals."""
    with joined(rank, size, device.choose(rank), meeting) as group:
        if reports is None:
            for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)  # it stops when the first rank says so
            follow(folder, threads, group)
            return

        stop = StopSignal()

        def progress(done: int, total: int) -> None:
            try:
                reports.send((done, total))
            except OSError:
                stop.received = signal.SIGHUP  # whoever started the ranks is gone

        ended = execute(folder, threads=threads, should_stop=stop, progress=progress, group=group)
        with suppress(OSError):
            reports.send(ended)
    sys.exit(EXIT_CODES[ended.status])
