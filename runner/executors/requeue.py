"""An array element's request to be put back into Slurm's queue."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress


def requeue_this_element() -> None:
    """Ask Slurm to start this array element again; without Slurm, nothing happens.

    SLURM_JOB_ID will not do: the last element's job id is the array's own, and to requeue that is
    to requeue every element. Where computing nodes have no ``scontrol``, the next `cqk run`
    submits the run again.
    """
    array, index = (os.environ.get(f"SLURM_ARRAY_{name}") for name in ("JOB_ID", "TASK_ID"))
    if array and index:
        with suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(["scontrol", "requeue", f"{array}_{index}"], timeout=60, check=False)
