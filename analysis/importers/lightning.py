"""Lightning's CSVLogger: metrics.csv with the hparams.yaml beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from . import csv_rows
from .contract import Log, Point, Run, folder_name, listed, number, shown
from .flat_yaml import flat_yaml
from .request import Request

SUMMARY = "Lightning's CSVLogger: metrics.csv beside hparams.yaml, or the version folder"
IN_ORDER = True
_FILE, _SETTINGS = "metrics.csv", "hparams.yaml"


def points(files: Sequence[Path], request: Request, log: Log) -> Iterator[Point]:
    """Yield every value; training and validation stand on separate rows of one step."""
    for given in files:
        path = given / _FILE if given.is_dir() else given
        header = csv_rows.header(path)
        if "step" not in header:
            raise ValueError(
                f"{path}: has no column step, so it is no {_FILE} of Lightning; its columns are "
                f"{listed(header)}"
            )
        run = log.run(path, folder_name(path.parent), _settings(path, request))
        yield from _rows(path, header, run, log)


def _settings(path: Path, request: Request) -> dict[str, str]:
    """Return the flat part of hparams.yaml; what the user maps has to be in it."""
    settings = path.parent / _SETTINGS
    if not settings.exists():
        return {}
    found = flat_yaml(settings)
    for name in request.columns.values():
        if name in found.unread:
            raise ValueError(found.missing(settings, name))
    return found.values


def _rows(path: Path, header: list[str], run: Run, log: Log) -> Iterator[Point]:
    place = header.index("step")
    metrics = [(i, name) for i, name in enumerate(header) if name not in ("step", "epoch")]
    try:
        for row in csv_rows.rows(path):
            step = _cell(path, row, header, place)
            for index, name in metrics:
                value = _cell(path, row, header, index)
                if value is not None:
                    yield Point(run, name, step, value)
    except csv_rows.Torn:
        log.note(f"{path}: the last row breaks off and was left out")


def _cell(path: Path, row: csv_rows.Row, header: list[str], index: int) -> float | None:
    try:
        return number(row.cells[index])
    except ValueError as error:
        raise ValueError(f"{path}: row {row.line}: {shown(header[index])}: {error}") from None
