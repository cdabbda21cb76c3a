"""Scores a model in training on whole splits: exact, in float32, and interruptible."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from .data import Tokens
from .evaluate import SplitLoss, split_loss
from .model import Transformer
from .settings import Train
from .watch import Diverged


class Scorer:
    """Scores splits of ``tokens`` with the window and stride of a schedule.

    ``before_batch`` is called with the number of tokens of every batch before it goes through the
    model; what it raises ends the scoring, which can be made again.
    """

    def __init__(
        self,
        model: Transformer,
        tokens: Tokens,
        schedule: Train,
        device: str,
        before_batch: Callable[[int], None],
    ) -> None:
        self._model, self._tokens, self._schedule = model, tokens, schedule
        self._device, self._before_batch = device, before_batch

    def loss(self, split: str) -> SplitLoss:
        """Return the loss of a whole split."""
        hook = self._model.register_forward_pre_hook(self._hook)
        try:
            return split_loss(
                self._model,
                getattr(self._tokens, split),
                window=self._schedule.seq_len,
                stride=self._schedule.eval_stride,
                batch=self._schedule.eval_batch,
                device=self._device,
            )
        finally:
            hook.remove()

    def curve(self, known: SplitLoss) -> dict[str, float]:
        """Return what a validation during training logs."""
        return {"loss": known.loss_nats}

    def metrics(self, split: str, known: SplitLoss | None = None) -> dict[str, float]:
        """Return all metrics of a split, from its loss where that is known already.

        Raises:
            Diverged: The loss is not finite.
        """
        loss = known or self.loss(split)
        if not math.isfinite(loss.loss_nats):
            raise Diverged(f"the loss of the {split} split was {loss.loss_nats} nats")
        metrics = {
            "loss": loss.loss_nats,
            "ppl": loss.ppl,
            "bits_per_byte": loss.bits_per_byte(self._tokens.n_bytes[split]),
        }
        if self._tokens.n_words is not None:
            metrics["word_ppl"] = loss.word_ppl(self._tokens.n_words[split])
        return metrics

    def _hook(self, model: torch.nn.Module, inputs: tuple[torch.Tensor]) -> None:
        self._before_batch(inputs[0].numel())
