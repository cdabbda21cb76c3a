"""What is known of a comparison beside its values: how its runs were made, what was amended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pandas as pd

from .family import Comparison
from .freeze import Amendment
from .records import RunRecord
from .study import Study

_TEXT = ("corpus", "tokenizer")
_HARDWARE = ("device", "cpu_capability", "threads")


def known_flags(
    study: Study,
    table: pd.DataFrame,
    records: Sequence[RunRecord] = (),
    amendments: Sequence[Amendment] = (),
) -> dict[str, list[str]]:
    """Return the flags of every declared comparison that do not follow from its values.

    ``records`` may be empty: a foreign table has no provenance beyond its columns.
    """
    flags = {}
    for comparison in study.declared_comparisons():
        made = [record for record in records if _concerns(comparison, record)]
        found = [
            *_amended(comparison, amendments),
            *_table_flags(comparison, table),
            *_record_flags(made),
        ]
        flags[comparison.name] = list(dict.fromkeys(found))
    return flags


def _amended(comparison: Comparison, amendments: Sequence[Amendment]) -> Iterator[str]:
    """A change is held against a comparison only if some run was over when it was made."""
    for amendment in amendments:
        for change in amendment.changed if amendment.runs_over else ():
            path = change.split(": ", 1)[0]
            if path.startswith("seeds"):
                yield "optional_stopping"
            elif path == "family.alternative":
                yield "side_changed"
            elif path.startswith("family.comparisons."):
                declared = path.removeprefix("family.comparisons.")
                if comparison.name == declared or comparison.name.startswith(f"{declared} ["):
                    yield "family_amended"
            elif path.startswith("family."):
                yield "family_amended"


def _table_flags(comparison: Comparison, table: pd.DataFrame) -> Iterator[str]:
    rows = table[table["arm"].isin([comparison.treatment, comparison.baseline])]
    for axis, value in comparison.where.items():
        rows = rows[rows[axis].astype(str) == str(value)] if axis in rows else rows
    if any(rows[column].nunique() > 1 for column in _TEXT if column in rows):
        yield "mixed_text"
    if "tokens" in rows:
        if (rows.groupby("arm")["tokens"].nunique() > 1).any():
            yield "mixed_budget"
        elif rows["tokens"].nunique() > 1:
            yield "unequal_budget"


def _concerns(comparison: Comparison, record: RunRecord) -> bool:
    spec = record.spec
    arms = (comparison.treatment, comparison.baseline)
    return spec.arm in arms and all(spec.cell.get(a) == v for a, v in comparison.where.items())


def _record_flags(records: Sequence[RunRecord]) -> Iterator[str]:
    starts = [line for record in records for line in record.attempts if _starts(line)]
    # A variant's own file differs between arms by design; within an arm it was edited meanwhile.
    edited = any(
        _distinct(
            (line for r in records if r.spec.arm == arm for line in r.attempts if _starts(line)),
            ("variant_sha256",),
        )
        > 1
        for arm in {record.spec.arm for record in records}
    )
    if edited or _distinct(starts, ("code_sha256", "torch")) > 1:
        yield "mixed_code"
    if _distinct(starts, _HARDWARE) > 1:
        yield "mixed_hardware"
    texts = {record.spec.settings["data"]["text_sha256"] for record in records}
    if len(texts) > 1:
        yield "mixed_text"
    batches: dict[int, set[str]] = {}
    for record in records:
        if record.result:
            seen = batches.setdefault(record.spec.seed, set())
            seen.add(record.result.data_fingerprint)
    if any(len(fingerprints) > 1 for fingerprints in batches.values()):
        yield "different_batches"


def _starts(line: dict[str, Any]) -> bool:
    return bool(line["event"] == "start")


def _distinct(lines: Iterable[dict[str, Any]], keys: Sequence[str]) -> int:
    return len({tuple(line.get(key) for key in keys) for line in lines})


def provenance(records: Sequence[RunRecord]) -> list[dict[str, Any]]:
    """Return each environment that attempts were made in, with how many, commonest first."""
    keys = ("host", *_HARDWARE, "python", "torch", "cqk", "code_sha256")
    counts: dict[tuple[Any, ...], int] = {}
    for record in records:
        for line in record.attempts:
            if line["event"] == "start":
                where = tuple(line.get(key, "") for key in keys)
                counts[where] = counts.get(where, 0) + 1
    ordered = sorted(counts.items(), key=lambda item: (-item[1], repr(item[0])))
    return [{"attempts": count, **dict(zip(keys, where, strict=True))} for where, count in ordered]
