"""The tidy table: one row per run, split and metric, from run records or from anybody's file.

Columns beyond ``COLUMNS`` are kept: a study's further grid axes, a foreign table's own notes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from .importers import import_runs
from .importers.recognise import recognise
from .importers.request import Request
from .records import RunRecord, read_runs
from .study import Study, load_study

COLUMNS = [
    *("study", "run_id", "arm", "attention", "coupling", "preset", "params", "corpus"),
    *("tokenizer", "seq_len", "tokens", "seed", "split", "metric", "value", "status"),
]
SEED_NAMES = ("seed", "run")  # accepted spellings of the seed column in a foreign table
STATUSES = ("done", "diverged", "failed")


def load_runs(
    path: str | Path, metric: str | None = None, axes: Sequence[str] = ()
) -> pd.DataFrame:
    """Read a results folder, or a CSV or parquet file, as the tidy table.

    A file is long (columns arm, seed, metric, value) or wide (columns arm, seed and one column
    named ``metric``). An empty value is a failed run, NaN or infinity a diverged one. ``axes`` are
    further columns in which runs of one arm and seed may differ: a study's grid. A file of another
    tool is read where its columns or settings name arm and seed; what the user should know about
    it is in ``attrs["notices"]``.

    Raises:
        ValueError: The message names the file, the row and the remedy.
    """
    path = Path(path)
    if path.is_dir():
        return _from_results(path)
    if not path.exists():
        raise ValueError(f"{path}: does not exist; give a results folder or a tidy table")
    if (format_ := recognise(path)) is not None:
        return _foreign(format_, path, metric, axes)
    return tidy(_read_file(path), str(path), metric, axes)


def _foreign(format_: str, path: Path, metric: str | None, axes: Sequence[str]) -> pd.DataFrame:
    request = Request(
        columns={axis: axis for axis in axes}, metrics={} if metric is None else {metric: metric}
    )
    try:
        found = import_runs(format_, [path], request)
    except ValueError as error:
        raise ValueError(
            f"{error}\nto say where arm and seed are or which step counts, start with: "
            f"cqk import {format_} {path} --out runs.csv"
        ) from None
    found.table.attrs["notices"] = found.notices
    return found.table


def from_records(records: list[RunRecord], study: Study) -> pd.DataFrame:
    """Return the tidy table of run records; runs that are neither over nor failed have no rows.

    A run without values still has one row for each split and metric that the study records, with
    the value missing.
    """
    over = [record for record in records if record.status in STATUSES]
    family = study.family
    wanted = dict.fromkeys((split, family.metric) for split in (family.split, family.replicate_on))
    for record in over:
        for split, values in record.result.metrics.items() if record.result else ():
            wanted.update(dict.fromkeys((split, metric) for metric in values))
    rows = [row for record in over for row in _rows(record, [k for k in wanted if k[0]])]
    extra = [axis for axis in study.grid if axis not in COLUMNS]
    table = pd.DataFrame(rows, columns=[*COLUMNS, *extra])
    return table.astype({"value": float, "seed": "int64"})


def _rows(record: RunRecord, keys: list[tuple[Any, str]]) -> Iterator[dict[str, Any]]:
    spec, result, settings = record.spec, record.result, record.spec.settings
    about = {
        "study": spec.study,
        "run_id": spec.run_id,
        "arm": spec.arm,
        "attention": settings["attention"]["name"],
        "coupling": settings["coupling"]["name"],
        "preset": settings["model"].get("preset") or "",
        "params": result.params if result else None,
        "corpus": settings["data"]["corpus"],
        "tokenizer": settings["data"]["tokenizer"],
        "seq_len": settings["train"]["seq_len"],
        "tokens": settings["train"]["tokens"],
        "seed": spec.seed,
        "status": record.status,
        **spec.cell,
    }
    for split, metric in keys:
        value = result.metrics.get(split, {}).get(metric) if result else None
        yield {**about, "split": split, "metric": metric, "value": value}


def _from_results(folder: Path) -> pd.DataFrame:
    study_path = folder / "study.toml"
    if not study_path.exists():
        raise ValueError(
            f"{folder}: holds no study.toml, so it is no results folder; give results/<study>, or "
            "a tidy table (CSV or parquet)"
        )
    if (folder / "runs").is_dir():
        study = load_study(study_path)
        return from_records(read_runs(folder, study.study.name), study)
    if (folder / "runs.csv").exists():
        axes = list(load_study(study_path).grid)
        return tidy(_read_file(folder / "runs.csv"), str(folder / "runs.csv"), None, axes)
    raise ValueError(f"{folder}: holds neither runs/ nor runs.csv; start `cqk run` first")


def _read_file(path: Path) -> pd.DataFrame:
    """Read every cell as it is written: no default marks a missing value, no number is rounded."""
    try:
        if path.suffix == ".parquet":
            return pd.read_parquet(path)
        return pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8-sig")
    except ImportError:
        raise ValueError(f"{path}: reading parquet needs the package pyarrow") from None
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise ValueError(f"{path}: is no readable table: {error}") from None


def tidy(
    table: pd.DataFrame, origin: str, metric: str | None = None, axes: Sequence[str] = ()
) -> pd.DataFrame:
    """Bring a long or wide table into the tidy form, refusing what cannot be decided."""
    table = table.rename(columns=str.strip)
    if len(table) == 0:
        raise ValueError(f"{origin}: has no rows; give a table with one row per run and metric")
    table = _with_seed(table, origin)
    if "metric" not in table or "value" not in table:
        if metric is None or metric not in table:
            raise ValueError(
                f"{origin}: has neither the columns metric and value nor a column "
                f"{metric or '<metric>'!r}; its columns are {', '.join(table.columns)}"
            )
        table = table.rename(columns={metric: "value"}).assign(metric=metric)
    if "arm" not in table:
        raise ValueError(f"{origin}: has no column arm; its columns are {', '.join(table.columns)}")
    table["seed"] = _integers(table["seed"], origin)
    table["value"], states = _values(table["value"], origin)
    table["status"] = _status(table, states, origin)
    for column in ("params", "seq_len", "tokens"):
        if column in table:
            table[column] = pd.to_numeric(table[column], errors="coerce")
    _refuse_duplicates(table, origin, axes)
    return table


def _with_seed(table: pd.DataFrame, origin: str) -> pd.DataFrame:
    found = [name for name in SEED_NAMES if name in table]
    if not found:
        raise ValueError(
            f"{origin}: has no column seed; its columns are {', '.join(table.columns)}"
        )
    return table.rename(columns={found[0]: "seed"})


def _integers(column: pd.Series[Any], origin: str) -> pd.Series[Any]:
    numbers = pd.to_numeric(column, errors="coerce")
    bad = np.flatnonzero(~(np.isfinite(numbers) & (numbers % 1 == 0)))
    if bad.size:
        raise ValueError(
            f"{origin}: row {_row(bad[0])}: seed {column.iloc[bad[0]]!r} is no whole number"
        )
    return numbers.astype("int64")


def _values(column: pd.Series[Any], origin: str) -> tuple[pd.Series[float], np.ndarray[Any, Any]]:
    """Return the values with missing ones NaN, and the status that each cell speaks of."""
    text = column.astype(str).str.strip().str.lower()
    missing = (column.isna() & ~text.isin(["nan"])) | (text == "")
    numbers = pd.to_numeric(text.mask(missing), errors="coerce").astype(float)
    blown = ~np.isfinite(numbers) & ~missing
    bad = np.flatnonzero(blown & ~text.str.lstrip("+-").isin(["nan", "inf", "infinity"]))
    if bad.size:
        hint = " (write decimals with a point)" if "," in text.iloc[bad[0]] else ""
        raise ValueError(
            f"{origin}: row {_row(bad[0])}: value {column.iloc[bad[0]]!r} is no number{hint}"
        )
    status = np.select([missing, blown], ["failed", "diverged"], "done")
    return numbers.where(np.isfinite(numbers)), status


def _status(table: pd.DataFrame, seen: np.ndarray[Any, Any], origin: str) -> pd.Series[Any]:
    """Return the stated status, or the one the value speaks of; a valued run cannot have failed."""
    if "status" not in table:
        return pd.Series(seen, index=table.index)
    stated = table["status"].replace("", "done")
    bad = np.flatnonzero(~stated.isin(STATUSES))
    if bad.size:
        raise ValueError(
            f"{origin}: row {_row(bad[0])}: status {stated.iloc[bad[0]]!r} is none of "
            f"{', '.join(STATUSES)}"
        )
    return stated.where(~((stated == "done") & (seen != "done")), pd.Series(seen, table.index))


def _refuse_duplicates(table: pd.DataFrame, origin: str, axes: Sequence[str]) -> None:
    free = {"value", "status", "run_id", "params"}
    named = dict.fromkeys((*COLUMNS, *axes))
    known = [column for column in named if column in table.columns and column not in free]
    again = np.flatnonzero(table.duplicated(known))
    if again.size:
        row = table.iloc[again[0]]
        first = int(np.flatnonzero((table[known] == row[known]).all(axis=1))[0])
        raise ValueError(
            f"{origin}: rows {_row(first)} and {_row(again[0])} are the same arm {row['arm']!r}, "
            f"seed {row['seed']} and metric {row['metric']!r}; keep one, since a run counts once"
            + _several(table.iloc[[first, again[0]]], origin)
        )


def _several(rows: pd.DataFrame, origin: str) -> str:
    """Return how rows of one run that differ in step or task become one value each."""
    if any(name in rows and rows[name].nunique() > 1 for name in ("step", "task")):
        return f" (for several steps or tasks: cqk import csv {origin} --step last)"
    return ""


def _row(index: int) -> int:
    """Return the line of a CSV file (its header is line 1) for a row's position."""
    return int(index) + 2
