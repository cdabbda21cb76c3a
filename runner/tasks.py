"""Tasks by name: a table of settings becomes a task, and a task's rows have a hash."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from pydantic import ValidationError

from analysis.design import Train
from analysis.nearest import nearest

from .induction import Induction
from .recall import Mqar
from .sharpness import Sharpness
from .task import Rows, Task

TASKS: dict[str, type[Task]] = {"induction": Induction, "mqar": Mqar, "sharpness": Sharpness}
NO_TOKENIZER = "none"
SCORED = ("valid", "test")


def names() -> list[str]:
    """Return what a study may write as its corpus to have rows drawn instead of a text read."""
    return list(TASKS)


def describe(name: str) -> str:
    """Return one line: what the task is, its chance level, where it comes from."""
    return f"{TASKS[name].summary} | drawn | {TASKS[name].source}"


def make(name: str, table: Mapping[str, Any]) -> Task:
    """Return the task of that name with these settings.

    Raises ``ValueError`` for a setting that does not exist or is out of range.

    >>> make("mqar", {"pairs": 4, "vocabulary": 128}).chance
    0.015625
    """
    kind = TASKS[name]
    try:
        return kind.model_validate(dict(table))
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        key = str(fault["loc"][0])
        if fault["type"] == "extra_forbidden":
            if key in ("length", "seq_len"):
                raise ValueError(
                    f"the task {name} has no setting {key!r}: the length of its rows is seq_len "
                    "of [train], or an axis seq_len"
                ) from None
            hint = nearest(key, list(kind.model_fields))
            raise ValueError(f"the task {name} has no setting {key!r}; {hint}") from None
        message = fault["msg"].removeprefix("Value error, ")
        raise ValueError(f"the task {name}: {key}: {message}, got {fault['input']!r}") from None


def check(task: Task, tokenizer: str, width: int, train: Train) -> None:
    """Raise ``ValueError`` when a run of this width and schedule cannot learn the task."""
    if tokenizer != NO_TOKENIZER:
        raise ValueError(
            f'a task draws ids and needs no tokenizer: set tokenizer = "{NO_TOKENIZER}", '
            f"not {tokenizer!r}"
        )
    if train.eval_stride is not None:
        raise ValueError("eval_stride is for texts: the rows of a task do not overlap; remove it")
    task.check(train.seq_len)
    task.codes(width, 0)
    parts = train.devices * train.gradient_accumulation
    kinds = getattr(task, "kinds", (1,))
    if parts > 1 and train.batch // parts % len(kinds):
        raise ValueError(
            f"a part of a batch, {train.batch // parts} rows, must hold as many rows of each of "
            f"the {len(kinds)} numbers of pairs, or its mean loss weighs wrongly: take a batch "
            f"that {parts * len(kinds)} divides"
        )


@lru_cache(maxsize=4)
def scored_rows(task: Task, split: str, length: int) -> Rows:
    """Return the rows of the valid or test split: the same for every seed and every arm."""
    assert split in SCORED
    return task.draw(task.eval_rows, length, 0, "scored", split)


@lru_cache
def sha256(task: Task, length: int) -> str:
    """Return the hash of all rows that models are scored on, a task's counterpart of a text's."""
    prints = " ".join(scored_rows(task, split, length).fingerprint() for split in SCORED)
    return hashlib.sha256(prints.encode()).hexdigest()
