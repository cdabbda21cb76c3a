"""Associative recall exactly as the public generator draws it, number for number.

For comparison with published runs. The streams are numpy's legacy one and torch's, both frozen by
their makers; ours are in recall.py. Two known faults come along: a reassigned key may keep its
value, and filler may repeat a key. Source: "Zoology: Measuring and Improving Recall in Efficient
Language Models", S. Arora et al., 2023, https://arxiv.org/abs/2312.04927, and its repository
https://github.com/HazyResearch/zoology (commit d88d6f5).
"""

from __future__ import annotations

import numpy as np
import torch

from .task import IGNORED


def multi_query(
    *,
    vocabulary: int,
    examples: int,
    length: int,
    pairs: int,
    seed: int,
    gap_power: float = 0.01,
    filler_seed: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and labels (examples, length) of plain recall, int64.

    ``filler_seed`` is torch's seed just before the blanks are filled; None leaves them 0.

    >>> multi_query(vocabulary=20, examples=1, length=16, pairs=2, seed=0)[0].tolist()
    [[8, 13, 3, 11, 0, 0, 3, 0, 0, 0, 8, 0, 0, 0, 0, 0]]
    """
    stream, half = np.random.RandomState(seed), vocabulary // 2
    keys = _subsets(stream, examples, np.arange(1, half), pairs)
    values = _subsets(stream, examples, np.arange(half, vocabulary), pairs)
    context = np.stack((keys, values), axis=-1).reshape(examples, -1)
    drawn = _ask(stream, context, keys[..., None], values, length, gap_power)
    return _filled(*drawn, vocabulary, filler_seed)


def forgetting(
    *,
    vocabulary: int,
    examples: int,
    length: int,
    pairs: int,
    updates: int,
    seed: int,
    gap_power: float = 0.01,
    filler_seed: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and labels where ``updates`` of the keys get a second value, the answer.

    The second value of update j differs from the first value of key j, which is not always the key
    that is updated.
    """
    stream, half = np.random.RandomState(seed), vocabulary // 2
    pool = np.arange(half, vocabulary)
    keys = _subsets(stream, examples, np.arange(1, half), pairs)
    values = _subsets(stream, examples, pool, pairs)
    later = np.array([[stream.choice(pool[pool != v]) for v in row[:updates]] for row in values])
    updated = _subsets(stream, examples, np.arange(pairs), updates)
    answers = values.copy()
    np.put_along_axis(answers, updated, later, axis=1)
    all_keys = np.concatenate((keys, np.take_along_axis(keys, updated, axis=1)), axis=1)
    all_values = np.concatenate((values, later), axis=1)
    context = np.stack((all_keys, all_values), axis=-1).reshape(examples, -1)
    drawn = _ask(stream, context, keys[..., None], answers, length, gap_power)
    return _filled(*drawn, vocabulary, filler_seed)


def compositional(
    *,
    vocabulary: int,
    examples: int,
    length: int,
    pairs: int,
    seed: int,
    gap_power: float = 0.01,
    filler_seed: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and labels of recall with keys of two tokens; ``pairs`` is a square number."""
    stream, third, side = np.random.RandomState(seed), vocabulary // 3, round(pairs**0.5)
    first = _subsets(stream, examples, np.arange(1, third), side)
    second = _subsets(stream, examples, np.arange(third, 2 * third), side)
    grid = np.stack((np.repeat(first, side, axis=1), np.tile(second, (1, side))), axis=-1)
    keys = np.stack([row[stream.permutation(pairs)] for row in grid])
    values = _subsets(stream, examples, np.arange(2 * third, vocabulary), pairs)
    context = np.concatenate((keys, values[..., None]), axis=-1).reshape(examples, -1)
    drawn = _ask(stream, context, keys, values, length, gap_power)
    return _filled(*drawn, vocabulary, filler_seed)


def continuous(
    embeddings_ve: np.ndarray, *, examples: int, pairs: int, passes: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return vectors (examples, tokens, 2 E) and, per question, which of the values is due.

    A token is a key's embedding beside its value's; a question has zeros for the value. The first
    half of ``embeddings_ve`` are keys, the second half values.
    """
    stream = torch.Generator().manual_seed(seed)

    def order(n: int) -> np.ndarray:
        return torch.randperm(n, generator=stream).numpy()

    ids = len(embeddings_ve) // 2
    inputs, labels = [], []
    for _ in range(examples):
        keys, values, partner = order(ids)[:pairs], order(ids)[:pairs], order(pairs)
        shown = np.concatenate([order(pairs) for _ in range(passes)])
        asked = order(pairs)
        of_keys = embeddings_ve[keys[np.concatenate((shown, asked))]]
        of_values = np.zeros_like(of_keys)
        of_values[: len(shown)] = embeddings_ve[ids + values[partner[shown]]]
        inputs.append(np.concatenate((of_keys, of_values), axis=1))
        labels.append(values[partner[asked]])
    return np.stack(inputs), np.stack(labels)


def _subsets(stream: np.random.RandomState, rows: int, ids: np.ndarray, size: int) -> np.ndarray:
    return np.stack([stream.choice(ids, size, replace=False) for _ in range(rows)])


def _ask(
    stream: np.random.RandomState,
    context_bc: np.ndarray,
    keys_bkn: np.ndarray,
    answers_bk: np.ndarray,
    length: int,
    gap_power: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Put the questions behind the context, each key's last token with its answer as the label."""
    rows, context = context_bc.shape
    wide = keys_bkn.shape[2] + 1
    # The rate is multiplied in before the sum is divided out: the last bits decide a draw.
    slots = np.arange(1, (length - context) // wide + 1)
    weights = gap_power * slots ** (gap_power - 1)
    weights = weights / weights.sum()
    gaps = [
        stream.choice(len(slots), answers_bk.shape[1], replace=False, p=weights)
        for _ in range(rows)
    ]
    first_bk = context + wide * np.stack(gaps)
    inputs, labels = np.zeros((rows, length), np.int64), np.full((rows, length), IGNORED)
    inputs[:, :context] = context_bc
    row_b1 = np.arange(rows)[:, None]
    for place in range(wide - 1):
        inputs[row_b1, first_bk + place] = keys_bkn[..., place]
    labels[row_b1, first_bk + wide - 2] = answers_bk
    return inputs, labels


def _filled(
    inputs: np.ndarray, labels: np.ndarray, vocabulary: int, filler_seed: int | None
) -> tuple[np.ndarray, np.ndarray]:
    if filler_seed is not None:
        stream = torch.Generator().manual_seed(filler_seed)
        filler = torch.randint(vocabulary, inputs.shape, generator=stream).numpy()
        inputs = np.where(inputs == 0, filler, inputs)
    return inputs, labels
