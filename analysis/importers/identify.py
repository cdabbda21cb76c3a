"""Which arm and seed a run belongs to: from a field, or from a pattern on its name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .contract import CARRIED, Run, listed, shown
from .request import Request

_SEED = re.compile(r"([+-]?\d{1,18})(\.0*)?", re.ASCII)
# Offered in messages and never applied: names such as base-s0, base_seed1, runs/base/seed=2.
_SUGGESTED_ARM, _SUGGESTED_SEED = r"([^/]+?)[-_/]s(?:eed)?[-_=]?\d+", r"s(?:eed)?[-_=]?(\d+)"


class Identity(NamedTuple):
    """Arm, seed, and the values of further columns in their order."""

    arm: str
    seed: int
    extra: tuple[str, ...]


def extra_columns(runs: Sequence[Run], request: Request) -> dict[str, str]:
    """Return the columns beside arm and seed, each with its field: mapped ones, and known names."""
    mapped = {c: name for c, name in request.columns.items() if c not in ("arm", "seed")}
    known = [c for c in CARRIED if c not in mapped and all(c in run.fields for run in runs)]
    return {**mapped, **{column: column for column in known}}


def identities(
    runs: Sequence[Run], request: Request, extra: Mapping[str, str]
) -> dict[Run, Identity]:
    """Return each run's identity.

    Raises:
        ValueError: Arm or seed of a run cannot be decided; the message shows names and fields.
    """
    for flag, pattern in (("--arm", request.arm), ("--seed", request.seed)):
        _compiled(pattern, flag)
    return {run: _identity(run, runs, request, extra) for run in runs}


def _identity(
    run: Run, runs: Sequence[Run], request: Request, extra: Mapping[str, str]
) -> Identity:
    arm = _found(run, runs, "arm", request.arm, request.columns)
    seed = _found(run, runs, "seed", request.seed, request.columns)
    whole = _SEED.fullmatch(seed.strip())
    if not arm.strip():
        raise ValueError(f"{run.source}: run {shown(run.name)}: its arm is empty")
    if whole is None:
        raise ValueError(
            f"{run.source}: run {shown(run.name)}: seed {shown(seed)} is no whole number; "
            "give --seed a pattern whose group holds the digits alone"
        )
    others = (_field(run, runs, column, name) for column, name in extra.items())
    return Identity(arm.strip(), int(whole[1]), tuple(others))


def _found(
    run: Run, runs: Sequence[Run], column: str, pattern: str | None, columns: Mapping[str, str]
) -> str:
    compiled = _compiled(pattern, f"--{column}")
    if compiled is None:
        return _field(run, runs, column, columns.get(column))
    match = compiled.search(run.name)
    if match is None:
        raise ValueError(
            f"{run.source}: the pattern --{column} {pattern!r} does not fit the run "
            f"{shown(run.name)}; the runs are {listed([other.name for other in runs])}"
        )
    return match[1 if compiled.groups else 0] or ""


def _compiled(pattern: str | None, flag: str) -> re.Pattern[str] | None:
    try:
        compiled = None if pattern is None else re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"{flag} {pattern!r} is no regular expression: {error}") from None
    if compiled is not None and compiled.groups > 1:
        raise ValueError(f"{flag} {pattern!r} has {compiled.groups} groups; mark one with (...)")
    return compiled


def _field(run: Run, runs: Sequence[Run], column: str, name: str | None) -> str:
    """Return the field that a column was mapped to, by default the one of the column's name."""
    for candidate in (name,) if name else ("seed", "run") if column == "seed" else (column,):
        if candidate in run.fields:
            return run.fields[candidate]
    asked = f"no field {shown(name)}" if name else f"neither a field nor a pattern for its {column}"
    raise ValueError(
        f"{run.source}: run {shown(run.name)} has {asked}.\n"
        f"  runs: {listed([other.name for other in runs])}\n"
        f"  fields: {listed(sorted(run.fields), most=40)}\n"
        f"  {_remedy(column)}"
    )


def _remedy(column: str) -> str:
    if column not in ("arm", "seed"):
        return f"map the column to a field that is there: --map {column}=FIELD"
    pattern = _SUGGESTED_ARM if column == "arm" else _SUGGESTED_SEED
    return (
        f"give --map {column}=FIELD, or --{column} with a pattern on the run's name, such as "
        f"--{column} '{pattern}'"
    )
