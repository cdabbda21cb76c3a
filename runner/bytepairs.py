"""Byte-level pair encodings: GPT-2's, and those that a text teaches."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import tiktoken
import tiktoken.load
import tokenizers
from tokenizers import models, pre_tokenizers, trainers

from . import cache, placed

# Merges never cross these pieces: Alec Radford et al., "Language Models are Unsupervised Multitask
# Learners", 2019, https://github.com/openai/gpt-2.
PIECES = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
GPT2_PLACE = "gpt2/vocab.bpe"
GPT2_SHA256 = "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5"
GPT2_ADDRESS = "https://openaipublic.blob.core.windows.net/gpt-2/encodings/main/vocab.bpe"


@dataclass(frozen=True)
class BytePairs:
    """Byte-level pair encoding; the id of a token is the rank at which it was learned.

    Rico Sennrich, Barry Haddow and Alexandra Birch, "Neural Machine Translation of Rare Words with
    Subword Units", 2016, https://arxiv.org/abs/1508.07909. ``n_special`` ids after the tokens stand
    for no text (GPT-2 has one, its end of text) and are never encoded.
    """

    name: str
    tokens: tuple[bytes, ...]
    n_special: int = 0

    @property
    def vocab_size(self) -> int:
        """Return the number of ids, the special ones included."""
        return len(self.tokens) + self.n_special

    @cached_property
    def sha256(self) -> str:
        """Return the hash of the tokens by id, and of the rule that cuts pieces."""
        lines = [PIECES.encode(), b"%d" % self.n_special, _listed(self.tokens)]
        return hashlib.sha256(b"\n".join(lines)).hexdigest()

    @cached_property
    def _encoding(self) -> tiktoken.Encoding:
        ranks = {token: rank for rank, token in enumerate(self.tokens)}
        return tiktoken.Encoding(
            self.name, pat_str=PIECES, mergeable_ranks=ranks, special_tokens={}
        )

    def encode(self, text: str) -> np.ndarray:
        """Return the ids of a text, as uint32."""
        return self._encoding.encode_to_numpy(text, disallowed_special=())

    def decode(self, ids: np.ndarray) -> str:
        """Return the text of ids; a torn character becomes the replacement character."""
        return self._encoding.decode(np.asarray(ids).tolist())


def learned(train_text: str, vocab_size: int) -> BytePairs:
    """Return the encoding with ``vocab_size`` tokens that a text teaches; learned once per machine.

    Raises ``ValueError`` when there is no room for merges, or the text has fewer tokens to teach.
    """
    if vocab_size <= 256:
        raise ValueError(
            f"bpe-{vocab_size} has no room for merges: N counts the 256 bytes too (or use byte)"
        )
    sha256 = hashlib.sha256(train_text.encode()).hexdigest()
    path = cache.folder() / "tokenizers" / f"bpe-{vocab_size}-{sha256[:16]}"
    cache.sealed(path, lambda: _listed(_learn(train_text, vocab_size)))
    tokens = tuple(base64.b64decode(line) for line in cache.content(path).splitlines())
    return BytePairs(f"bpe-{vocab_size}", tokens)


def gpt2() -> BytePairs:
    """Return GPT-2's encoding, from its merges in ``gpt2/vocab.bpe`` or tiktoken's own cache.

    Raises ``ValueError`` when they are not there and cannot be downloaded, or are not GPT-2's.
    """
    # The first ids are the bytes in the order in which GPT-2 prints them, then come the merges.
    merges = _gpt2_merges().decode().splitlines()[1:]
    tokens = [bytes([byte]) for byte in _PRINTED.values()]
    tokens += [_unprinted(merge.replace(" ", "")) for merge in merges if merge]
    return BytePairs("gpt2", tuple(tokens), n_special=1)


def _learn(text: str, vocab_size: int) -> tuple[bytes, ...]:
    learner = tokenizers.Tokenizer(models.BPE())
    learner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    # A million characters at a time bounds the memory; only words at the cuts are counted wrong.
    parts = (text[i : i + 1_000_000] for i in range(0, len(text), 1_000_000))
    learner.train_from_iterator(parts, trainer)
    ranks = learner.get_vocab()
    if len(ranks) < vocab_size:
        raise ValueError(
            f"bpe-{vocab_size}: the train split has only {len(ranks):,} tokens to learn: "
            f"use bpe-{len(ranks)} or less"
        )
    return tuple(_unprinted(token) for token in sorted(ranks, key=ranks.__getitem__))


def _gpt2_merges() -> bytes:
    path = placed.find(GPT2_PLACE)
    if path is None:
        try:
            return tiktoken.load.read_file_cached(GPT2_ADDRESS, GPT2_SHA256)
        except Exception as error:  # whatever the client raises, the remedy is the same
            reason = f"tiktoken could not download {GPT2_ADDRESS} ({type(error).__name__})"
            raise placed.absent(GPT2_PLACE, GPT2_SHA256, reason) from error
    data = placed.read(path)
    if hashlib.sha256(data).hexdigest() != GPT2_SHA256:
        raise ValueError(f"{path} is not GPT-2's (SHA-256 {GPT2_SHA256}): replace it")
    return data


def _printed() -> dict[str, int]:
    """Return how GPT-2's files print each byte: itself where it shows, else from U+0100 on."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return {chr(byte): byte for byte in shown} | {chr(256 + i): b for i, b in enumerate(hidden)}


_PRINTED = _printed()


def _unprinted(token: str) -> bytes:
    return bytes(_PRINTED[character] for character in token)


def _listed(tokens: tuple[bytes, ...]) -> bytes:
    return b"".join(base64.b64encode(token) + b"\n" for token in tokens)
