"""Corpora by name: found in ``CQK_DATA_DIR``, in the cache, or downloaded; checked each time."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from analysis.nearest import closest

from . import hub, placed, pydocs, tasks, wikitext

SPLITS = ("train", "valid", "test")


@dataclass(frozen=True)
class Corpus:
    """One text in three splits.

    ``sha256`` is the hash of three lines ``<SHA-256 of the split's UTF-8 bytes>  <split>``, in the
    order train, valid, test: what ``sha256sum train valid test | sha256sum`` prints.
    ``n_words`` is None where the field has no agreed count of words.
    """

    name: str
    text: Mapping[str, str]
    sha256: str
    n_bytes: dict[str, int]
    n_words: dict[str, int] | None


_WIKITEXT = f"{hub.ADDRESS.removeprefix('https://')} | CC BY-SA 3.0"

_WHAT = {
    "pydocs": "help topics and docstrings of this Python, 1.8 MB | CPython | PSF-2.0",
    "wikitext-2": f"2.1 M words with <unk>, word level | {_WIKITEXT}",
    "wikitext-103": f"103 M words with <unk>, word level | {_WIKITEXT}",
    "wikitext-2-raw": f"2.1 M words as written | {_WIKITEXT}",
    "wikitext-103-raw": f"103 M words as written | {_WIKITEXT}",
    "tiny-shakespeare": "plays, 1.1 MB | github.com/karpathy/char-rnn | public domain",
    "austen": "six novels, 4.0 MB | R package janeaustenr | public domain",
    "path:FILE": "a text file of yours, or a folder with train.txt, valid.txt and test.txt",
}

# Corpora that are published as one file, which we cut: its place and its SHA-256.
_SINGLE = {
    "tiny-shakespeare": (
        "tinyshakespeare/input.txt",
        "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
    ),
    "austen": (
        "austen/austen.txt",
        "49e55f4936b4a0835f04c5d885f6f56cc19b6a55679df4164f91c49ba14e6992",
    ),
}


def names() -> list[str]:
    """Return what a study may write as its corpus; ``path:FILE`` stands for any file."""
    return list(_WHAT)


def describe(name: str) -> str:
    """Return one line: what the corpus is, where it comes from, its licence.

    >>> describe("pydocs")
    'help topics and docstrings of this Python, 1.8 MB | CPython | PSF-2.0'
    """
    return _WHAT["path:FILE" if name.startswith("path:") else _known(name)]


def load(name: str) -> Corpus:
    """Return a corpus, read and checked.

    Raises ``ValueError`` for an unknown name, a file that is not what was published, or a file
    that is nowhere and cannot be fetched: the sentence says which file to put where.
    """
    if name.startswith("path:"):
        return _in_memory(name, _own(Path(name.removeprefix("path:")).expanduser()))
    if name in _SINGLE:
        return _in_memory(name, cut(_single(name), name))
    if name in wikitext.FILES:
        files = {split: wikitext.locate(name, split) for split in SPLITS}
        return Corpus(
            name,
            _Files(files),
            _identity({split: file.sha256 for split, file in files.items()}),
            {split: file.n_bytes for split, file in files.items()},
            {split: file.n_words for split, file in files.items()},
        )
    return _in_memory(_known(name), pydocs.splits())


def is_here(name: str) -> bool:
    """Return whether a corpus can be read without a download.

    >>> is_here("pydocs")
    True
    """
    return name not in wikitext.FILES or all(
        placed.find(*wikitext.places(name, split)) for split in SPLITS
    )


def scored_bytes(name: str) -> dict[str, int]:
    """Return the bytes of the valid and the test split; WikiText's are known wherever it lies."""
    known = {split: file.n_bytes for split, file in wikitext.FILES.get(name, {}).items()}
    sizes = known if known and not is_here(name) else load(name).n_bytes
    return {split: size for split in ("valid", "test") if (size := sizes[split]) is not None}


def read_split(name: str, split: str) -> str:
    """Return the text of one split, for WikiText without asking for the other two."""
    if name in wikitext.FILES:
        return wikitext.locate(name, split).text()
    return load(name).text[split]


def cut(data: bytes, origin: str) -> dict[str, str]:
    """Cut a text into train, valid and test: 90, 5 and 5 per cent of its bytes, at line ends.

    Each cut lies at the first line end at or after its share.

    >>> cut(b"a\\n" * 20, "example")["valid"]
    'a\\n'
    """
    _decode(data, origin)
    ends = [data.find(b"\n", len(data) * share // 100 - 1) + 1 for share in (90, 95)]
    parts = data[: ends[0]], data[ends[0] : ends[1]], data[ends[1] :]
    if not all(parts) or 0 in ends:
        raise ValueError(
            f"{origin} has too few lines to be cut into train, valid and test: "
            "give a longer text, or a folder with train.txt, valid.txt and test.txt"
        )
    return {split: part.decode() for split, part in zip(SPLITS, parts, strict=True)}


class _Files(Mapping[str, str]):
    """Texts that stay on disk until they are asked for: WikiText-103 fills half a gigabyte."""

    def __init__(self, files: dict[str, wikitext.File]) -> None:
        self._files = files

    def __getitem__(self, split: str) -> str:
        return self._files[split].text()

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


def _in_memory(name: str, text: dict[str, str]) -> Corpus:
    data = {split: text[split].encode() for split in SPLITS}
    sha256 = _identity({split: hashlib.sha256(data[split]).hexdigest() for split in SPLITS})
    return Corpus(name, text, sha256, {split: len(data[split]) for split in SPLITS}, None)


def _identity(sha256: dict[str, str]) -> str:
    lines = "".join(f"{sha256[split]}  {split}\n" for split in SPLITS)
    return hashlib.sha256(lines.encode()).hexdigest()


def _single(name: str) -> bytes:
    place, sha256 = _SINGLE[name]
    path = placed.find(place)
    if path is None:
        raise placed.absent(place, sha256, "it is not among the files we can download")
    data = placed.read(path)
    if hashlib.sha256(data).hexdigest() != sha256:
        raise ValueError(f"{path} is not the published file (SHA-256 {sha256}): replace it")
    return data


def _known(name: str) -> str:
    if name in names():
        return name
    known = [*names(), *tasks.names()]  # what a study may write here, though a task is no text
    meant = closest(name, known)
    hint = f" (did you mean {meant}?)" if meant else ""
    raise ValueError(f"unknown corpus {name!r}{hint}: use one of {', '.join(known)}")


def _own(path: Path) -> dict[str, str]:
    if path.is_dir():
        files = {split: path / f"{split}.txt" for split in SPLITS}
        missing = [file.name for file in files.values() if not file.is_file()]
        if missing:
            raise ValueError(f"the folder {path} lacks {', '.join(missing)}")
        return {split: _nonempty(_decode(placed.read(f), str(f)), f) for split, f in files.items()}
    if not path.is_file():
        raise ValueError(f"no text file {path}: give the path of one as path:FILE")
    return cut(placed.read(path), str(path))


def _nonempty(text: str, path: Path) -> str:
    if not text:
        raise ValueError(f"{path} is empty")
    return text


def _decode(data: bytes, origin: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{origin} is not UTF-8 text (byte {error.start:,}): convert it first"
        ) from error
