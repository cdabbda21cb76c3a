"""MLflow's SQLite database: runs, params, tags and metrics, without MLflow and without writing."""

from __future__ import annotations

import math
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from ..digits import plural
from .contract import Log, Point, Run, listed
from .mlflow_status import described, status

_TABLES = ("runs", "metrics", "params", "tags")
_METRICS = """
    SELECT run_uuid, key, value, step, is_nan FROM metrics ORDER BY timestamp, step
"""


def read_database(path: Path, log: Log) -> Iterator[Point]:
    """Yield the metrics of the database's runs in the order of time.

    Raises:
        ValueError: The file is damaged, or is no database of MLflow.
    """
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            database.execute("PRAGMA trusted_schema = OFF")
            _require_tables(path, database)
            yield from _points(path, database, log)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: is a damaged database: {error}") from None


def _require_tables(path: Path, database: sqlite3.Connection) -> None:
    """A view would run a query of the file's author, so only tables will do."""
    query = "SELECT name FROM sqlite_master WHERE type = 'table'"
    found = [name for (name,) in database.execute(query)]
    missing = [name for name in _TABLES if name not in found]
    if missing:
        raise ValueError(
            f"{path}: has no table {missing[0]}, so it is no database of MLflow; its tables are "
            f"{listed([str(name) for name in found])}"
        )


def _points(path: Path, database: sqlite3.Connection, log: Log) -> Iterator[Point]:
    runs = _runs(path, database, log)
    for uuid, key, value, step, is_nan in database.execute(_METRICS):
        if uuid in runs:
            yield Point(runs[uuid], str(key), _number(path, step), _value(path, value, is_nan))


def _runs(path: Path, database: sqlite3.Connection, log: Log) -> dict[Any, Run]:
    fields: dict[Any, dict[str, str]] = {}
    for prefix in ("params", "tags"):
        for uuid, key, value in database.execute(f"SELECT run_uuid, key, value FROM {prefix}"):
            fields.setdefault(uuid, {})[f"{prefix}.{key}"] = str(value)
    runs, deleted = {}, 0
    query = "SELECT run_uuid, name, status, lifecycle_stage, experiment_id FROM runs"
    for uuid, name, state, stage, experiment in database.execute(query):
        if stage == "deleted":
            deleted += 1
            continue
        about = fields.get(uuid, {})
        about |= {"run_id": str(uuid), "experiment_id": str(experiment)}
        run = log.run(path, str(name or about.get("tags.mlflow.runName") or uuid), about, str(uuid))
        run.status, run.state = status(str(state)), described(str(state))
        runs[uuid] = run
    if deleted:
        log.note(f"{path}: {plural(deleted, 'deleted run')} left out")
    return runs


def _value(path: Path, value: Any, is_nan: Any) -> float:
    """MLflow stores NaN as a mark and infinity as the largest double."""
    if is_nan:
        return math.nan
    found = _number(path, value)
    return math.copysign(math.inf, found) if abs(found) >= sys.float_info.max else found


def _number(path: Path, value: Any) -> float:
    if not isinstance(value, int | float):
        raise ValueError(f"{path}: a metric holds {type(value).__name__} where a number belongs")
    return float(value)
