"""JSON from files of others: bounded in size, refused in one sentence where it is broken."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .contract import Log, require_file

# A parsed document takes several times its text; logs of tens of thousands of steps are far below.
LARGEST_DOCUMENT = 256 * 2**20
LONGEST_LINE = 16 * 2**20


def document(path: Path) -> dict[str, Any]:
    """Return the object that a JSON file holds.

    Raises:
        ValueError: The file is too large, no JSON, or no object.
    """
    require_file(path)
    if path.stat().st_size > LARGEST_DOCUMENT:
        raise ValueError(f"{path}: is larger than {LARGEST_DOCUMENT // 2**20} MiB")
    try:
        value = json.loads(path.read_bytes().decode("utf-8-sig"))
    except RecursionError:
        raise ValueError(f"{path}: is no readable JSON: it is nested too deeply") from None
    except ValueError as error:
        raise ValueError(
            f"{path}: is no readable JSON: {error}; a file cut short has to be copied again"
        ) from None
    if not isinstance(value, dict):
        raise ValueError(f"{path}: holds no JSON object at its top")
    return value


def lines(path: Path, log: Log) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of a JSON Lines file with their line numbers.

    A last line that breaks off is a killed writer's and is left out with a notice.

    Raises:
        ValueError: Another line is no JSON object, or longer than any log entry.
    """
    require_file(path)
    with path.open("rb") as file:
        for index in range(1, 2**63):
            raw = file.readline(LONGEST_LINE + 1)
            if not raw:
                return
            if len(raw) > LONGEST_LINE:
                raise ValueError(f"{path}: line {index} is longer than {LONGEST_LINE} bytes")
            entry = _entry(raw.lstrip(b"\xef\xbb\xbf") if index == 1 else raw)
            if entry is None and not raw.endswith(b"\n"):
                log.note(f"{path}: the last line breaks off and was left out")
                return
            if entry is None:
                raise ValueError(f"{path}: line {index} is no JSON object")
            if entry:
                yield index, entry


def _entry(raw: bytes) -> dict[str, Any] | None:
    """Return the object on a line, an empty one for a blank line, None where there is none."""
    if not raw.strip():
        return {}
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def flattened(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the leaves of nested objects under dotted names; a list is a leaf.

    >>> dict(flattened({"a": {"b": 1}, "c": [2]}))
    {'a.b': 1, 'c': [2]}
    """
    pending = [(prefix, value)]
    while pending:
        name, inner = pending.pop()
        if isinstance(inner, dict) and inner:
            dotted = ((f"{name}.{key}" if name else str(key), leaf) for key, leaf in inner.items())
            pending.extend(reversed(list(dotted)))
        else:
            yield name, inner


def as_number(value: Any) -> float | None:
    """Return a JSON value as a number, "NaN" and "Infinity" included; None where it is none.

    >>> as_number(2), as_number("Infinity"), as_number(True), as_number("base")
    (2.0, inf, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str):
        spelled = {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}.get(value)
        return float(spelled) if spelled else None
    try:
        return float(value)
    except OverflowError:
        return None


def as_text(value: Any) -> str:
    """Return a JSON value as the text of a field."""
    return value if isinstance(value, str) else json.dumps(value)
