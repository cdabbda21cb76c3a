"""MLflow's file store: <experiment>/<run>/{meta.yaml, params/<key>, metrics/<key>, tags/<key>}."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from .contract import Log, Point, Run, number, require_file
from .flat_yaml import flat_yaml
from .mlflow_status import described, status

_LARGEST_FIELD = 2**16
_LONGEST_LINE = 256
_RUN_PARTS = ("params", "metrics", "tags")


def read_store(folder: Path, log: Log) -> Iterator[Point]:
    """Yield the metrics of every run below the folder; links are not followed.

    Raises:
        ValueError: There is no run, or a file of one cannot be read.
    """
    found = False
    for parent, folders, names in os.walk(folder):
        folders.sort()
        place = Path(parent)
        if "meta.yaml" not in names or not any(part in folders for part in _RUN_PARTS):
            continue
        folders.clear()
        found = True
        run = _run(place, log)
        if run is not None:
            yield from _metrics(place, run, log)
    if not found:
        raise ValueError(f"{folder}: holds no run of MLflow (a folder with meta.yaml and metrics/)")


def _run(place: Path, log: Log) -> Run | None:
    meta = flat_yaml(place / "meta.yaml")
    if meta.values.get("lifecycle_stage") == "deleted":
        log.note(f"{place}: was deleted and is left out")
        return None
    if "status" not in meta.values:
        raise ValueError(meta.missing(place / "meta.yaml", "status"))
    fields = {
        f"{part}.{key}": _text(path)
        for part in ("params", "tags")
        for key, path in _files(place / part, log)
    }
    fields |= {key: meta.values[key] for key in ("run_id", "experiment_id") if key in meta.values}
    name = meta.values.get("run_name") or fields.get("tags.mlflow.runName") or place.name
    run = log.run(place, name, fields)
    run.status, run.state = status(meta.values["status"]), described(meta.values["status"])
    return run


def _files(folder: Path, log: Log) -> Iterator[tuple[str, Path]]:
    """Yield key and file; a slash in a key is a folder."""
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for path in (Path(parent, name) for name in sorted(names)):
            if path.is_symlink():
                log.note(f"{path}: is a link and was not followed")
            else:
                yield path.relative_to(folder).as_posix(), path


def _text(path: Path) -> str:
    require_file(path)
    with path.open("rb") as file:
        return file.read(_LARGEST_FIELD).decode("utf-8", "replace").strip()


def _metrics(place: Path, run: Run, log: Log) -> Iterator[Point]:
    for key, path in _files(place / "metrics", log):
        yield from _metric(path, key, run, log)


def _metric(path: Path, key: str, run: Run, log: Log) -> Iterator[Point]:
    """Yield the values of lines "timestamp value step"."""
    require_file(path)
    with path.open("rb") as file:
        for index, raw in enumerate(iter(lambda: file.readline(_LONGEST_LINE), b""), start=1):
            cells = raw.decode("ascii", "replace").split()
            try:
                value, step = number(cells[1]), float(int(cells[2]) if len(cells) > 2 else 0)
                if len(cells) > 3 or value is None:
                    raise ValueError
            except (ValueError, IndexError):
                if not raw.endswith(b"\n") and len(raw) < _LONGEST_LINE:
                    log.note(f"{path}: the last line breaks off and was left out")
                    return
                raise ValueError(f"{path}: line {index} is no 'timestamp value step'") from None
            yield Point(run, key, step, value)
