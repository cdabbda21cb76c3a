"""What a run learns from, a text or a task, behind one interface: batches, and a scorer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from . import corpora, data, tasks, tokenizers
from .drawn import Drawn
from .model import Transformer
from .scoring import Scorer
from .settings import RunSettings, Train


class SourceBatches(Protocol):
    """The batches of one seed."""

    def at(self, step: int) -> tuple[np.ndarray, np.ndarray]:
        """Return inputs and targets of a step, int64 (batch, seq_len); no target is negative."""

    def fingerprint(self, steps: int = 8) -> str:
        """Return the hash of the first batches."""


class Score(Protocol):
    """How a model did on a split."""

    @property
    def loss_nats(self) -> float:
        """Return the mean loss, by which weights are chosen and divergence is seen."""


class SourceScorer(Protocol):
    """Scores one model on the splits of a source."""

    def loss(self, split: str) -> Any:
        """Return the :class:`Score` of a split."""

    def curve(self, known: Any) -> dict[str, float]:
        """Return what a validation during training logs."""

    def metrics(self, split: str, known: Any = None) -> dict[str, float]:
        """Return all metrics of a split, from its score where that is known already."""


class Source(Protocol):
    """A text or a task; ``n_tokens`` maps split -> tokens, of which all but one have a target."""

    @property
    def vocab_size(self) -> int:
        """Return the number of ids."""

    @property
    def n_tokens(self) -> Mapping[str, int]:
        """Return the size of the valid and the test split."""

    def prepare(self, model: Transformer, seed: int) -> None:
        """Change what a model at its start must be given."""

    def sample(self, rows: int, length: int) -> np.ndarray:
        """Return inputs of the validation split, int64 (rows, length), the same at every call.

        They are fewer or shorter where the split holds no more.
        """

    def batches(self, schedule: Train, seed: int) -> SourceBatches:
        """Return the batches of a seed."""

    def scorer(
        self,
        model: Transformer,
        schedule: Train,
        device: str,
        before_batch: Callable[[int], None],
    ) -> SourceScorer:
        """Return what scores a model; ``before_batch`` hears of every batch, and may raise."""


@dataclass(frozen=True)
class Text:
    """The token ids of a corpus."""

    tokens: data.Tokens

    @property
    def vocab_size(self) -> int:
        """Return the number of ids."""
        return self.tokens.vocab_size

    @property
    def n_tokens(self) -> dict[str, int]:
        """Return the number of tokens of each split."""
        return self.tokens.n_tokens

    def prepare(self, model: Transformer, seed: int) -> None:
        """Leave the model as it is."""

    def sample(self, rows: int, length: int) -> np.ndarray:
        """Return rows that lie evenly over the validation text and do not overlap."""
        ids = self.tokens.valid
        length = min(length, len(ids))
        rows = min(rows, len(ids) // length)
        starts = np.arange(rows) * (len(ids) // rows)
        return ids[starts[:, None] + np.arange(length)].astype(np.int64)

    def batches(self, schedule: Train, seed: int) -> data.Batches:
        """Return the batches of a seed.

        Raises ``ValueError`` when the train split is shorter than a batch.
        """
        return data.Batches(
            self.tokens.train, batch=schedule.batch, seq_len=schedule.seq_len, seed=seed
        )

    def scorer(
        self,
        model: Transformer,
        schedule: Train,
        device: str,
        before_batch: Callable[[int], None],
    ) -> Scorer:
        """Return what scores a model on whole splits."""
        return Scorer(model, self.tokens, schedule, device, before_batch)


def load(settings: RunSettings) -> Source:
    """Return what a run learns from.

    Raises:
        ValueError: The text, or what the task draws, is not what the run was planned on.
    """
    declared = settings.data
    if declared.corpus in tasks.names():
        task = tasks.make(declared.corpus, declared.task)
        _require(declared.text_sha256, tasks.sha256(task, settings.train.seq_len), declared.corpus)
        return Drawn(task, settings.train.seq_len)
    corpus = corpora.load(declared.corpus)
    _require(declared.text_sha256, corpus.sha256, corpus.name)
    tokenizer = tokenizers.load(declared.tokenizer, corpus.text["train"])
    return Text(data.prepare(corpus, tokenizer))


def _require(planned: str, here: str, name: str) -> None:
    if here != planned:
        raise ValueError(
            f"the corpus {name} is another text here (sha256 {here[:12]}) than the run was planned "
            f"on ({planned[:12]}); start `cqk run` on this machine, which plans runs on its text"
        )
