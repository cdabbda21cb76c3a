"""Other tools' results as the tidy table: one file per format, read without running any of it.

files -> points, one at a time -> the value at the declared step -> arm, seed, metric, value.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from .contract import Reader
    from .gather import Imported
    from .request import Request

# Name on the command line -> module.
FORMATS = {
    "wandb": "wandb",
    "hf-trainer": "hf_trainer",
    "lm-eval": "lm_eval",
    "tensorboard": "tensorboard",
    "lightning": "lightning",
    "mlflow": "mlflow",
    "csv": "csv_tables",
}


def load(name: str) -> Reader:
    """Return the reader of a format.

    Raises:
        ValueError: There is no such format.
    """
    if name not in FORMATS:
        from ..nearest import nearest

        raise ValueError(f"there is no format {name!r}; {nearest(name, list(FORMATS))}")
    return cast("Reader", importlib.import_module(f".{FORMATS[name]}", __name__))


def import_runs(name: str, files: Sequence[Path], request: Request) -> Imported:
    """Read files of one format as the tidy table.

    Raises:
        ValueError: The message names the file, what was found in it, and the remedy.

    >>> from tempfile import TemporaryDirectory
    >>> from analysis.importers.request import parse_request
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "chart.csv")
    ...     _ = file.write_text('"Step","base-s0 - loss"\\n"0","2.5"\\n"9","1.5"\\n')
    ...     request = parse_request(arm="^[a-z]+", seed="[0-9]+$", step="last")
    ...     table = import_runs("wandb", [file], request).table
    >>> table[["arm", "seed", "metric", "value"]].values.tolist()
    [['base', 0, 'loss', 1.5]]
    """
    from .gather import gather

    return gather(load(name), files, request)
