"""A task as what a run learns from: batches drawn step by step, splits drawn once and scored."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .answers import Answers, answer
from .codes import give_codes
from .diagnostics import retrieval
from .model import Transformer
from .settings import Train
from .task import Task
from .tasks import SCORED, scored_rows
from .watch import Diverged


class TaskBatches:
    """The batches of one seed, a pure function of (seed, step); no row is seen twice on purpose."""

    def __init__(self, task: Task, *, batch: int, seq_len: int, seed: int) -> None:
        self._task, self._batch, self._seq_len, self._seed = task, batch, seq_len, seed

    def at(self, step: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the inputs and targets of a step, two int64 arrays (batch, seq_len)."""
        rows = self._task.draw(self._batch, self._seq_len, self._seed, "train", step)
        return rows.inputs_bt, rows.labels_bt

    def fingerprint(self, steps: int = 8) -> str:
        """Return the SHA-256 of the first batches, to show that two arms saw the same ones."""
        digest = hashlib.sha256()
        for step in range(steps):
            for ids_bt in self.at(step):
                digest.update(np.ascontiguousarray(ids_bt, dtype="<i8"))
        return digest.hexdigest()


class TaskScorer:
    """Scores the answers to the rows of a split; loss counts positions where an answer is due."""

    def __init__(
        self,
        model: Transformer,
        task: Task,
        schedule: Train,
        device: str,
        before_batch: Callable[[int], None],
    ) -> None:
        self._model, self._task, self._schedule = model, task, schedule
        self._device, self._before_batch = device, before_batch

    def loss(self, split: str) -> Answers:
        """Return the answers to a whole split."""
        was_training = self._model.training
        self._model.eval()
        try:
            return answer(
                self._model,
                scored_rows(self._task, split, self._schedule.seq_len),
                batch=self._schedule.eval_batch,
                device=self._device,
                before_batch=self._before_batch,
            )
        finally:
            self._model.train(was_training)

    def curve(self, known: Answers) -> dict[str, float]:
        """Return what a validation during training logs."""
        return {"loss": known.loss_nats, "accuracy": known.accuracy}

    def metrics(self, split: str, known: Answers | None = None) -> dict[str, float]:
        """Return all metrics of a split: of its answers, and of attention at its questions.

        Beside them stand two accuracies of guessing: among all ids that can be an answer, and among
        what a row itself holds to choose from, which needs no recall either.

        Raises:
            Diverged: The loss is not finite.
        """
        found = known or self.loss(split)
        if not math.isfinite(found.loss_nats):
            raise Diverged(f"the loss of the {split} split was {found.loss_nats} nats")
        rows = scored_rows(self._task, split, self._schedule.seq_len)
        by_chance = {
            "accuracy_chance": self._task.chance,
            "accuracy_chance_in_row": float((1.0 / rows.pairs_b).mean()),
        }
        return {**found.metrics(), **by_chance, **retrieval(self._model, rows, self._device)}


@dataclass(frozen=True)
class Drawn:
    """A task with the length of its rows."""

    task: Task
    length: int

    @property
    def vocab_size(self) -> int:
        """Return the number of ids."""
        return self.task.vocab_size

    @property
    def n_tokens(self) -> dict[str, int]:
        """Return the tokens of each scored split, counted as a text's: one has no target."""
        return dict.fromkeys(SCORED, self.task.eval_rows * self.length + 1)

    def prepare(self, model: Transformer, seed: int) -> None:
        """Give a model at its start the input vectors that the task fixes."""
        codes_ve = self.task.codes(model.sizes.width, seed)
        if codes_ve is not None:
            give_codes(model, codes_ve)

    def sample(self, rows: int, length: int) -> np.ndarray:
        """Return the first rows of the validation split."""
        return scored_rows(self.task, "valid", length).inputs_bt[:rows]

    def batches(self, schedule: Train, seed: int) -> TaskBatches:
        """Return the batches of a seed."""
        return TaskBatches(self.task, batch=schedule.batch, seq_len=schedule.seq_len, seed=seed)

    def scorer(
        self,
        model: Transformer,
        schedule: Train,
        device: str,
        before_batch: Callable[[int], None],
    ) -> TaskScorer:
        """Return what scores a model on the splits."""
        return TaskScorer(model, self.task, schedule, device, before_batch)
