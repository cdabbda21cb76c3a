"""Hugging Face Trainer: trainer_state.json of a run's folder or of its checkpoints."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from . import json_file
from .contract import Log, Point, folder_name
from .request import Request

SUMMARY = "Hugging Face Trainer: trainer_state.json, or the folder of a run"
IN_ORDER = True
_FILE = "trainer_state.json"
_CHECKPOINT = re.compile(r"checkpoint-(\d{1,18})", re.ASCII)
_NO_METRICS = ("_runtime", "_per_second")


def points(files: Sequence[Path], request: Request, log: Log) -> Iterator[Point]:
    """Yield the logged values of every run; its seed is in no file that is safe to open."""
    for folder, path in _newest(files, log).items():
        yield from _run(folder, path, log)


def _newest(files: Sequence[Path], log: Log) -> dict[Path, Path]:
    """Return for each run's folder its state with the most steps behind it."""
    chosen: dict[Path, Path] = {}
    for path in files:
        for state in _states(path):
            folder = state.parent
            if _CHECKPOINT.fullmatch(folder.name):
                folder = folder.parent
            other = chosen.get(folder)
            if other is not None and other != state:
                log.note(f"{folder}: holds several states; the newest was read")
            if other is None or _age(state) > _age(other):
                chosen[folder] = state
    return chosen


def _states(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    states = [
        folder / _FILE
        for folder in (path, *sorted(path.iterdir()))
        if (folder == path or _CHECKPOINT.fullmatch(folder.name)) and (folder / _FILE).is_file()
    ]
    if not states:
        raise ValueError(f"{path}: holds no {_FILE}, nor does a checkpoint-N in it")
    return [max(states, key=_age)]


def _age(state: Path) -> float:
    """Return the step of a checkpoint; the state in the run's own folder is written at the end."""
    found = _CHECKPOINT.fullmatch(state.parent.name)
    return float(found[1]) if found else float("inf")


def _run(folder: Path, path: Path, log: Log) -> Iterator[Point]:
    state = json_file.document(path)
    history = state.get("log_history")
    if not isinstance(history, list) or not all(isinstance(entry, dict) for entry in history):
        raise ValueError(f"{path}: has no log_history, so it is no {_FILE}")
    run = log.run(path, folder_name(folder), {"folder": folder.name})
    if not _finished(state, history):
        run.status, run.state = "failed", f"step {state.get('global_step')} of its last checkpoint"
    for entry in history:
        if "train_runtime" in entry:  # the summary of the whole run repeats what was logged
            continue
        step = json_file.as_number(entry.get("step"))
        for name, leaf in entry.items():
            value = json_file.as_number(leaf)
            skipped = name in ("step", "epoch", "total_flos") or name.endswith(_NO_METRICS)
            if value is not None and not skipped:
                yield Point(run, name, step, value)


def _finished(state: dict[str, Any], history: list[dict[str, Any]]) -> bool:
    done, planned = (json_file.as_number(state.get(key)) for key in ("global_step", "max_steps"))
    if any("train_runtime" in entry for entry in history):
        return True
    return done is not None and planned is not None and done >= planned > 0
