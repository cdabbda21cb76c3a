"""lm-evaluation-harness: results_*.json. A task's value is one number per model, hence per run.

The harness's "stderr" is over documents of one evaluation, not over seeds, and is not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from . import json_file
from .contract import Log, Point, Run, listed, shown
from .request import Request

SUMMARY = "lm-evaluation-harness: results_*.json, or folders that hold them"
IN_ORDER = False
_NO_METRICS = {"name", "alias", "sample_len", "sample_count", "samples", " "}
# They seed the choice of few-shot examples and the bootstrap; the model was trained by another one.
_EVALUATION_SEEDS = ("random_seed", "numpy_seed", "torch_seed", "fewshot_seed")


def points(files: Sequence[Path], request: Request, log: Log) -> Iterator[Point]:
    """Yield the metrics of every task as ``task/metric``, with the filter's name if it has one."""
    mapped = request.columns.get("seed", "")
    if mapped.removeprefix("config.") in _EVALUATION_SEEDS:
        raise ValueError(
            f"--map seed={mapped}: is a seed of the evaluation, the same for every model; take the "
            "seed of the training from the model's name with --seed"
        )
    settings: dict[str, dict[str, list[str]]] = {}
    for path in (found for given in files for found in _results(given)):
        document = json_file.document(path)
        results = document.get("results")
        if not isinstance(results, dict) or not all(isinstance(r, dict) for r in results.values()):
            raise ValueError(f"{path}: has no results by task, so it is no results_*.json")
        run = _run(path, document, log)
        _collect_settings(run, document, settings)
        _note_groups(path, document, log)
        for task, metrics in results.items():
            yield from _task(run, task, metrics)
    _note_settings(settings, log)


def _results(path: Path) -> list[Path]:
    if not path.is_dir():
        if path.name.startswith("samples_"):
            raise ValueError(
                f"{path}: holds one document a line; give the results_*.json that lies beside it"
            )
        return [path]
    found = sorted(p for p in path.rglob("results_*.json") if not p.is_symlink())
    if not found:
        raise ValueError(f"{path}: holds no results_*.json")
    return found


def _run(path: Path, document: Mapping[str, Any], log: Log) -> Run:
    config = document.get("config")
    fields = {
        f"config.{key}": json_file.as_text(value)
        for key, value in json_file.flattened(config if isinstance(config, dict) else {})
        if key not in _EVALUATION_SEEDS
    }
    name = document.get("model_name")
    if not isinstance(name, str) or not name:
        name = path.parent.name
    return log.run(path, name, fields | {"model_name": name})


def _task(run: Run, task: str, metrics: Mapping[str, Any]) -> Iterator[Point]:
    for key, leaf in metrics.items():
        metric, _, filter_ = key.partition(",")
        value = json_file.as_number(leaf)
        stated = value is not None or leaf == "N/A"
        if key in _NO_METRICS or metric.endswith("_stderr") or not stated:
            continue
        suffix = f",{filter_}" if filter_ not in ("", "none") else ""
        yield Point(run, f"{task}/{metric}{suffix}", None, value)


def _collect_settings(
    run: Run, document: Mapping[str, Any], settings: dict[str, dict[str, list[str]]]
) -> None:
    """Sort the runs by the settings that must agree for their values to be comparable."""
    config = document.get("config")
    stated = {"limit": config.get("limit") if isinstance(config, dict) else None}
    for what in ("versions", "n-shot"):
        by_task = document.get(what)
        for task, value in (by_task if isinstance(by_task, dict) else {}).items():
            stated[f"{what} of {task}"] = value
    for what, value in stated.items():
        runs = settings.setdefault(what, {}).setdefault(json_file.as_text(value), [])
        runs.append(run.name)


def _note_settings(settings: Mapping[str, Mapping[str, list[str]]], log: Log) -> None:
    for what, by_value in settings.items():
        if len(by_value) > 1:
            parts = "; ".join(f"{value} in {listed(runs)}" for value, runs in by_value.items())
            log.note(f"{what} differs between runs, so they are not comparable: {parts}")
        elif what == "limit" and "null" not in by_value:
            limit = next(iter(by_value))
            log.note(f"every run was evaluated on a part of each task only: limit {limit}")


def _note_groups(path: Path, document: Mapping[str, Any], log: Log) -> None:
    groups = document.get("group_subtasks")
    for group, tasks in (groups if isinstance(groups, dict) else {}).items():
        if isinstance(tasks, list) and tasks:
            log.note(
                f"{shown(group)} is the mean of its tasks; do not count it and them as independent"
            )
