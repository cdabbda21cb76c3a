"""Plain CSV: long (metric, value), one column per metric, or one column per seed (seed0, seed1)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from . import csv_rows
from .contract import CARRIED, Log, Point, Run, listed, number, shown
from .request import Request

SUMMARY = "CSV: long (arm, seed, metric, value), a column per metric, or a column per seed"
IN_ORDER = False
_SEED_COLUMN = re.compile(r"seed[_ ]?(\d{1,18})", re.ASCII | re.IGNORECASE)
# What tells runs apart beside arm and seed; other columns are notes unless they are mapped.
_IDENTITY = {*CARRIED, "run_id", "arm", "seed", "run", "name"}
_STATUSES = ("", "done", "diverged", "failed")


@dataclass(frozen=True)
class Shape:
    """How a table is laid out: ``values`` maps a column of values to its metric, or to its seed."""

    kind: Literal["long", "metrics", "seeds"]
    values: Mapping[str, str]


def points(files: Sequence[Path], request: Request, log: Log) -> Iterator[Point]:
    """Yield every value of the tables."""
    delimiter = ";" if request.decimal_comma else ","
    for path in files:
        header = csv_rows.header(path, delimiter)
        if len(header) == 1 and ";" in header[0]:
            raise ValueError(
                f"{path}: its columns are separated by semicolons; give --decimal-comma if its "
                "numbers are written 1,5"
            )
        shape = _shape(path, header, request)
        _note_columns(path, header, shape, request, log)
        for row in csv_rows.rows(path, delimiter):
            cells = dict(zip(header, row.cells, strict=True))
            yield from _row(path, row.line, cells, shape, request, log)


def shape_of(header: Sequence[str]) -> Literal["long", "metrics", "seeds"]:
    """Return the layout that a header speaks of.

    >>> shape_of(["arm", "seed0", "seed1"]), shape_of(["arm", "seed", "loss"])
    ('seeds', 'metrics')
    """
    if "metric" in header and "value" in header:
        return "long"
    return "seeds" if any(_SEED_COLUMN.fullmatch(name) for name in header) else "metrics"


def _shape(path: Path, header: list[str], request: Request) -> Shape:
    kind = shape_of(header)
    seeds = {name: m[1] for name in header if (m := _SEED_COLUMN.fullmatch(name))}
    if kind == "long":
        return Shape(kind, {"value": ""})
    if kind == "seeds":
        if "seed" in header:
            raise ValueError(
                f"{path}: has both a column seed and columns {listed(list(seeds))}; keep one form"
            )
        if len(request.metrics) != 1:
            raise ValueError(
                f"{path}: has one column per seed ({listed(list(seeds))}); name what the values "
                "are with one --metric NAME"
            )
        return Shape(kind, seeds)
    wanted = [name for name in request.metrics.values() if name in header]
    if not wanted:
        free = [name for name in header if name not in _IDENTITY | {"step", "epoch", "status"}]
        raise ValueError(
            f"{path}: has no columns metric and value, so each metric is a column: name them with "
            f"--metric. Its other columns are {listed(free)}"
        )
    return Shape(kind, {name: name for name in wanted})


def _note_columns(
    path: Path, header: Sequence[str], shape: Shape, request: Request, log: Log
) -> None:
    known = _IDENTITY | {"step", "status", "task", "metric", "params"}
    used = known | {*shape.values, *request.columns.values()}
    left = [name for name in header if name not in used]
    if left:
        log.note(f"{path}: columns left out: {listed(left)}; keep one with --map NAME=COLUMN")


def _row(
    path: Path, line: int, cells: Mapping[str, str], shape: Shape, request: Request, log: Log
) -> Iterator[Point]:
    step = _number(path, line, "step", cells.get("step", ""), request)
    for column, meaning in shape.values.items():
        fields = dict(cells) if shape.kind != "seeds" else {**cells, "seed": meaning}
        run = _run(path, line, fields, request, log)
        if shape.kind == "long":
            metric = cells["metric"].strip()
        else:
            metric = next(iter(request.metrics.values())) if shape.kind == "seeds" else meaning
        task = cells.get("task", "").strip()
        value = _number(path, line, column, cells[column], request)
        if cells.get("status", "").strip() == "diverged":
            value = math.nan
        sparse = shape.kind == "metrics" and step is not None
        if value is not None or not sparse:  # in a log an empty cell is a metric not measured then
            yield Point(run, f"{task}/{metric}" if task else metric, step, value)


def _run(path: Path, line: int, fields: dict[str, str], request: Request, log: Log) -> Run:
    identity = _IDENTITY | set(request.columns.values())
    kept = {name: text for name, text in fields.items() if name in identity}
    name = (
        kept.get("run_id")
        or kept.get("name")
        or kept.get("run")
        or " ".join(kept[column] for column in ("arm", "seed") if column in kept)
    )
    run = log.run(path, name, kept, *(f"{key}={kept[key]}" for key in sorted(kept)))
    status = fields.get("status", "").strip()
    if status not in _STATUSES:
        raise ValueError(
            f"{path}: row {line}: status {shown(status)} is none of done, diverged, failed"
        )
    if status == "failed":
        run.status = "failed"
    return run


def _number(path: Path, line: int, column: str, text: str, request: Request) -> float | None:
    plain = text.replace(",", ".") if request.decimal_comma else text
    try:
        return number(plain)
    except ValueError as error:
        comma = re.fullmatch(r"\s*[+-]?\d+,\d+\s*", text, re.ASCII)
        hint = "; for decimal commas save with semicolons and give --decimal-comma" if comma else ""
        raise ValueError(f"{path}: row {line}: {shown(column)}: {error}{hint}") from None
