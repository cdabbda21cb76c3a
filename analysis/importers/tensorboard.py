"""TensorBoard event files: one run per folder; a later file takes over from its first step on."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from .contract import Log, Point, folder_name
from .event_file import Scalar, Torn, scalars
from .request import Request

SUMMARY = "TensorBoard event files, or folders that hold them"
IN_ORDER = True
_MARK = "tfevents"
_NO_METRICS = {"hp_metric", "epoch"}


def points(files: Sequence[Path], request: Request, log: Log) -> Iterator[Point]:
    """Yield the scalars of every folder's event files."""
    for folder, events in _by_folder(files).items():
        run = log.run(folder, folder_name(folder), {"folder": folder.name})
        if len(events) > 1:
            log.note(f"{folder}: {len(events)} event files were read as one run that was resumed")
        for path, taken_over in zip(events, _taken_over(events), strict=True):
            for scalar in _whole_scalars(path, log):
                if scalar.step < taken_over and scalar.tag not in _NO_METRICS:
                    yield Point(run, scalar.tag, float(scalar.step), scalar.value)


def _by_folder(files: Sequence[Path]) -> dict[Path, list[Path]]:
    folders: dict[Path, list[Path]] = {}
    for path in files:
        found = sorted(_event_files(path)) if path.is_dir() else [path]
        if not found:
            raise ValueError(f"{path}: holds no event file (events.out.{_MARK}.*)")
        for event in found:
            folders.setdefault(event.parent, []).append(event)
    # The name starts with the time of creation.
    return {folder: sorted(set(events)) for folder, events in folders.items()}


def _event_files(folder: Path) -> Iterator[Path]:
    for parent, _, names in os.walk(folder):  # links to folders are not followed
        yield from (
            Path(parent, name)
            for name in names
            if _MARK in name and not Path(parent, name).is_symlink()
        )


def _taken_over(events: Sequence[Path]) -> list[float]:
    """Return for each file the first step of the files after it, which did its later steps again.

    The last file's own steps all count. A resumed run continues from its checkpoint, so what the
    first process logged beyond that belongs to a history that was given up.
    """
    firsts = [_first_step(path) for path in events[1:]]
    return [min(firsts[index:], default=float("inf")) for index in range(len(events))]


def _first_step(path: Path) -> float:
    try:
        return next((float(scalar.step) for scalar in scalars(path)), float("inf"))
    except Torn:
        return float("inf")


def _whole_scalars(path: Path, log: Log) -> Iterator[Scalar]:
    try:
        yield from scalars(path)
    except Torn:
        log.note(f"{path}: the last record breaks off and was left out")
