"""How an attempt at a run ends, in the words that files, exit codes and summaries share.

No torch here: whoever starts runs and waits for them reads this file.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass

DONE, DIVERGED = "done", "diverged"
OVER = (DONE, DIVERGED)
STOPPED = "stopped"  # with a checkpoint
FAILED = "failed"
BUSY = "busy"  # another process holds the run
UNWRITABLE = "unwritable"  # the disk is full or closed: no run can go on
KILLED = "killed"
ELSEWHERE = "trained by another command"

EXIT_CODES = {DONE: 0, DIVERGED: 0, FAILED: 1, KILLED: 1, UNWRITABLE: 2, BUSY: 3, STOPPED: 75}


@dataclass(frozen=True)
class Ended:
    """How an attempt ended, and why in one line where that needs saying.

    ``advanced`` says of a stopped one whether it took a step or more.
    """

    status: str
    detail: str = ""
    advanced: bool = False


def failed(error: Exception) -> Ended:
    """Return the end that an error brought about, in one line.

    >>> failed(ValueError("no such text: give another"))
    Ended(status='failed', detail='ValueError: no such text: give another', advanced=False)
    """
    said = str(error).strip().splitlines()
    return Ended(FAILED, ": ".join([type(error).__name__, *said[:1]]))


def buried(exit_code: int | None) -> Ended:
    """Return the end of a process that died without a word.

    >>> buried(-9)
    Ended(status='killed', detail='killed by SIGKILL (out of memory?)', advanced=False)
    """
    if exit_code == -signal.SIGTERM:  # asked to stop before it could listen
        return Ended(STOPPED)
    if exit_code is not None and exit_code < 0:
        hint = " (out of memory?)" if exit_code == -signal.SIGKILL else ""
        return Ended(KILLED, f"killed by {signal.Signals(-exit_code).name}{hint}")
    return Ended(KILLED, f"the process ended with exit code {exit_code} and without a word")
