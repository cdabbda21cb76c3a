"""What attention does at a task's questions: how sharp it is, and whether it finds the pair."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from .attention.base import Attention
from .layers import Rotary
from .model import Transformer
from .task import IGNORED, Rows

PROBED_ROWS = 64
ROWS_AT_ONCE = 16


def maps(attention: Attention, x_bte: Tensor, rotary: Rotary) -> Tensor | None:
    """Return how much each head's output takes of each token's value, (B, H, T, T).

    They are read off by letting a method weigh unit vectors, so that whatever it does to its
    weights, a difference of maps or a kernel over them, is in them. None where the output is not
    linear in the values, or where the method does not keep to the common frame.
    """
    if not hasattr(attention, "score_naive"):
        return None
    q_bhtd, k_bgtd = attention.coupling(*attention.project(x_bte))
    q_bhtd, k_bgtd = attention.place(q_bhtd, k_bgtd, rotary, 0)
    if not _is_linear(attention, q_bhtd[:1], k_bgtd[:1]):
        return None
    tokens = x_bte.shape[1]
    # A method may join neighbouring value heads; each holds the same unit vectors.
    v_bgtt = torch.eye(tokens).to(x_bte).expand(*k_bgtd.shape[:2], -1, -1)
    return attention.score_naive(q_bhtd, k_bgtd, v_bgtt, None)[..., :tokens]


def _is_linear(attention: Attention, q_1htd: Tensor, k_1gtd: Tensor) -> bool:
    """Return whether values twice as large give an output twice as large."""
    v_1gtd = torch.eye(*k_1gtd.shape[-2:]).to(k_1gtd).expand_as(k_1gtd)
    once, twice = (attention.score_naive(q_1htd, k_1gtd, n * v_1gtd, None) for n in (1.0, 2.0))
    return torch.allclose(twice, 2.0 * once, rtol=1e-4, atol=1e-6)


def split_entropy(weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return sink weight a and the two parts of the entropy in nats, h(a) and (1 - a) H(rest).

    Their sum is exactly the entropy over the last axis: the first key is the sink, the rest is
    renormalised, h is the entropy of two outcomes. Weights count as shares of their absolute sum,
    since a difference of maps may be negative; zeros need no floor. Source: "Which Question Is Your
    Attention Metric Answering?", Papamichalis and Ruane, 2026, https://arxiv.org/abs/2608.14712.

    >>> sink, of_sink, of_content = split_entropy(torch.tensor([0.5, 0.25, 0.25, 0.0]))
    >>> torch.stack((sink, of_sink, of_content / of_sink))
    tensor([0.5000, 0.6931, 0.5000])
    """
    shares = weights.abs() / weights.abs().sum(-1, keepdim=True)
    sink, content = shares[..., 0], shares[..., 1:]
    of_rest = torch.special.entr(content.sum(-1))
    return sink, torch.special.entr(sink) + of_rest, torch.special.entr(content).sum(-1) - of_rest


@torch.no_grad()
def retrieval(model: Transformer, rows: Rows, device: str = "cpu") -> dict[str, float]:
    """Return what the head that retrieves does at the questions of the first rows, on average.

    It is the head, of all layers, with the most weight on the pair that holds the answer.
    ``attention_relevant`` is this weight, on key and value together, ``attention_sink`` the weight
    on the row's first token; ``entropy`` in nats is the sum of ``entropy_sink`` and
    ``entropy_content``. Questions whose pair begins the row are left out, since there the sink is
    the key. Empty where an attention has no maps to read.
    """
    measured = []
    for start in range(0, min(PROBED_ROWS, len(rows.inputs_bt)), ROWS_AT_ONCE):
        found = _measured(model, rows.take(slice(start, start + ROWS_AT_ONCE)), device)
        if found is None:
            return {}
        measured.append(found)
    mean_hm = torch.cat(measured, dim=1).double().mean(dim=1).flatten(0, 1)
    best = mean_hm[mean_hm[:, 0].argmax()].tolist()
    names = ("attention_relevant", "attention_sink", "entropy_sink", "entropy_content")
    return {**dict(zip(names, best, strict=True)), "entropy": best[2] + best[3]}


def _measured(model: Transformer, rows: Rows, device: str) -> Tensor | None:
    """Return four numbers for each layer, question and head: (layers, questions, H, 4)."""
    row_n, at_n = map(torch.from_numpy, np.nonzero((rows.labels_bt != IGNORED) & (rows.key_bt > 0)))
    pair_n12 = torch.from_numpy(np.stack((rows.key_bt, rows.found_bt), -1))[row_n, at_n][:, None]
    layers = []
    inputs = torch.from_numpy(rows.inputs_bt).to(device)
    for block, x_bte in zip(model.blocks, _inputs_of_layers(model, inputs), strict=True):
        maps_bhts = maps(block.attention, x_bte, model.rotary)
        if maps_bhts is None:
            return None
        weights_nhs = maps_bhts[row_n, :, at_n]
        at_nh2 = pair_n12.expand(-1, weights_nhs.shape[1], -1).to(device)
        on_pair = weights_nhs.abs().gather(-1, at_nh2).sum(-1) / weights_nhs.abs().sum(-1)
        layers.append(torch.stack((on_pair, *split_entropy(weights_nhs)), dim=-1).cpu())
    return torch.stack(layers)


def _inputs_of_layers(model: Transformer, x_bt: Tensor) -> list[Tensor]:
    """Return what each layer's attention gets to see."""
    seen: list[Tensor] = []
    hooks = [
        block.attention.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
        for block in model.blocks
    ]
    try:
        model.states(x_bt, None, None)
    finally:
        for hook in hooks:
            hook.remove()
    return seen
