"""Run records: what a run leaves behind in ``results/<study>/runs/<run id>/``, written and read.

spec.json is frozen before the first step, attempts.jsonl gains a line when an attempt starts and
when it ends, metrics.jsonl grows in between, and result.json appears whole when the run is over.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

SCHEMA = 1
Record = TypeVar("Record", bound=BaseModel)
RunId = Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]


class Spec(BaseModel):
    """spec.json: all that decides a run's outcome, resolved, and which run of the plan it is."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: int = Field(default=SCHEMA, alias="schema")
    run_id: RunId
    study: str
    arm: str
    seed: int
    cell: dict[str, Any]
    settings: dict[str, Any]


class Result(BaseModel):
    """result.json: how a run that is over came out; ``timing`` alone differs between repetitions.

    ``metrics`` maps split -> metric -> value and is empty for a run that diverged.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: int = Field(default=SCHEMA, alias="schema")
    run_id: RunId
    study: str
    arm: str
    seed: int
    status: Literal["done", "diverged"]
    steps: int
    tokens: int
    params: int
    metrics: dict[str, dict[str, float]]
    data_fingerprint: str
    weights_sha256: str
    reason: str = ""
    timing: dict[str, float]


class PlanEntry(BaseModel):
    """One run of plan.json."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    run_id: RunId
    arm: str
    seed: int
    cell: dict[str, Any]


class Plan(BaseModel):
    """plan.json: the runs that count for a study; a folder of any other run is set aside."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: int = Field(default=SCHEMA, alias="schema")
    study: str
    runs: list[PlanEntry]


@dataclass(frozen=True)
class RunRecord:
    """One run's folder as read: its spec, its result if it is over, and its attempts so far."""

    folder: Path
    spec: Spec
    result: Result | None
    attempts: list[dict[str, Any]]

    @property
    def status(self) -> str:
        """Return done, diverged, failed, stopped or missing.

        Only result.json says that a run is over: where it was deleted, the run is missing again
        whatever its attempts say.
        """
        if self.result is not None:
            return self.result.status
        ends = [line["reason"] for line in self.attempts if line.get("event") == "end"]
        return str(ends[-1]) if ends and ends[-1] in ("failed", "stopped") else "missing"


def to_json(value: Any) -> str:
    """Return the JSON of a record; floats are written with the digits that read back equal."""
    return json.dumps(value, indent=1, sort_keys=True, allow_nan=False) + "\n"


def write_atomically(path: Path, text: str) -> None:
    """Write ``path`` whole or not at all: temporary file, fsync, rename, fsync of the folder."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    # Not mkstemp: its files are readable by their owner only, and results are shared in a group.
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make a rename inside ``folder`` survive a power failure."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_record(path: Path, model: type[Record], remedy: str) -> Record:
    """Read one JSON record; a broken one raises ``ValueError`` with the file and the remedy."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path}: is cut short or unreadable ({error}); {remedy}") from None
    version = record.get("schema") if isinstance(record, dict) else None
    if isinstance(version, int) and version > SCHEMA:
        raise ValueError(
            f"{path}: has schema {version} and this cqk reads up to {SCHEMA}; use a newer cqk"
        )
    try:
        return model.model_validate(record)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(map(str, fault["loc"]))
        raise ValueError(f"{path}: {where}: {fault['msg'].lower()}; {remedy}") from None


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the records of a JSON-lines file; a torn last line, left by a kill, is not a record."""
    if not path.exists():
        return
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    for number, line in enumerate(lines[:-1], start=1):
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            raise ValueError(
                f"{path}:{number}: is no JSON though lines follow it; the file was edited or the "
                "disk is damaged: restore it, or delete the run's folder and run it again"
            ) from None
        yield record


def read_run(folder: Path) -> RunRecord:
    """Read one run's folder.

    Raises:
        ValueError: A record is cut short, foreign, or disagrees with its neighbours.
    """
    again = "delete it and start `cqk run` again, which trains exactly the missing runs"
    spec = read_record(folder / "spec.json", Spec, f"delete the folder {folder} and run it again")
    path = folder / "result.json"
    result = read_record(path, Result, again) if path.exists() else None
    for run_id in {spec.run_id, result.run_id if result else spec.run_id}:
        if run_id != folder.name:
            raise ValueError(f"{folder}: holds records of run {run_id}; {again}")
    if result and (result.arm, result.seed, result.study) != (spec.arm, spec.seed, spec.study):
        raise ValueError(f"{path}: belongs to another arm, seed or study than spec.json; {again}")
    return RunRecord(folder, spec, result, list(read_lines(folder / "attempts.jsonl")))


def read_plan(results: Path) -> Plan | None:
    """Return the plan of ``results/<study>``, ``None`` where there is none."""
    path = results / "plan.json"
    remedy = "start `cqk run` again, which writes it anew"
    return read_record(path, Plan, remedy) if path.exists() else None


def read_runs(results: Path, study: str, archived: Path | None = None) -> list[RunRecord]:
    """Read the planned runs of ``results/<study>``, ordered by arm, seed and cell.

    ``archived`` is the folder of its runs where that is not runs/.

    Raises:
        ValueError: A record is broken, or belongs to another study.
    """
    plan = read_plan(results)
    planned = {entry.run_id for entry in plan.runs} if plan else None
    runs = archived or results / "runs"
    folders = [p for p in runs.iterdir() if (p / "spec.json").exists()]
    records = [read_run(f) for f in folders if planned is None or f.name in planned]
    for record in records:
        if record.spec.study != study:
            raise ValueError(
                f"{record.folder}: is a run of the study {record.spec.study!r} inside the results "
                f"of {study!r}; move it to the results of its own study"
            )
    return sorted(records, key=lambda r: (r.spec.arm, r.spec.seed, repr(r.spec.cell)))
