"""The exact loss of a model over a whole split: nats summed over scored tokens, divided once."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn import functional


class Window(NamedTuple):
    """Inputs ``ids[start:stop]``, targets one later; those from ``first`` on are scored."""

    start: int
    stop: int
    first: int


@dataclass(frozen=True)
class SplitLoss:
    """The loss of one split.

    ``total_nats`` is the negative log-likelihood of the ``n_scored`` targets. The first token of a
    split has no context and is never scored, so there are ``n_tokens`` - 1 of them.
    """

    total_nats: float
    n_scored: int
    window: int
    stride: int

    @property
    def loss_nats(self) -> float:
        """Return the mean loss per scored token."""
        return self.total_nats / self.n_scored

    @property
    def ppl(self) -> float:
        """Return the perplexity per token; comparable for one tokenizer and one text only."""
        return _exp(self.loss_nats)

    def bits_per_byte(self, n_bytes: int) -> float:
        """Return the loss per UTF-8 byte of the split's text, in bits; any tokenizers compare."""
        return self.total_nats / (math.log(2) * n_bytes)

    def word_ppl(self, n_words: int) -> float:
        """Return the perplexity per word of the split's text."""
        return _exp(self.total_nats / n_words)


def windows(n_tokens: int, window: int, stride: int | None = None) -> Iterator[Window]:
    """Yield the windows that score every token but the first exactly once.

    A window has at most ``window`` inputs. The next one starts ``stride`` later and scores what no
    window has scored, so beyond the first window every target has at least ``window - stride + 1``
    tokens before it. Raises ``ValueError`` for fewer than two tokens, or a stride that is not from
    1 to ``window``.

    >>> [tuple(w) for w in windows(8, window=4, stride=2)]
    [(0, 4, 1), (2, 6, 5), (4, 7, 7)]
    """
    stride = window if stride is None else stride
    if not 1 <= stride <= window:
        raise ValueError(f"the stride must be from 1 to the window ({window}), not {stride}")
    if n_tokens < 2:
        raise ValueError(f"a split of {n_tokens} tokens has no token to predict: it needs two")
    scored = 0
    for start in range(0, n_tokens - 1, stride):
        stop = min(start + window, n_tokens - 1)
        yield Window(start, stop, scored + 1)
        scored = stop
        if stop == n_tokens - 1:
            return


def split_loss(
    model: nn.Module,
    ids: np.ndarray,
    *,
    window: int,
    stride: int | None = None,
    batch: int,
    device: str | torch.device = "cpu",
    autocast: torch.dtype | None = None,
) -> SplitLoss:
    """Return the loss of ``model(ids_bt) -> logits_btv`` over a whole split.

    Nothing is padded: a last window that is shorter goes through the model alone. Log-softmax in
    float32, sum in float64. The model's train or eval modes are as before afterwards. A loss that
    is not finite is returned as it is. Raises ``ValueError`` as :func:`windows` does.

    >>> indifferent = nn.Embedding.from_pretrained(torch.zeros(3, 3))
    >>> round(split_loss(indifferent, np.array([0, 2, 1, 1]), window=2, batch=1).ppl, 6)
    3.0
    """
    stride = window if stride is None else stride
    total_nats, n_scored = 0.0, 0
    with torch.no_grad(), _evaluating(model), _precision(device, autocast):
        for group in _groups(list(windows(len(ids), window, stride)), batch):
            nats = _scored_nats(model, ids, group, device)
            total_nats += float(nats.sum())
            n_scored += nats.numel()
    return SplitLoss(total_nats, n_scored, window, stride)


def _groups(spans: list[Window], batch: int) -> Iterator[list[Window]]:
    """Cut windows into batches of equal length; only the last window can be shorter."""
    length = spans[0].stop - spans[0].start
    whole = [span for span in spans if span.stop - span.start == length]
    for first in range(0, len(whole), batch):
        yield whole[first : first + batch]
    if len(whole) < len(spans):
        yield spans[len(whole) :]


def _scored_nats(
    model: nn.Module, ids: np.ndarray, group: list[Window], device: str | torch.device
) -> torch.Tensor:
    """Return the losses of the targets that a batch of windows scores, float64 on the CPU."""
    starts = np.array([[span.start] for span in group])
    index_bt = starts + np.arange(group[0].stop - group[0].start + 1)
    ids_bt = torch.from_numpy(ids[index_bt].astype(np.int64)).to(device)
    logits_btv = model(ids_bt[:, :-1])
    assert logits_btv.shape[:2] == (len(group), ids_bt.shape[1] - 1)
    # Row by row: a float32 copy of all logits is the largest thing an evaluation would hold.
    nats_bt = torch.stack(
        [
            functional.cross_entropy(row_tv.float(), targets_t, reduction="none")
            for row_tv, targets_t in zip(logits_btv, ids_bt[:, 1:], strict=True)
        ]
    )
    scored_bt = index_bt[:, 1:] >= np.array([[span.first] for span in group])
    return nats_bt.to("cpu", torch.float64)[torch.from_numpy(scored_bt)]


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


def _precision(
    device: str | torch.device, autocast: torch.dtype | None
) -> torch.autocast | nullcontext[None]:
    if autocast is None:
        return nullcontext()
    return torch.autocast(torch.device(device).type, dtype=autocast)


def _exp(nats: float) -> float:
    try:
        return math.exp(nats)
    except OverflowError:
        return math.inf
