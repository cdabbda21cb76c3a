"""One run as a process of its own: by hand, as an element of a job array, or under torchrun.

Its exit code says how the attempt ended: 0 the run is over, 1 it failed, 2 nothing can be written
there, 3 another process holds it, 75 it stopped with a checkpoint.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from pathlib import Path

from .attempt import BUSY, EXIT_CODES, FAILED, STOPPED, Ended
from .executors.requeue import requeue_this_element
from .folder import RunFolder
from .stopping import StopSignal

# A dead machine's locks on a network disk are freed after one or two minutes.
BUSY_SECONDS = 180


def main(arguments: list[str] | None = None) -> int:
    """Execute the run that the arguments name."""
    parser = argparse.ArgumentParser(prog="runner.worker", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", help="results/<study>/runs/<run id>")
    parser.add_argument("--tasks", type=Path, help="results/<study>/submissions/<n>/tasks.txt")
    parser.add_argument("--index", type=int, help="line of that file, counted from 0")
    parser.add_argument("--threads", type=int, default=1)
    parsed = parser.parse_args(arguments)
    if (parsed.folder is None) == (parsed.tasks is None or parsed.index is None):
        parser.error("give either a run's folder, or both --tasks and --index")
    folder = RunFolder(parsed.folder or task(parsed.tasks, parsed.index))
    stop = StopSignal(*(signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP, signal.SIGINT))
    ended = _execute(folder, parsed.threads, stop)
    if ended.detail:
        print(f"run {folder.path.name} {ended.status}: {ended.detail}", file=sys.stderr)
    return EXIT_CODES[ended.status]


def task(tasks: Path, index: int) -> Path:
    """Return the run's folder that stands on a line of a submission's task list."""
    run_id = tasks.read_text(encoding="utf-8").splitlines()[index]
    return tasks.resolve().parents[2] / "runs" / run_id


def _execute(folder: RunFolder, threads: int, stop: StopSignal) -> Ended:
    from . import ranks  # torch takes seconds to import, and a signal in them must be heard

    if "LOCAL_RANK" in os.environ and "WORLD_SIZE" in os.environ:
        return ranks.run_rank_of_torchrun(folder, threads, stop)
    ended = ranks.run(folder, threads, stop)
    patience = time.monotonic() + BUSY_SECONDS
    while ended.status == BUSY and not stop() and time.monotonic() < patience:
        time.sleep(1)
        ended = ranks.run(folder, threads, stop)
    # USR1 is the announcement that the time limit is near; any other stop is somebody's wish.
    if ended.status == STOPPED and stop.received == signal.SIGUSR1:
        return _requeued(ended)
    return ended


def _requeued(ended: Ended) -> Ended:
    if not ended.advanced:
        return Ended(FAILED, "the time limit is too short for a single step: raise the profile's")
    requeue_this_element()
    return ended


if __name__ == "__main__":
    sys.exit(main())
