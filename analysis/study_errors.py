"""Turns a validation error into sentences a person can act on: file, line, key and remedy."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from .nearest import nearest

Location = Sequence[int | str]


def sentences(
    error: ValidationError, schema: type[BaseModel], table: Any, text: str, origin: str
) -> list[str]:
    """Return one sentence for each fault that ``error`` found in ``table``, the parsed ``text``."""
    said: dict[str, None] = {}
    for fault in error.errors(include_url=False):
        where = _path_within(table, fault["loc"])
        line = line_of(text, where)
        place = f"{origin}:{line}" if line else origin
        said[f"{place}: {_dotted(where)}{_remedy(fault, schema, where)}"] = None
    return list(said)


def _path_within(table: Any, location: Location) -> list[int | str]:
    """Return the keys and indices of the file; pydantic puts the branches of unions in between."""
    where: list[int | str] = []
    for part in location:
        if isinstance(table, list):
            table = dict(enumerate(table))
        if isinstance(table, dict) and part in table:
            table = table[part]
        elif part is not location[-1] or not isinstance(table, dict):
            continue  # a branch; the last part of all may be a key that is missing
        where.append(part)
    return where


def line_of(text: str, where: Location) -> int | None:
    """Return the 1-based line of TOML ``text`` on which the key at ``where`` stands, if it does.

    >>> line_of("[train]\\nlr = 1", ["train", "lr"])
    2
    """
    wanted = [str(part) for part in where]
    section: list[str] = []
    counts: dict[str, int] = {}
    best: tuple[int, int] | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        if header := re.match(r"\s*(\[\[?)\s*([^\]]+?)\s*\]", line):
            section = header[2].split(".")
            if header[1] == "[[":
                index = counts[header[2]] = counts.get(header[2], -1) + 1
                section = [*section, str(index)]
            path = section
        elif key := re.match(r'\s*"?([A-Za-z0-9_.-]+)"?\s*=', line):
            path = [*section, *key[1].split(".")]
        else:
            continue
        if wanted[: len(path)] == path and (best is None or len(path) > best[0]):
            best = (len(path), number)
    return best[1] if best else None


def _dotted(where: Location) -> str:
    dotted = "".join(f"[{p + 1}]" if isinstance(p, int) else f".{p}" for p in where).lstrip(".")
    return f"{dotted}: " if dotted else ""


def _remedy(fault: Any, schema: type[BaseModel], where: Location) -> str:
    kind, message = fault["type"], fault["msg"].removeprefix("Value error, ")
    if kind == "extra_forbidden":
        return f"unknown key; {nearest(str(where[-1]), _siblings(schema, where))}"
    if kind == "missing":
        return "is required and missing"
    if kind == "value_error":
        return str(message)
    return f"{message[0].lower()}{message[1:]}, got {fault['input']!r}"


def _siblings(schema: type[BaseModel], where: Location) -> list[str]:
    """Return the keys that are allowed beside the last part of ``where``."""
    for part in where[:-1]:
        if part not in schema.model_fields:  # an index, or a name that the user chose
            continue
        found = _models_within(schema.model_fields[str(part)].annotation)
        if not found:
            break
        schema = found[0]
    return list(schema.model_fields)


def _models_within(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for inner in get_args(annotation) for model in _models_within(inner)]
