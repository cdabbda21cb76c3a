"""The folder of one run: every path, and every way its files are written."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.records import Result, Spec, read_lines, read_record, to_json, write_atomically

from .checkpoint import Checkpoints


class RunIsBusy(Exception):
    """Another process holds the lock of this run."""


@dataclass(frozen=True)
class RunFolder:
    """``results/<study>/runs/<run id>``; only the holder of its lock writes into it."""

    path: Path

    @property
    def spec_path(self) -> Path:
        """Return the frozen settings' path."""
        return self.path / "spec.json"

    @property
    def result_path(self) -> Path:
        """Return the path whose existence says that the run is over."""
        return self.path / "result.json"

    @property
    def metrics_path(self) -> Path:
        """Return the curve's path."""
        return self.path / "metrics.jsonl"

    @property
    def attempts_path(self) -> Path:
        """Return the path of the attempts' log."""
        return self.path / "attempts.jsonl"

    @property
    def checkpoints(self) -> Checkpoints:
        """Return the run's checkpoints."""
        return Checkpoints(self.path / "checkpoint")

    def create(self, spec: Spec) -> None:
        """Freeze ``spec``; a folder that exists keeps its own, which must be the same.

        Raises:
            ValueError: The folder holds the spec of another run.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        text = to_json(spec.model_dump(by_alias=True))
        if not self.spec_path.exists():
            write_atomically(self.spec_path, text)
        elif self.read_spec().settings != spec.settings:
            raise ValueError(
                f"{self.spec_path}: disagrees with the settings its folder is named after; "
                f"delete {self.path} and run it again"
            )

    def read_spec(self) -> Spec:
        """Return the frozen spec."""
        return read_record(self.spec_path, Spec, f"delete {self.path} and run it again")

    def read_result(self) -> Result:
        """Return the result of a run that is over."""
        again = "delete it and start `cqk run` again, which trains exactly the missing runs"
        return read_record(self.result_path, Result, again)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the run for this process; the kernel frees it when the process dies.

        Raises:
            RunIsBusy: Another process holds it.
        """
        with open(self.path / ".lock", "w", encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RunIsBusy(self.path.name) from None
            yield

    def start_attempt(self, environment: dict[str, Any]) -> int:
        """Log the start of an attempt and return its 1-based number."""
        lines = list(read_lines(self.attempts_path))
        number = 1 + sum(line["event"] == "start" for line in lines)
        self._log({"event": "start", "attempt": number, "time": timestamp(), **environment})
        return number

    def end_attempt(self, number: int, reason: str, **details: Any) -> None:
        """Log why an attempt ended: done, diverged, stopped or failed."""
        self._log(
            {"event": "end", "attempt": number, "time": timestamp(), "reason": reason, **details}
        )

    def _log(self, line: dict[str, Any]) -> None:
        cut_torn_tail(self.attempts_path)
        with open(self.attempts_path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line, allow_nan=False) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def publish(self, result: Result) -> None:
        """Write result.json whole: from then on the run is over."""
        write_atomically(self.result_path, to_json(result.model_dump(by_alias=True)))


class MetricsLog:
    """Appends to metrics.jsonl; on resuming, the lines past the checkpoint are cut off first."""

    def __init__(self, path: Path, from_step: int) -> None:
        cut_torn_tail(path)
        kept = [line for line in read_lines(path) if line["step"] <= from_step]
        write_atomically(path, "".join(json.dumps(line, allow_nan=False) + "\n" for line in kept))
        self._file = open(path, "a", encoding="utf-8")  # noqa: SIM115  (closed by close)

    def write(self, step: int, tokens: int, split: str, metric: str, value: float) -> None:
        """Append one point; a value that is not finite is null with its kind beside it."""
        line: dict[str, Any] = {
            "step": step, "tokens": tokens, "split": split, "metric": metric, "value": value
        }  # fmt: skip
        if value != value or abs(value) == float("inf"):
            line |= {"value": None, "nonfinite": str(value)}
        self._file.write(json.dumps(line, allow_nan=False) + "\n")
        self._file.flush()

    def sync(self) -> None:
        """Force what was written to the disk: a checkpoint must never be ahead of its curve."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def cut_torn_tail(path: Path) -> None:
    """Drop a last line without its newline, which a kill in the middle of a write leaves."""
    if not path.exists():
        return
    with open(path, "rb+") as file:
        content = file.read()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            file.truncate(whole)


def timestamp() -> str:
    """Return the current time in UTC, to the second."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
