"""What Slurm's queue says of a study's runs: one question, and every answer it may get.

The truth about a run that is over is its result.json. The queue is asked about the others only, and
a run that it does not list is not queued, whatever became of its job: finished jobs leave the queue
after some minutes, and accounting is not there on every cluster.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from .submissions import submissions

RUNNING = frozenset({"RUNNING", "COMPLETING", "SIGNALING", "STAGE_OUT"})
QUEUED = frozenset(
    {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESIZING"}
    | {"RESV_DEL_HOLD", "SPECIAL_EXIT", "STOPPED", "SUSPENDED"}
)
ANSWER_SECONDS = 30


class QueueIsSilent(ValueError):
    """Slurm gave no answer, so it is not known what is queued."""


def queued_runs(results: Path) -> dict[str, tuple[str, str]]:
    """Return run id -> ("queued" or "running", Slurm's reason) of all runs in the queue.

    Raises:
        QueueIsSilent: squeue is not there, fails, or does not answer in time.
    """
    jobs: dict[int, list[str]] = {}
    for submission in submissions(results):
        run_ids, job = submission.run_ids(), submission.job()
        if job is not None and not all(_is_over(results, run_id) for run_id in run_ids):
            jobs[job.job_id] = run_ids
    found: dict[str, tuple[str, str]] = {}
    for line in _squeue(list(jobs)) if jobs else ():
        job_id, index, state, reason = (part.strip() for part in line.split("|", 3))
        if state in RUNNING | QUEUED and int(job_id) in jobs and index.isdigit():
            run_id = jobs[int(job_id)][int(index)]
            said = "running" if state in RUNNING else "queued"
            found[run_id] = (said, "" if reason == "None" else reason)
    return found


def _is_over(results: Path, run_id: str) -> bool:
    return (results / "runs" / run_id / "result.json").exists()


def _squeue(job_ids: list[int]) -> list[str]:
    listed = ",".join(map(str, job_ids))
    command = ["squeue", "--noheader", "--array", f"--jobs={listed}", "--format=%F|%K|%T|%r"]
    try:
        asked = subprocess.run(
            command, capture_output=True, text=True, timeout=ANSWER_SECONDS, check=False
        )
    except FileNotFoundError:
        raise QueueIsSilent("there is no squeue on this machine") from None
    except subprocess.TimeoutExpired:
        raise QueueIsSilent(f"squeue did not answer within {ANSWER_SECONDS} s") from None
    if asked.returncode:
        # Slurm has forgotten the one job that was asked about: it is not queued.
        if "Invalid job id" in asked.stderr:
            return []
        raise QueueIsSilent(f"squeue failed: {asked.stderr.strip() or asked.returncode}")
    return asked.stdout.splitlines()
