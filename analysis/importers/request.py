"""What the user declares about foreign files: arm and seed, metrics, and the step that counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .steps import StepRule, parse_step


@dataclass(frozen=True)
class Request:
    """Where arm and seed are found, which metrics are wanted, which step counts.

    ``arm`` and ``seed`` are patterns on the names of runs, ``columns`` maps a column of the tidy
    table to a field of the run, and ``metrics`` the name wanted to the name in the file.
    """

    arm: str | None = None
    seed: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, str] = field(default_factory=dict)
    step: StepRule | None = None
    decimal_comma: bool = False


def parse_request(
    arm: str | None = None,
    seed: str | None = None,
    columns: Sequence[str] = (),
    metrics: Sequence[str] = (),
    step: str | None = None,
    decimal_comma: bool = False,
) -> Request:
    """Return the request that the options of ``cqk import`` state.

    Raises:
        ValueError: An option is of another form than COLUMN=FIELD, NAME or NEW=OLD, or one says
            again what another has said.

    >>> parse_request(columns=["seed=config.seed"], metrics=["loss=eval/loss", "acc"]).metrics
    {'loss': 'eval/loss', 'acc': 'acc'}
    """
    mapped = dict(_pair(text, "--map", "COLUMN=FIELD") for text in columns)
    wanted = dict(
        _pair(text, "--metric", "NEW=OLD") if "=" in text else (text, text) for text in metrics
    )
    for flag, given, parsed in (("--map", columns, mapped), ("--metric", metrics, wanted)):
        if len(parsed) < len(given):
            raise ValueError(f"{flag} names the same column or metric twice")
    for column, pattern in (("arm", arm), ("seed", seed)):
        if pattern is not None and column in mapped:
            raise ValueError(f"--{column} and --map {column}=... both say where it is; keep one")
    for column in ("metric", "value", "status", "step", "run_id", "source"):
        if column in mapped:
            raise ValueError(f"--map {column}=...: the column {column} is the importer's own")
    rule = None if step is None else parse_step(step)
    return Request(arm, seed, mapped, wanted, rule, decimal_comma)


def _pair(text: str, flag: str, form: str) -> tuple[str, str]:
    left, equals, right = (part.strip() for part in text.partition("="))
    if not (left and equals and right):
        raise ValueError(f"{flag} {text!r} is not of the form {form}")
    return left, right
