"""Runs on a cluster: one Slurm job array per submission, driven by sbatch and nothing in between.

Whether a run is over is in its folder, whether it is queued in Slurm's queue; nothing else is kept,
so `cqk run` at any later time submits exactly what is missing.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..folder import timestamp
from ..profiles import Profile
from .submissions import Job, Submission, next_submission

ANSWER_SECONDS = 120
DEFAULT_MAX_ARRAY_SIZE = 1001
OURS = ("array", "output", "requeue", "no-requeue", "signal", "open-mode", "nodes")


def submit(
    results: Path, study: str, run_ids: Sequence[str], profile: Profile, devices: int = 1
) -> list[Job]:
    """Submit ``run_ids`` as one array, or as several where one would be too large.

    Raises:
        ValueError: Slurm refuses, or the profile cannot serve the study; what it says is passed on.
    """
    jobs = []
    for chunk in chunks(run_ids, max_array_size()):
        submission = next_submission(results, chunk)
        try:
            script = array_script(submission, study, len(chunk), profile, devices)
            submission.script_path.write_text(script, encoding="utf-8")
            _slurm("sbatch", "--test-only", str(submission.script_path))
            answer = _slurm("sbatch", "--parsable", str(submission.script_path))
        except BaseException:
            submission.withdraw()
            raise
        job = Job(job_id=int(answer.split(";")[0]), elements=len(chunk), time=timestamp())
        submission.record(job)
        jobs.append(job)
    return jobs


def chunks(run_ids: Sequence[str], largest: int) -> Iterator[Sequence[str]]:
    """Cut runs into arrays that stay below Slurm's MaxArraySize, which bounds the index.

    >>> [len(chunk) for chunk in chunks(["run"] * 2500, 1001)]
    [1000, 1000, 500]
    """
    size = max(1, largest - 1)
    for first in range(0, len(run_ids), size):
        yield run_ids[first : first + size]


def max_array_size() -> int:
    """Return the cluster's MaxArraySize."""
    found = re.search(r"^MaxArraySize\s*=\s*(\d+)", _slurm("scontrol", "show", "config"), re.M)
    return int(found[1]) if found else DEFAULT_MAX_ARRAY_SIZE


def array_script(
    submission: Submission, study: str, elements: int, profile: Profile, devices: int = 1
) -> str:
    """Return the script of an array: the profile's options and lines, then the worker.

    The worker replaces the shell (exec), so that Slurm's signals reach it.

    Raises:
        ValueError: The profile cannot serve the study.
    """
    threads = _threads(profile, devices)
    worker = [sys.executable, "-P", "-m", "runner.worker"]
    worker += ["--tasks", str(submission.tasks_path.resolve()), "--threads", str(threads)]
    libraries = " ".join(f"{library}_NUM_THREADS={threads}" for library in ("OMP", "MKL"))
    lines = [
        "#!/bin/bash",
        *(f"#SBATCH --{option}" for option in _options(submission, study, elements, profile)),
        *profile.setup,
        f"export {libraries}",
        f'exec {shlex.join(worker)} --index "$SLURM_ARRAY_TASK_ID"',
    ]
    return "\n".join(lines) + "\n"


def _threads(profile: Profile, devices: int) -> int:
    if profile.gpus_per_run not in (0, devices):
        raise ValueError(
            f"a run of this study trains on {devices} device(s) and the profile gives it "
            f"gpus_per_run = {profile.gpus_per_run}; make them equal, or 0 to train on processors"
        )
    if profile.cpus_per_run < devices:
        raise ValueError(
            f"a run of this study trains on {devices} devices and the profile gives it "
            f"cpus_per_run = {profile.cpus_per_run}; every device needs one"
        )
    return profile.cpus_per_run // devices


def _options(submission: Submission, study: str, elements: int, profile: Profile) -> Iterator[str]:
    at_once = f"%{profile.max_parallel}" if profile.max_parallel else ""
    yield f"job-name=cqk-{study}"
    yield f"array=0-{elements - 1}{at_once}"
    yield "requeue"
    yield "open-mode=append"
    yield f"signal=B:USR1@{profile.signal_s}"
    yield "nodes=1"
    yield f"cpus-per-task={profile.cpus_per_run}"
    if profile.gpus_per_run:
        yield f"gpus-per-node={profile.gpus_per_run}"
    for name in ("mem", "time", "partition"):
        if (value := getattr(profile, name)) is not None:
            yield f"{name}={_quoted(value)}"
    # A percent sign of the folder's own is doubled: Slurm's patterns begin with one.
    folder = str(submission.folder.resolve()).replace("%", "%%")
    yield f"output={_quoted(f'{folder}/%A_%a.log')}"
    for name, value in profile.extra.items():
        if name in OURS:
            raise ValueError(f"the profile's extra option {name!r} is set by cqk itself: remove it")
        if value is not False:
            yield name if value is True else f"{name}={_quoted(value)}"


def _quoted(value: str | int) -> str:
    text = str(value)
    if re.search(r"[\"'\\\n]", text):
        raise ValueError(f"{text!r}: sbatch takes no quotes, backslashes or line ends here")
    return f'"{text}"' if re.search(r"\s", text) else text


def _slurm(*command: str) -> str:
    """Return what one of Slurm's commands prints."""
    try:
        ran = subprocess.run(
            command, capture_output=True, text=True, timeout=ANSWER_SECONDS, check=False
        )
    except FileNotFoundError:
        raise ValueError(
            f"there is no {command[0]} on this machine: submit from a node that has Slurm, or use "
            "--executor local"
        ) from None
    except subprocess.TimeoutExpired:
        raise ValueError(
            f"{command[0]} did not answer within {ANSWER_SECONDS} s; see `cqk status` before you "
            "start `cqk run` again"
        ) from None
    if ran.returncode:
        raise ValueError(f"{command[0]} refused: {ran.stderr.strip() or ran.returncode}")
    return ran.stdout.strip()
