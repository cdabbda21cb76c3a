"""The diagnostics of a run: diagnostics.jsonl, one line per step, layer and quantity."""

from __future__ import annotations

import json
import math
from pathlib import Path

import torch

from analysis.records import read_lines, write_atomically

from .anatomy import anatomy
from .model import Transformer
from .settings import Train
from .sources import Source
from .writing import writing

SAMPLED_ROWS = 8
"""Rows of the validation split that every step is measured on."""

PARTS = 4
"""A training without validations between is recorded at the ends of so many parts."""


class DiagnosticsLog:
    """Measures a model in training on a fixed sample of the validation split, and keeps the record.

    The sample is the same for all runs on one text and length, and nothing of training is touched.
    """

    def __init__(self, path: Path, source: Source, schedule: Train, device: str) -> None:
        self._path = path
        every = schedule.evaluate_every or max(schedule.steps // PARTS, 1)
        self._due = {*range(0, schedule.steps, every), schedule.steps}
        sample_bt = source.sample(SAMPLED_ROWS, schedule.seq_len)
        self._ids_bt = torch.from_numpy(sample_bt).to(device)

    def record_if_due(self, step: int, model: Transformer) -> None:
        """Record the start, the end and every step of ``evaluate_every``, by default four parts.

        What stands of this step or a later one is replaced, so that a run that is resumed from an
        earlier checkpoint leaves what an uninterrupted one does.
        """
        if step not in self._due:
            return
        lines = [
            {"step": step, "layer": layer, "quantity": quantity, "values": _plain(values.tolist())}
            for layer, heads in enumerate(anatomy(model, self._ids_bt))
            for quantity, values in heads.items()
        ]
        with writing(self._path):
            kept = [line for line in read_lines(self._path) if line["step"] < step]
            write_atomically(self._path, "".join(map(_dumped, [*kept, *lines])))


def _plain(values: list[float]) -> list[float | None]:
    """Return six significant digits of each value, None for one that is not finite."""
    return [float(f"{value:.6g}") if math.isfinite(value) else None for value in values]


def _dumped(line: dict[str, object]) -> str:
    return json.dumps(line, allow_nan=False) + "\n"
