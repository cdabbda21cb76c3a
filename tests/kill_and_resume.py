"""Executes runs in forked processes that kill themselves at a chosen place, and then resumes them.

Not a test: test_resume.py starts it once and feeds it cases, one JSON object a line, so that torch
is imported once. A case is {"folder": run folder, "kill": [place, count]}; the answer to each is
how the first process died and how the second one ended.
"""

import json
import os
import signal
import sys
from pathlib import Path

import torch._dynamo  # noqa: F401  (else every process imports it with its first optimiser)

from runner import checkpoint, execute, folder, metrics
from runner.learner import Learner


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def at_call(owner, name, count, *, before=False, instead=None):
    """Kill this process at the ``count``-th call of a function, before or after it."""
    real, calls = getattr(owner, name), [0]

    def counting(*arguments, **options):
        calls[0] += 1
        if calls[0] == count and instead:
            instead(*arguments)
        if calls[0] == count and (before or instead):
            die()
        result = real(*arguments, **options)
        if calls[0] == count:
            die()
        return result

    setattr(owner, name, counting)


def half_a_line(log, *arguments):
    log._file.write(b'{"step": 3, "tok')


PLACES = {
    "after step": lambda n: at_call(Learner, "take_step", n),
    "after a line of the curve": lambda n: at_call(metrics.MetricsLog, "write", n),
    "within a line of the curve": lambda n: at_call(
        metrics.MetricsLog, "write", n, instead=half_a_line
    ),
    "before a checkpoint's rename": lambda n: at_call(checkpoint.os, "rename", n, before=True),
    "after a checkpoint's rename": lambda n: at_call(checkpoint.os, "rename", n),
    "within a checkpoint": lambda n: at_call(checkpoint, "save_file", n),
    "before the result": lambda n: at_call(folder.os, "link", n, before=True),
    "after the result": lambda n: at_call(folder.os, "link", n),
    "between checkpoint and end": lambda n: at_call(
        execute.RunFolder, "end_attempt", n, before=True
    ),
    "nowhere": lambda n: None,
}


def forked(path, place=None):
    """Execute the run in a child; return its wait status, or how the run ended."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        if place:
            PLACES[place[0]](place[1])
        ended = execute.execute(folder.RunFolder(Path(path)))
        os.write(writer, f"{ended.status} {ended.detail}".encode())
        os._exit(0)
    os.close(writer)
    _, status = os.waitpid(child, 0)
    with os.fdopen(reader) as said:
        return os.waitstatus_to_exitcode(status), said.read().strip()


if __name__ == "__main__":
    for line in sys.stdin:
        case = json.loads(line)
        answer = [forked(case["folder"], case["kill"]), forked(case["folder"])]
        print(json.dumps(answer), flush=True)
