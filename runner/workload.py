"""How much of a run is done, in one unit for training and scoring, so that progress is honest."""

from __future__ import annotations

import math
from collections.abc import Mapping

from .settings import Train

# A backward pass costs about two forward passes.
PASSES_PER_STEP = 3


class Workload:
    """Counts forward passes of tokens: ``done`` so far, ``total`` in the whole run.

    ``n_tokens`` maps split -> number of tokens. Validations during training and the scoring of both
    splits at the end count as much as they cost.

    >>> schedule = Train(seq_len=8, tokens=800, batch=2, lr=0.1, evaluate_every=25)
    >>> Workload(schedule, {"valid": 81, "test": 41}, step=0).total
    2600
    """

    def __init__(self, schedule: Train, n_tokens: Mapping[str, int], step: int) -> None:
        self._per_step = PASSES_PER_STEP * schedule.batch * schedule.seq_len
        passes = {s: scoring_passes(n_tokens[s], schedule) for s in ("valid", "test")}
        every = schedule.evaluate_every
        validations = math.ceil(schedule.steps / every) if every else 0
        before = min(max(step - 1, 0) // every, validations) if every else 0
        self.done = step * self._per_step + before * passes["valid"]
        # The last validation is the final score, unless other weights are chosen.
        scores = passes["test"] + (0 if every else passes["valid"])
        self.total = schedule.steps * self._per_step + validations * passes["valid"] + scores

    def add_step(self) -> None:
        """Count one optimiser step."""
        self.done += self._per_step

    def add_passes(self, tokens: int) -> None:
        """Count tokens that went through the model for a score."""
        self.done = min(self.done + tokens, self.total)


def scoring_passes(n_tokens: int, schedule: Train) -> int:
    """Return how many tokens go through the model to score a split of ``n_tokens``."""
    window, targets = schedule.seq_len, n_tokens - 1
    stride = schedule.eval_stride or window
    further = max(0, math.ceil((targets - window) / stride))
    last = targets - further * stride if further else min(window, targets)
    return further * window + last
