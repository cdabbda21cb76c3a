"""MLflow: the SQLite database, opened read-only, or the older store of small files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from .contract import Log, Point, require_file
from .mlflow_files import read_store
from .mlflow_sqlite import read_database
from .request import Request

SUMMARY = "MLflow: its SQLite database, or a folder of its file store (mlruns)"
IN_ORDER = True
_SQLITE = b"SQLite format 3\x00"


def points(files: Sequence[Path], request: Request, log: Log) -> Iterator[Point]:
    """Yield the metrics of every run that was not deleted."""
    for path in files:
        if path.is_dir():
            yield from read_store(path, log)
            continue
        require_file(path)
        with path.open("rb") as file:
            if file.read(len(_SQLITE)) != _SQLITE:
                raise ValueError(f"{path}: is neither an SQLite database nor a folder mlruns")
        yield from read_database(path, log)
