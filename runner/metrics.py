"""The curve of a run: metrics.jsonl, appended to by one writer and cut back when a run resumes."""

from __future__ import annotations

import errno
import json
import math
import os
from pathlib import Path
from typing import Any

from analysis.records import read_lines, write_atomically

from .writing import cut_torn_tail, writing


class MetricsLog:
    """Appends to metrics.jsonl; on resuming, the lines past the checkpoint are cut off first.

    A checkpoint is taken between a step's training loss and its validation, so of its own step
    only the training line stays: the validation is made again.
    """

    def __init__(self, path: Path, from_step: int) -> None:
        self._path = path
        with writing(path):
            cut_torn_tail(path)
            kept = [line for line in read_lines(path) if _precedes(line, from_step)]
            write_atomically(path, "".join(map(_dumped, kept)))
            # Unbuffered: what a full disk refuses must not come back when the file is closed.
            self._file = open(path, "ab", buffering=0)  # noqa: SIM115  (closed by close)

    def write(self, step: int, tokens: int, split: str, metric: str, value: float) -> None:
        """Append one point; a value that is not finite is null with its kind beside it.

        Raises:
            CannotWrite: The disk is full, say.
        """
        line: dict[str, Any] = {
            "step": step, "tokens": tokens, "split": split, "metric": metric, "value": value
        }  # fmt: skip
        if not math.isfinite(value):
            line |= {"value": None, "nonfinite": str(value)}
        data = _dumped(line).encode()
        with writing(self._path):
            if self._file.write(data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def sync(self) -> None:
        """Force what was written to the disk: a checkpoint must never be ahead of its curve."""
        with writing(self._path):
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file; everything written is in it already."""
        self._file.close()


def _precedes(line: dict[str, Any], step: int) -> bool:
    return bool(line["step"] < step or (line["step"] == step and line["split"] == "train"))


def _dumped(line: dict[str, Any]) -> str:
    return json.dumps(line, allow_nan=False) + "\n"
