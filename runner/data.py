"""Token files, encoded once per machine, and the batches that a seed draws from them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from . import cache
from .corpora import SPLITS, Corpus
from .streams import fold
from .tokenizers import Tokenizer


@dataclass(frozen=True)
class Tokens:
    """The ids of one corpus under one tokenizer: read-only uint16 or uint32 arrays on disk.

    ``sha256`` identifies corpus and tokenizer together. ``n_words`` is None where the corpus
    counts no words.
    """

    train: np.ndarray
    valid: np.ndarray
    test: np.ndarray
    vocab_size: int
    n_bytes: dict[str, int]
    n_words: dict[str, int] | None
    sha256: str

    @property
    def n_tokens(self) -> dict[str, int]:
        """Return the number of tokens of each split."""
        return {split: len(getattr(self, split)) for split in SPLITS}


def prepare(corpus: Corpus, tokenizer: Tokenizer) -> Tokens:
    """Return the token ids of a corpus, from the cache where an intact file is there.

    Two processes that ask at once encode once. Raises ``ValueError`` when the cache folder cannot
    be written.
    """
    key = f"{corpus.sha256[:16]}-{tokenizer.sha256[:16]}"
    arrays = {split: _mapped(corpus, tokenizer, split, key) for split in SPLITS}
    return Tokens(
        **arrays,
        vocab_size=tokenizer.vocab_size,
        n_bytes=corpus.n_bytes,
        n_words=corpus.n_words,
        sha256=hashlib.sha256(f"{corpus.sha256} {tokenizer.sha256}".encode()).hexdigest(),
    )


def _mapped(corpus: Corpus, tokenizer: Tokenizer, split: str, key: str) -> np.ndarray:
    dtype = np.dtype("<u2" if tokenizer.vocab_size <= 2**16 else "<u4")

    def build() -> bytes:
        ids = tokenizer.encode(corpus.text[split])
        assert ids.size == 0 or 0 <= int(ids.min()) <= int(ids.max()) < tokenizer.vocab_size
        return ids.astype(dtype).tobytes()

    path = cache.sealed(cache.folder() / "tokens" / key / f"{split}.bin", build)
    return np.memmap(path, dtype=dtype, mode="r", offset=cache.HEADER_BYTES)


class Batches:
    """The batches of one seed: a pure function of (seed, step), whatever the arm.

    Epoch ``e`` lays windows of ``seq_len`` + 1 tokens over the split, each sharing one token with
    the next, from an offset of its own, in an order of its own. A step takes the next ``batch``
    windows of the endless row of epochs; its number is all there is to remember. An epoch has
    ``n_windows`` windows. Raises ``ValueError`` when that is less than a batch.

    >>> x_bt, y_bt = Batches(np.arange(100, 110), batch=1, seq_len=4, seed=0).at(step=7)
    >>> (y_bt - x_bt).tolist()
    [[1, 1, 1, 1]]
    """

    def __init__(self, tokens_train: np.ndarray, *, batch: int, seq_len: int, seed: int) -> None:
        """Lay out the windows of a split; ``tokens_train`` is a one-dimensional array of ids."""
        n_tokens = len(tokens_train)
        # One window less than could fit, so that offsets reach over a whole window and more.
        self.n_windows = max(n_tokens // seq_len - 1, int(n_tokens > seq_len))
        if self.n_windows < batch:
            raise ValueError(
                f"a batch of {batch} windows of {seq_len} tokens needs more than the "
                f"{n_tokens:,} tokens of this split, which hold {self.n_windows} "
                "windows: take a smaller batch, a smaller seq_len, or a longer text"
            )
        self._tokens = tokens_train
        self._batch = batch
        self._seq_len = seq_len
        self._seed = seed
        self._n_offsets = n_tokens - self.n_windows * seq_len
        self._epoch = lru_cache(maxsize=2)(self._draw_epoch)

    def at(self, step: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the inputs and targets of a step, two int64 arrays (batch, seq_len)."""
        places = range(step * self._batch, (step + 1) * self._batch)
        starts = [self._start(*divmod(place, self.n_windows)) for place in places]
        index_bt = np.array(starts)[:, None] + np.arange(self._seq_len + 1)
        ids_bt = self._tokens[index_bt].astype(np.int64)
        return ids_bt[:, :-1], ids_bt[:, 1:]

    def fingerprint(self, steps: int = 8) -> str:
        """Return the SHA-256 of the first batches, to show that two arms saw the same ones."""
        digest = hashlib.sha256()
        for step in range(steps):
            for ids_bt in self.at(step):
                digest.update(np.ascontiguousarray(ids_bt, dtype="<i8"))
        return digest.hexdigest()

    def _start(self, epoch: int, place: int) -> int:
        offset, order = self._epoch(epoch)
        return offset + int(order[place]) * self._seq_len

    def _draw_epoch(self, epoch: int) -> tuple[int, np.ndarray]:
        # Raw draws, sorted: numpy promises its bit streams for ever, its shuffles not.
        stream = np.random.PCG64(fold(self._seed, "epoch", epoch))
        offset = int(stream.random_raw()) % self._n_offsets
        return offset, np.argsort(stream.random_raw(self.n_windows), kind="stable")
