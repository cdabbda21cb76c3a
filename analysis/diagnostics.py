"""What the heads of each run were measured to do: all runs' diagnostics.jsonl as one tidy table."""

from __future__ import annotations

import io
import lzma
import secrets
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from .records import RunRecord, read_lines

FILE = "diagnostics.csv.xz"
"""The table beside runs.csv: xz, since its many rows differ in their last column only."""

# A value that pandas parses may lose its last digit.
_AS_WRITTEN = ("run_id", "arm", "quantity", "value")


def columns(axes: Sequence[str]) -> list[str]:
    """Return the table's columns; ``axes`` are those of the study's grid.

    >>> columns(["pairs"])
    ['run_id', 'arm', 'seed', 'pairs', 'step', 'layer', 'head', 'quantity', 'value']
    """
    return ["run_id", "arm", "seed", *axes, "step", "layer", "head", "quantity", "value"]


def from_records(records: Sequence[RunRecord], axes: Sequence[str]) -> pd.DataFrame | None:
    """Return one row per run, step, layer, head and quantity; None when no run recorded any.

    Layers and heads count from 0; a value that was not finite is missing.

    Raises:
        ValueError: A diagnostics.jsonl is broken; the message names the file and the remedy.
    """
    rows = [
        (
            *(record.spec.run_id, record.spec.arm, record.spec.seed),
            *(record.spec.cell.get(axis) for axis in axes),
            *(line["step"], line["layer"], head, line["quantity"], value),
        )
        for record in records
        for line in read_lines(record.folder / "diagnostics.jsonl")
        for head, value in enumerate(line["values"])
    ]
    return pd.DataFrame(rows, columns=columns(axes)).astype({"value": float}) if rows else None


def silent(records: Sequence[RunRecord], heads: pd.DataFrame | None) -> list[str]:
    """Return a notice on finished runs that recorded nothing, for a study that asks for it."""
    done = [record.spec.run_id for record in records if record.status == "done"]
    known = frozenset() if heads is None else frozenset(heads["run_id"])
    count = sum(run_id not in known for run_id in done)
    if not count:
        return []
    return [
        f"{count} of {len(done)} finished runs recorded no diagnostics, although [train] asks for "
        "them: they were trained before it did. A study of another name would train them again."
    ]


def load(path: Path, axes: Sequence[str]) -> pd.DataFrame | None:
    """Read the table that :func:`write` wrote; None where there is none.

    Raises:
        ValueError: The file is broken or has other columns.
    """
    if not path.exists():
        return None
    again = "restore it, or delete it: the report then goes without diagnostics"
    try:
        table = pd.read_csv(
            io.BytesIO(lzma.decompress(path.read_bytes())),
            dtype=dict.fromkeys(_AS_WRITTEN, str),
            keep_default_na=False,
        )
    except (OSError, lzma.LZMAError, EOFError, ValueError) as error:
        raise ValueError(f"{path}: cannot be read ({error}); {again}") from None
    if list(table.columns) != columns(axes):
        raise ValueError(
            f"{path}: has the columns {', '.join(map(str, table.columns))} instead of "
            f"{', '.join(columns(axes))}; {again}"
        )
    return table.assign(value=table["value"].replace("", "nan").astype(float))


def write(path: Path, table: pd.DataFrame) -> None:
    """Write the table whole or not at all; a file that holds it already stays as it is."""
    data = table.to_csv(index=False, lineterminator="\n").encode()
    if _holds(path, data):  # another version of the library may compress to other bytes
        return
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        temporary.write_bytes(lzma.compress(data))
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _holds(path: Path, data: bytes) -> bool:
    try:
        return lzma.decompress(path.read_bytes()) == data
    except (OSError, lzma.LZMAError):
        return False
