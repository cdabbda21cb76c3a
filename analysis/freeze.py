"""Freezes a study into its results folder at the first run, and keeps every later change on record.

The design and the analysis plan must stand before the results are seen. What a change after that
does to the verdicts is decided in verdict.py; here it is only written down.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .records import read_lines, write_atomically
from .study import Study, load_study, parse_study


@dataclass(frozen=True)
class Amendment:
    """One change of a frozen study: when, why, which settings, and how many runs were over then."""

    time: str
    reason: str
    changed: list[str]
    runs_over: int
    sha256_before: str
    sha256_after: str


def freeze(text: str, origin: str, results: Path, *, reason: str | None, time: str) -> Study:
    """Freeze the study file ``text`` into ``results``, or check it against what is frozen there.

    A wider grid or a further arm is a new part of the plan and needs no reason; any other change
    does, since runs or comparisons that were declared before are concerned.

    Raises:
        ValueError: The folder is frozen for another study, or the change has no ``reason``.
    """
    study = parse_study(text, origin)
    frozen_path = results / "study.toml"
    if not frozen_path.exists():
        results.mkdir(parents=True, exist_ok=True)
        write_atomically(frozen_path, text)
        return study
    frozen = load_study(frozen_path)
    if frozen.study.name != study.study.name:
        raise ValueError(
            f"{results}: holds the results of the study {frozen.study.name!r}, not of "
            f"{study.study.name!r}; give another --results folder"
        )
    if frozen.sha256 == study.sha256:
        return study
    changes = list(differences(frozen, study))
    if reason is None and not all(added for _, added in changes):
        shown = "; ".join(change for change, added in changes if not added)
        raise ValueError(
            f"{origin}: differs from the study frozen in {frozen_path}: {shown}. Undo the edit, or "
            'give --amend "reason", which every report will print'
        )
    if changes:
        _append(results, _amendment(results, reason, changes, frozen, study, time), frozen_path)
    write_atomically(frozen_path, text)
    return study


def _amendment(
    results: Path,
    reason: str | None,
    changes: list[tuple[str, bool]],
    frozen: Study,
    study: Study,
    time: str,
) -> Amendment:
    return Amendment(
        time,
        reason or "added to the plan",
        [change for change, _ in changes],
        sum(1 for _ in results.glob("runs/*/result.json")),
        frozen.sha256,
        study.sha256,
    )


def amendments(results: Path) -> list[Amendment]:
    """Return the recorded changes of the study frozen in ``results``, oldest first."""
    return [Amendment(**line) for line in read_lines(results / "amendments.jsonl")]


def differences(before: Study, after: Study) -> Iterator[tuple[str, bool]]:
    """Yield each changed setting as ``"path: old -> new"``, and whether it only adds to the plan.

    >>> text = '''
    ... study = { name = "example" }
    ... seeds = { values = [1, 2, 3] }
    ... family = { comparisons = [{ name = "a against b", treatment = "a", baseline = "b" }] }
    ... '''
    >>> longer = text.replace("[1, 2, 3]", "[1, 2, 3, 4]")
    >>> list(differences(parse_study(text), parse_study(longer)))
    [('seeds.values: [1, 2, 3] -> [1, 2, 3, 4]', False)]
    """
    old, new = _flat(before), _flat(after)
    for path in sorted(old.keys() | new.keys()):
        if old.get(path) != new.get(path) and path != "study.question":
            added = path not in old and path.startswith("arms.")
            yield f"{path}: {_show(old.get(path))} -> {_show(new.get(path))}", added


def _flat(study: Study) -> dict[str, Any]:
    """Return one entry per setting; arms and comparisons go by name, not by their position."""
    table = study.model_dump(mode="json")
    flat: dict[str, Any] = {}
    for arm in table.pop("arms", []):
        flat[f"arms.{arm['name']}"] = arm
    family = table.pop("family")
    for comparison in family.pop("comparisons"):
        flat[f"family.comparisons.{comparison['name']}"] = comparison
    for section, keys in {**table, "family": family}.items():
        flat.update({f"{section}.{key}": value for key, value in (keys or {}).items()})
    return flat


def _show(value: Any) -> str:
    return "(absent)" if value is None else json.dumps(value)


def _append(results: Path, amendment: Amendment, frozen_path: Path) -> None:
    """Keep the replaced file, then add the amendment; a kill in between loses neither."""
    count = len(amendments(results))
    replaced = frozen_path.read_text(encoding="utf-8")
    write_atomically(results / f"study.{count + 1}.toml", replaced)
    path = results / "amendments.jsonl"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    write_atomically(path, text + json.dumps(asdict(amendment), allow_nan=False) + "\n")
