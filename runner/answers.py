"""Scores a model's answers to a task: loss and accuracy, by row, by pairs and by distance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional as F

from .layers import wide
from .model import Transformer
from .task import IGNORED, Rows


@dataclass(frozen=True)
class Answers:
    """One entry for each answer that was due: its nats, whether it was right, and what it is of.

    ``distance_n`` is how far back the answer stood, ``pairs_n`` from how many it was chosen.
    """

    nats_n: np.ndarray
    right_n: np.ndarray
    row_n: np.ndarray
    distance_n: np.ndarray
    pairs_n: np.ndarray

    @property
    def loss_nats(self) -> float:
        """Return the mean loss of an answer."""
        return float(self.nats_n.mean())

    @property
    def accuracy(self) -> float:
        """Return the mean over rows of the part of a row's answers that is right."""
        return self._accuracy(np.ones_like(self.right_n))

    def metrics(self) -> dict[str, float]:
        """Return loss and accuracy, the latter also by number of pairs and by distance.

        ``accuracy_distance_16`` is of the answers 16 to 31 tokens back; a distance that does not
        occur has no entry, nor has the number of pairs where all rows have the same.
        """
        found = {"loss": self.loss_nats, "accuracy": self.accuracy}
        kinds = np.unique(self.pairs_n).tolist()
        for pairs in kinds if len(kinds) > 1 else ():
            found[f"accuracy_pairs_{pairs}"] = self._accuracy(self.pairs_n == pairs)
        octave_n = np.log2(self.distance_n).astype(np.int64)
        for octave in np.unique(octave_n).tolist():
            found[f"accuracy_distance_{2**octave}"] = self._accuracy(octave_n == octave)
        return found

    def _accuracy(self, chosen_n: np.ndarray) -> float:
        _, row_n = np.unique(self.row_n[chosen_n.astype(bool)], return_inverse=True)
        right_b = np.bincount(row_n, weights=self.right_n[chosen_n.astype(bool)])
        return float((right_b / np.bincount(row_n)).mean())


@torch.no_grad()
def answer(
    model: Transformer,
    rows: Rows,
    *,
    batch: int,
    device: str = "cpu",
    before_batch: Callable[[int], None] = lambda tokens: None,
) -> Answers:
    """Return the answers of a model in its present mode; only logits that are due are computed.

    ``before_batch`` is called with the number of tokens of each batch; what it raises gets through.
    """
    nats, right = [], []
    for start in range(0, len(rows.inputs_bt), batch):
        part = rows.take(slice(start, start + batch))
        before_batch(part.inputs_bt.size)
        due_bt = torch.from_numpy(part.labels_bt != IGNORED).to(device)
        target_n = torch.from_numpy(part.labels_bt).to(device)[due_bt]
        states_bte = model.states(torch.from_numpy(part.inputs_bt).to(device), None, None)
        logits_nv = wide(F.linear(states_bte[due_bt], model.embedding.weight))
        nats.append(F.cross_entropy(logits_nv, target_n, reduction="none").double().cpu())
        right.append((logits_nv.argmax(-1) == target_n).cpu())
    row_n, at_n = np.nonzero(rows.labels_bt != IGNORED)
    return Answers(
        torch.cat(nats).numpy(),
        torch.cat(right).numpy(),
        row_n,
        rows.distance_bt[row_n, at_n],
        rows.pairs_b[row_n],
    )
