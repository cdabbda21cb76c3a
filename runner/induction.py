"""Induction: a trigger stands twice in a row of random tokens; what followed it is asked for."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field, PositiveInt

from .draws import Draws
from .task import Rows, Task, empty_rows


class Induction(Task):
    """Behind the second trigger, at the row's end, the tokens that followed the first are due.

    Id 0 is the trigger, all others are drawn with equal probability, and so is the place of the
    first trigger. Guessing scores 1 / (vocabulary - 1).
    """

    summary = "repeat what followed a trigger earlier in the row; chance 1 / (vocabulary - 1)"
    source = (
        "In-context Learning and Induction Heads, C. Olsson et al., 2022, "
        "https://arxiv.org/abs/2209.11895; with a trigger as in Hungry Hungry Hippos: Towards "
        "Language Modeling with State Space Models, D. Fu et al., 2022, "
        "https://arxiv.org/abs/2212.14052"
    )
    examples = ({}, {"vocabulary": 7, "copied": 5}, {"vocabulary": 3, "copied": 31})

    vocabulary: Annotated[int, Field(ge=3)] = 64
    """Ids, the trigger's included."""
    copied: PositiveInt = 1
    """How many tokens are to be repeated."""

    @property
    def vocab_size(self) -> int:
        """Return the number of ids."""
        return self.vocabulary

    @property
    def chance(self) -> float:
        """Return the accuracy of guessing among all ids but the trigger."""
        return 1.0 / (self.vocabulary - 1)

    def check(self, length: int) -> None:
        """Raise ``ValueError`` when both triggers and what follows them do not fit."""
        if length < 2 * self.copied + 1:
            raise ValueError(
                f"two triggers and copied = {self.copied} tokens behind each take at least "
                f"{2 * self.copied + 1} tokens: seq_len = {length} is too short"
            )

    def draw(self, rows: int, length: int, seed: int, *stream: object) -> Rows:
        """Return rows from the stream of that name."""
        self.check(length)
        last = length - self.copied
        # As many places as there are for the first trigger, and so for the answer.
        drawn = empty_rows(rows, length, np.full(rows, last - self.copied, dtype=np.int64))
        inputs_bt = drawn.inputs_bt
        inputs_bt[:] = 1 + Draws(seed, *stream, "tokens").below(self.vocabulary - 1, (rows, length))
        first_b1 = Draws(seed, *stream, "place").below(last - self.copied, (rows, 1))
        row_b1, steps = np.arange(rows)[:, None], np.arange(self.copied)
        found_bc = first_b1 + 1 + steps
        answers_bc = inputs_bt[row_b1, found_bc]
        inputs_bt[row_b1, first_b1] = 0
        inputs_bt[:, last] = 0
        inputs_bt[:, last + 1 :] = answers_bc[:, :-1]
        due = last + steps
        drawn.labels_bt[:, due] = answers_bc
        drawn.found_bt[:, due], drawn.key_bt[:, due] = found_bc, found_bc - 1
        return drawn
