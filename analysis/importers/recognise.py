"""Which foreign format a file is in, told from its name and first bytes."""

from __future__ import annotations

from pathlib import Path

from .contract import require_file
from .csv_tables import shape_of

_FIRST_BYTES = 2**16


def recognise(path: Path) -> str | None:
    """Return the name of the foreign format, or None for a tidy table (or what is taken for one).

    Raises:
        ValueError: There is no such file.
    """
    require_file(path)
    if path.name == "trainer_state.json":
        return "hf-trainer"
    if path.name.startswith("results") and path.suffix == ".json":
        return "lm-eval"
    if "tfevents" in path.name:
        return "tensorboard"
    if path.suffix in (".jsonl", ".wandb"):
        return "wandb"
    with path.open("rb") as file:
        start = file.read(_FIRST_BYTES)
    if start.startswith(b"SQLite format 3\x00"):
        return "mlflow"
    return None if path.suffix == ".parquet" else _table(path, start)


def _table(path: Path, start: bytes) -> str | None:
    if path.name == "metrics.csv" and (path.parent / "hparams.yaml").exists():
        return "lightning"
    first_line = start.decode("utf-8-sig", "replace").split("\n", 1)[0]
    header = [cell.strip().strip('"') for cell in first_line.split(",")]
    if any(" - " in name for name in header[1:]) or {"Name", "State"} <= set(header):
        return "wandb"
    return "csv" if shape_of(header) == "seeds" else None
