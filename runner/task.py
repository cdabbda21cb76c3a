"""The contract of a task: sequences that are drawn, with answers due at a few positions."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from pydantic import BaseModel, ConfigDict, PositiveInt

IGNORED = -100  # the target that losses skip


@dataclass(frozen=True)
class Rows:
    """Sequences of a task, all of one length.

    ``labels_bt`` holds the answer at the position where it is due, else ``IGNORED``. ``found_bt``
    holds, at these positions, where the answer stands in the sequence, and ``key_bt`` where the key
    that leads to it stands; both are -1 elsewhere. ``pairs_b`` counts what a row holds to choose
    an answer from.
    """

    inputs_bt: np.ndarray
    labels_bt: np.ndarray
    found_bt: np.ndarray
    key_bt: np.ndarray
    pairs_b: np.ndarray

    @property
    def distance_bt(self) -> np.ndarray:
        """Return how far back the answer stands where one is due, else 0."""
        here = np.arange(self.inputs_bt.shape[1])
        return np.where(self.labels_bt == IGNORED, 0, here - self.found_bt)

    def take(self, rows: Any) -> Rows:
        """Return some of the rows, by slice or index."""
        return Rows(*(getattr(self, field.name)[rows] for field in fields(self)))

    def fingerprint(self) -> str:
        """Return the SHA-256 of all that is in the rows."""
        digest = hashlib.sha256()
        for field in fields(self):
            digest.update(np.ascontiguousarray(getattr(self, field.name), dtype="<i8"))
        return digest.hexdigest()


def empty_rows(rows: int, length: int, pairs_b: np.ndarray) -> Rows:
    """Return rows of zeros in which no answer is due yet, to be written into."""
    shape = (rows, length)
    nowhere = np.full(shape, -1, dtype=np.int64)
    return Rows(
        np.zeros(shape, dtype=np.int64),
        np.full(shape, IGNORED, dtype=np.int64),
        nowhere,
        nowhere.copy(),
        pairs_b,
    )


class Task(BaseModel):
    """A task and its settings; a study's table [data.task] is validated by it.

    A subclass says in ``summary`` what it is, its chance level included, in ``source`` where it
    comes from, and in ``examples`` settings that the tests run at ``example_length``.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    summary: ClassVar[str]
    source: ClassVar[str]
    examples: ClassVar[tuple[dict[str, Any], ...]]
    example_length: ClassVar[int] = 64

    eval_rows: PositiveInt = 1024
    """Sequences of the valid and of the test split each."""

    @property
    def vocab_size(self) -> int:
        """Return the number of ids; all lie below it."""
        raise NotImplementedError

    @property
    def chance(self) -> float:
        """Return the accuracy of guessing among the ids that can be an answer."""
        raise NotImplementedError

    def check(self, length: int) -> None:
        """Raise ``ValueError`` when sequences of this length cannot hold what the task needs."""
        raise NotImplementedError

    def draw(self, rows: int, length: int, seed: int, *stream: object) -> Rows:
        """Return rows from the stream of that name: a pure function of its arguments."""
        raise NotImplementedError

    def codes(self, width: int, seed: int) -> np.ndarray | None:
        """Return fixed input vectors (ids, width), rows of zeros for ids that learn theirs.

        None where all ids learn theirs.
        """
        return None
