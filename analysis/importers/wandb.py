"""Weights & Biases: a chart export, the runs table, or history entries as JSON Lines.

A chart export names its columns ``<run> - <metric>``; a runs table has one row per run with the
last values; history is what ``run.scan_history()`` yields, with run_id, name and config beside.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from ..digits import plural
from . import csv_rows, json_file
from .contract import Log, Point, Run, listed, number, require_file, shown
from .request import Request

SUMMARY = "Weights & Biases: chart export or runs table (CSV), history entries (JSON Lines)"
IN_ORDER = True
_SEPARATOR = " - "
_ENVELOPE = ("__MIN", "__MAX")
_TABLE = ("Name", "State")
_STANDARD = {
    *("Name", "Agent", "State", "Notes", "User", "Tags", "Created", "Runtime", "Sweep", "ID"),
    *("End Time", "Hostname", "Job Type", "Group", "GPU Count", "GPU Type", "Updated", "Commit"),
}
_FAILED = {"crashed", "failed", "killed", "preempted"}
# `run.history()` returns at most this many sampled entries; `run.scan_history()` returns all.
_SAMPLED_ENTRIES = 500


def points(files: Sequence[Path], request: Request, log: Log) -> Iterator[Point]:
    """Yield every value of the exports."""
    for path in files:
        require_file(path)
        if path.suffix == ".wandb":
            raise ValueError(
                f"{path}: is W&B's own binary log; send it with `wandb sync`, then export the runs "
                "table, or write run.scan_history() as JSON Lines"
            )
        if _is_json_lines(path):
            yield from _history(path, log)
            continue
        header = csv_rows.header(path)
        if all(name in header for name in _TABLE):
            yield from _runs_table(path, header, request, log)
        elif any(_SEPARATOR in name for name in header):
            yield from _chart(path, header, log)
        else:
            raise ValueError(
                f"{path}: is neither a chart export (columns '<run> - <metric>') nor a runs table "
                f"(columns Name and State); its columns are {listed(header)}"
            )


def _is_json_lines(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(256).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")


def _chart(path: Path, header: list[str], log: Log) -> Iterator[Point]:
    columns = list(_chart_columns(path, header, log))
    runs = {run for _, run, _ in columns}
    log.note(
        f"{path}: {plural(len(runs), 'run')} read; a chart shows 10 runs unless told otherwise and "
        "samples long histories, so compare the count, and look whether the wanted step is there"
    )
    for row in csv_rows.rows(path):
        step = _cell(path, row, header, 0)
        if step is None:
            raise ValueError(f"{path}: row {row.line}: {header[0]} is empty")
        for index, run, metric in columns:
            value = _cell(path, row, header, index)
            if value is not None:  # an empty cell is a step at which this run logged nothing
                yield Point(run, metric, step, value)


def _chart_columns(path: Path, header: list[str], log: Log) -> Iterator[tuple[int, Run, str]]:
    """Yield place, run and metric of each column of values; the name splits at its last dash."""
    for index, name in enumerate(header[1:], start=1):
        run, separator, metric = name.rpartition(_SEPARATOR)
        if not separator:
            raise ValueError(
                f"{path}: the column {shown(name)} is not of the form '<run> - <metric>'"
            )
        if run.startswith("Group: "):
            raise ValueError(
                f"{path}: the column {shown(name)} is a mean over the runs of a group, and no "
                "spread can be had from means; turn grouping off and export the chart again"
            )
        if not metric.endswith(_ENVELOPE) and metric != "_step":
            yield index, log.run(path, run, {}), metric


def _runs_table(path: Path, header: list[str], request: Request, log: Log) -> Iterator[Point]:
    key = "ID" if "ID" in header else "Name"
    wanted = [name for name in request.metrics.values() if name in header]
    if not wanted:
        free = [name for name in header if name not in _STANDARD]
        raise ValueError(
            f"{path}: a runs table mixes settings and results; name the results with --metric. "
            f"Its columns are {listed(free)}"
        )
    seen = set()
    for row in csv_rows.rows(path):
        cells = dict(zip(header, row.cells, strict=True))
        if cells[key] in seen:
            raise ValueError(
                f"{path}: row {row.line}: the run {shown(cells[key])} is there twice; show the "
                "column ID and export again, since names need not differ"
            )
        seen.add(cells[key])
        run = log.run(path, cells["Name"], cells, cells[key])
        run.state = "" if cells["State"] == "finished" else cells["State"]
        run.status = _status(cells["State"])
        for name in wanted:
            yield Point(run, name, None, _cell(path, row, header, header.index(name)))


def _status(state: str) -> Literal["done", "failed", "unfinished"]:
    if state == "finished":
        return "done"
    return "failed" if state in _FAILED else "unfinished"


def _cell(path: Path, row: csv_rows.Row, header: list[str], index: int) -> float | None:
    try:
        return number(row.cells[index])
    except ValueError as error:
        hint = "; export the chart with Step on its x axis" if index == 0 else ""
        raise ValueError(f"{path}: row {row.line}: {shown(header[index])}: {error}{hint}") from None


def _history(path: Path, log: Log) -> Iterator[Point]:
    entries: dict[Run, int] = {}
    for line, entry in json_file.lines(path, log):
        run = _history_run(path, line, entry, log)
        entries[run] = entries.get(run, 0) + 1
        step = json_file.as_number(entry.get("_step"))
        for name, leaf in json_file.flattened(entry):
            value = json_file.as_number(leaf)
            if value is not None and not name.startswith(("_", "config.", "run_id")):
                yield Point(run, name, step, value)
    sampled = [run.name for run, count in entries.items() if count == _SAMPLED_ENTRIES]
    if sampled:
        log.note(
            f"{path}: exactly {_SAMPLED_ENTRIES} entries of {listed(sampled)}: run.history() "
            "samples so many; write run.scan_history() instead"
        )


def _history_run(path: Path, line: int, entry: Mapping[str, Any], log: Log) -> Run:
    name = entry.get("name", entry.get("run_id"))
    if not isinstance(name, str):
        raise ValueError(
            f"{path}: line {line} names no run; write run_id, name and config into each entry"
        )
    fields = {
        key: json_file.as_text(value)
        for key, value in json_file.flattened(dict(entry))
        if key in ("name", "run_id", "group", "state") or key.startswith("config.")
    }
    run = log.run(path, name, fields, json_file.as_text(entry.get("run_id", name)))
    if isinstance(state := entry.get("state"), str):
        run.status, run.state = _status(state), "" if state == "finished" else state
    return run
