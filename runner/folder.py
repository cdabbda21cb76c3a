"""The folder of one run: every path, and every way its files are written."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.records import (
    Result,
    Spec,
    read_lines,
    read_record,
    sync_folder,
    to_json,
    write_atomically,
)

from .settings import RunSettings
from .writing import cut_torn_tail, writing

if TYPE_CHECKING:
    from .checkpoint import Checkpoints

NO_HARD_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS)


class RunIsBusy(Exception):
    """Another process holds the lock of this run."""


@dataclass(frozen=True)
class RunFolder:
    """``results/<study>/runs/<run id>``; only the holder of its lock writes into it.

    Whatever writes raises :class:`~runner.writing.CannotWrite` when the disk is full or closed.
    """

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
    def diagnostics_path(self) -> Path:
        """Return the path of what the heads were measured to do."""
        return self.path / "diagnostics.jsonl"

    @property
    def attempts_path(self) -> Path:
        """Return the path of the attempts' log."""
        return self.path / "attempts.jsonl"

    @property
    def checkpoints(self) -> Checkpoints:
        """Return the run's checkpoints."""
        from .checkpoint import Checkpoints  # torch, which planning and waiting do without

        return Checkpoints(self.path / "checkpoint")

    def create(self, spec: Spec) -> None:
        """Freeze ``spec``; a folder that exists keeps its own, which must mean the same run.

        Raises:
            ValueError: The folder holds the spec of another run.
        """
        if self.spec_path.exists():
            # Compared by id: a spec written before a setting existed is the run with its default.
            if self.settings().run_id != spec.run_id:
                raise ValueError(
                    f"{self.spec_path}: disagrees with the settings its folder is named after; "
                    f"delete {self.path} and run it again"
                )
            return
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            write_atomically(self.spec_path, to_json(spec.model_dump(by_alias=True)))

    def read_spec(self) -> Spec:
        """Return the frozen spec."""
        return read_record(self.spec_path, Spec, f"delete {self.path} and run it again")

    def settings(self) -> RunSettings:
        """Return the frozen settings, with a default for what they do not spell out."""
        return RunSettings.model_validate(self.read_spec().settings)

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
        with writing(self.path):
            file = open(self.path / ".lock", "a", encoding="utf-8")  # noqa: SIM115 (closed below)
        with file:
            # More than one try: whoever asks how a run stands holds the lock for an instant.
            for tries_left in reversed(range(5)):
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if not tries_left:
                        raise RunIsBusy(self.path.name) from None
                    time.sleep(0.01)
            yield

    def is_locked(self) -> bool:
        """Return whether a process holds the run at this moment."""
        try:
            with open(self.path / ".lock", encoding="utf-8") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False

    def attempts(self) -> list[dict[str, Any]]:
        """Return what is logged of the attempts: their start, where they resumed, their end."""
        return list(read_lines(self.attempts_path))

    def start_attempt(self, environment: dict[str, Any]) -> int:
        """Log the start of an attempt and return its 1-based number."""
        number = 1 + sum(line["event"] == "start" for line in self.attempts())
        self._log({"event": "start", "attempt": number, "time": timestamp(), **environment})
        return number

    def log_resume(self, step: int, passed_over: list[str]) -> None:
        """Log the step that an attempt goes on from, and the checkpoints it could not read."""
        self._log({"event": "resume", "step": step, "passed_over": passed_over})

    def end_attempt(self, number: int, reason: str, **details: Any) -> None:
        """Log why an attempt ended: done, diverged, stopped or failed."""
        self._log(
            {"event": "end", "attempt": number, "time": timestamp(), "reason": reason, **details}
        )

    def _log(self, line: dict[str, Any]) -> None:
        with writing(self.attempts_path):
            cut_torn_tail(self.attempts_path)
            with open(self.attempts_path, "a", encoding="utf-8") as file:
                file.write(json.dumps(line, allow_nan=False) + "\n")
                file.flush()
                os.fsync(file.fileno())

    def publish(self, result: Result) -> None:
        """Write result.json whole, unless there is one: from then on the run is over.

        A lock keeps two processes apart, except on a network disk whose locks do not reach other
        machines. Even there the first result stands, and a second must agree with it.

        Raises:
            ValueError: Another process has published another result of this run.
        """
        temporary = self.path / ".result.json.new"
        with writing(self.result_path):
            write_atomically(temporary, to_json(result.model_dump(by_alias=True)))
            _place_once(temporary, self.result_path)
            sync_folder(self.path)
        published = self.read_result()
        if published.model_copy(update={"timing": result.timing}) != result:
            raise ValueError(
                f"{self.result_path}: another process has published another result of this run; "
                "compare the lines of attempts.jsonl beside it before you trust either"
            )

    def sweep(self) -> None:
        """Remove what a killed attempt left behind, once this process holds the lock.

        Of a run that is over that includes the checkpoints.
        """
        for pattern in (".result.json.*", ".metrics.jsonl.*", ".diagnostics.jsonl.*"):
            for left in self.path.glob(pattern):
                left.unlink(missing_ok=True)
        if self.result_path.exists():
            shutil.rmtree(self.path / "checkpoint", ignore_errors=True)

    def is_swept(self) -> bool:
        """Return whether a run that is over left nothing that :meth:`sweep` would remove."""
        return not (self.path / "checkpoint").exists()


def _place_once(temporary: Path, path: Path) -> None:
    """Give a finished file its name, unless the name is taken."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        pass
    except OSError as error:
        if error.errno not in NO_HARD_LINKS:
            raise
        os.replace(temporary, path)
    temporary.unlink(missing_ok=True)


def timestamp() -> str:
    """Return the current time in UTC, to the second."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
