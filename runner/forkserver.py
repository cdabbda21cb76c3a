"""A process that has imported torch once and forks another for every run.

That brings the start of a run from seconds to a fraction of one. The server itself computes
nothing and touches no GPU, so its children start as clean as fresh processes.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.context
import multiprocessing.forkserver
import os
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager

# The first optimiser of a process imports torch._dynamo, which takes as long as torch itself, and
# every child reads its parent's script again, which is the command line.
PRELOADED = ["runner.ranks", "torch._dynamo", "runner.cli"]
LONGEST_SOCKET_FOLDER = 70  # a socket's path holds 107 bytes, and multiprocessing adds 32


def context(threads: int) -> multiprocessing.context.ForkServerContext:
    """Return the context whose processes fork from the server, which is started if need be."""
    forking = multiprocessing.get_context("forkserver")
    forking.set_forkserver_preload(PRELOADED)
    with _server_environment(threads), _deaf_to_interrupts(), _short_temporary_folder():
        multiprocessing.forkserver.ensure_running()
    return forking


@contextmanager
def _server_environment(threads: int) -> Iterator[None]:
    """Give the server bounded threads, and no ear for modules in the current folder."""
    wanted = {"PYTHONSAFEPATH": "1"}
    for library in ("OMP", "MKL", "OPENBLAS"):
        wanted[f"{library}_NUM_THREADS"] = str(threads)
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Start the server with SIGINT ignored, which its children inherit.

    The terminal sends SIGINT to every process of the command; only the parent decides what it
    means, and a child must not die of it before it can say so itself.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _short_temporary_folder() -> Iterator[None]:
    """Put the server's socket under /tmp where TMPDIR is too long for a socket's path.

    Only this process's idea of the folder changes, and only for the length of the block.
    """
    before = tempfile.tempdir
    if len(os.fsencode(tempfile.gettempdir())) > LONGEST_SOCKET_FOLDER:
        tempfile.tempdir = "/tmp"
    try:
        yield
    finally:
        tempfile.tempdir = before
