"""The submissions of a study to Slurm: each an immutable folder with its task list and job id.

``submissions/<n>/`` holds tasks.txt (a run id per line; an array element reads the line of its own
index), array.sbatch, job.json and one log per element. A further submission gets a further folder,
so that the elements that still wait keep their meaning.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from analysis.records import SCHEMA, read_record, to_json, write_atomically

from ..writing import writing


class Job(BaseModel):
    """job.json: under which id Slurm knows a submission."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: int = Field(default=SCHEMA, alias="schema")
    job_id: int
    elements: int
    time: str


@dataclass(frozen=True)
class Submission:
    """One folder under ``submissions/``."""

    folder: Path

    @property
    def tasks_path(self) -> Path:
        """Return the task list's path."""
        return self.folder / "tasks.txt"

    @property
    def script_path(self) -> Path:
        """Return the array script's path."""
        return self.folder / "array.sbatch"

    @property
    def job_path(self) -> Path:
        """Return the path of the file that holds Slurm's job id."""
        return self.folder / "job.json"

    def run_ids(self) -> list[str]:
        """Return the run of every array element."""
        return self.tasks_path.read_text(encoding="utf-8").splitlines()

    def job(self) -> Job | None:
        """Return what Slurm answered, ``None`` for a submission that came to nothing."""
        if not self.job_path.exists():
            return None
        return read_record(self.job_path, Job, f"delete {self.folder}: `cqk run` submits anew")

    def record(self, job: Job) -> None:
        """Write down what Slurm answered."""
        with writing(self.job_path):
            write_atomically(self.job_path, to_json(job.model_dump(by_alias=True)))

    def withdraw(self) -> None:
        """Remove a submission that Slurm has not taken."""
        shutil.rmtree(self.folder, ignore_errors=True)


def next_submission(results: Path, run_ids: Sequence[str]) -> Submission:
    """Make the folder of a further submission, with its task list."""
    with writing(results / "submissions"):
        number = 1 + max((int(s.folder.name) for s in submissions(results)), default=0)
        submission = Submission(results / "submissions" / f"{number:04d}")
        submission.folder.mkdir(parents=True)
        write_atomically(submission.tasks_path, "".join(f"{run_id}\n" for run_id in run_ids))
    return submission


def submissions(results: Path) -> list[Submission]:
    """Return the submissions of a study, oldest first."""
    return [Submission(folder) for folder in sorted((results / "submissions").glob("[0-9]*"))]
