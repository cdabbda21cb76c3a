"""Tokenizers by name: text to ids and back, with an identity that a run can be tied to."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Protocol

import numpy as np


class Tokenizer(Protocol):
    """What a study's tokenizer does; ``sha256`` is equal for equal vocabularies and rules."""

    name: str
    vocab_size: int
    sha256: str

    def encode(self, text: str) -> np.ndarray:
        """Return the ids of a whole text; cutting the text first may change them."""

    def decode(self, ids: np.ndarray) -> str:
        """Return the text of ids."""


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
        """Return the bytes of a text as uint8."""
        return np.frombuffer(text.encode(), dtype=np.uint8)

    def decode(self, ids: np.ndarray) -> str:
        """Return the text of bytes; a cut character is shown as the replacement character."""
        return bytes(np.asarray(ids, dtype=np.uint8)).decode(errors="replace")


def names() -> list[str]:
    """Return what a study may write as its tokenizer."""
    return ["byte"]


def load(name: str, train_text: str) -> Tokenizer:
    """Return a tokenizer; ``train_text`` is what a learned one is learned from."""
    if name == "byte":
        return Byte()
    raise ValueError(f"unknown tokenizer {name!r}: use one of {', '.join(names())}")
