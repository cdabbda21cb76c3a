"""Tokenizers by name: text to ids and back, with an identity that a run can be tied to."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from . import bytepairs

END_OF_SENTENCE = "<eos>"
UNKNOWN = "<unk>"


class Tokenizer(Protocol):
    """What a tokenizer does; ``sha256`` is equal for equal vocabularies under equal rules."""

    @property
    def name(self) -> str:
        """Return the name a study writes."""

    @property
    def vocab_size(self) -> int:
        """Return the number of ids; all lie below it."""

    @property
    def sha256(self) -> str:
        """Return the identity."""

    def encode(self, text: str) -> np.ndarray:
        """Return the ids of a whole text; cutting the text first may change them."""

    def decode(self, ids: np.ndarray) -> str:
        """Return the text of ids."""


def names() -> list[str]:
    """Return what a study may write as its tokenizer; N is a number of ids, as in ``bpe-4096``."""
    return ["byte", "bpe-N", "gpt2", "word"]


def load(name: str, train_text: str) -> Tokenizer:
    """Return a tokenizer; ``bpe-N`` and ``word`` are learned from the train split and nothing else.

    Raises ``ValueError`` for an unknown name, a text that is too short for ``bpe-N`` or not of
    WikiText's form for ``word``, and GPT-2's merges that are nowhere to be had.
    """
    if name == "byte":
        return Byte()
    if name == "gpt2":
        return bytepairs.gpt2()
    if name == "word":
        return Word(tuple(dict.fromkeys(_words(train_text))))
    if number := re.fullmatch(r"bpe-([1-9]\d*)", name):
        return bytepairs.learned(train_text, int(number[1]))
    raise ValueError(f"unknown tokenizer {name!r}: use one of {', '.join(names())}")


@dataclass(frozen=True)
class Byte:
    """The 256 bytes of UTF-8; nothing is learned and nothing is unknown.

    >>> Byte().encode("né").tolist()
    [110, 195, 169]
    """

    name: str = "byte"
    vocab_size: int = 256
    sha256: str = hashlib.sha256(b"byte").hexdigest()

    def encode(self, text: str) -> np.ndarray:
        """Return the bytes of a text, as uint8."""
        return np.frombuffer(text.encode(), dtype=np.uint8)

    def decode(self, ids: np.ndarray) -> str:
        """Return the text of bytes; a torn character becomes the replacement character."""
        return np.asarray(ids).astype(np.uint8).tobytes().decode(errors="replace")


@dataclass(frozen=True)
class Word:
    """The words of word-level WikiText, and one end of sentence per line, blank lines included.

    Ids follow the first appearance in the train split. A word that is not in it is ``<unk>``, as
    published. Stephen Merity et al., "Pointer Sentinel Mixture Models", 2016,
    https://arxiv.org/abs/1609.07843.

    >>> word = Word(("<eos>", "a", "<unk>"))
    >>> word.encode(" \\n a b \\n").tolist()
    [0, 1, 2, 0]
    """

    vocabulary: tuple[str, ...]
    name: str = "word"

    @property
    def vocab_size(self) -> int:
        """Return the number of different words, ``<eos>`` included."""
        return len(self.vocabulary)

    @cached_property
    def sha256(self) -> str:
        """Return the hash of the vocabulary, one word a line."""
        return hashlib.sha256("\n".join(self.vocabulary).encode()).hexdigest()

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {word: i for i, word in enumerate(self.vocabulary)}

    def encode(self, text: str) -> np.ndarray:
        """Return the ids of the words of a text, as uint32."""
        unknown = self._ids.get(UNKNOWN)
        if unknown is None:
            for word in _words(text):
                if word not in self._ids:
                    raise ValueError(
                        f"the word {word!r} is not in the train split, and its vocabulary has no "
                        f"{UNKNOWN}: use wikitext-2 or wikitext-103, or another tokenizer"
                    )
        ids = (self._ids.get(word, unknown) for word in _words(text))
        return np.fromiter(ids, dtype=np.uint32)

    def decode(self, ids: np.ndarray) -> str:
        """Return the text of ids, in the published form."""
        words = (self.vocabulary[i] for i in np.asarray(ids).tolist())
        return " " + " ".join(words).replace(END_OF_SENTENCE, "\n")


def _words(text: str) -> Iterator[str]:
    """Yield words and line ends of a text in WikiText's form: one space before and after words."""
    n_lines = text.count("\n")
    as_published = (
        n_lines == text.count(" \n") == text.count("\n ") + 1
        and text[0] == " "
        and text[-1] == "\n"
        and "  " not in text
        and END_OF_SENTENCE not in text
    )
    if not as_published:
        raise ValueError(
            "the tokenizer word needs word-level WikiText (wikitext-2 or wikitext-103): lines of "
            "words with one space before, between and after; use byte, bpe-N or gpt2 here"
        )
    for line in io.StringIO(text):
        yield from line[1:].replace("\n", END_OF_SENTENCE).split(" ")
