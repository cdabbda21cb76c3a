"""Corpora by name: found in ``CQK_DATA_DIR``, in the cache, or downloaded; checked each time."""

from __future__ import annotations

import difflib
import hashlib
import json
import lzma
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from . import cache, pydocs, wikitext

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


@dataclass(frozen=True)
class _Single:
    """A corpus that is published as one file, which we cut."""

    file: str
    sha256: str
    what: str


_SINGLE = {
    "tiny-shakespeare": _Single(
        "tinyshakespeare/input.txt",
        "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
        "1.1 MB of Shakespeare's plays | github.com/karpathy/char-rnn | public domain",
    ),
    "austen": _Single(
        "austen/austen.txt",
        "49e55f4936b4a0835f04c5d885f6f56cc19b6a55679df4164f91c49ba14e6992",
        "six novels by Jane Austen, 4.0 MB | R package janeaustenr | public domain",
    ),
}

_WHAT = {
    "pydocs": "help topics and docstrings of this Python, 1.8 MB | CPython | PSF-2.0",
    "wikitext-2": "2.1 M words with <unk>, word level",
    "wikitext-103": "103 M words with <unk>, word level",
    "wikitext-2-raw": "2.1 M words, as written",
    "wikitext-103-raw": "103 M words, as written",
    "path:FILE": (
        "a text file, cut 90/5/5 at line ends, or a folder with train.txt, valid.txt and test.txt"
        " | yours | yours"
    ),
}


def names() -> list[str]:
    """Return what a study may write as its corpus; ``path:FILE`` stands for any file."""
    return [*(name for name in _WHAT if name != "path:FILE"), *_SINGLE, "path:FILE"]


def describe(name: str) -> str:
    """Return one line: what the corpus is, where it comes from, its licence.

    >>> describe("pydocs")
    'help topics and docstrings of this Python, 1.8 MB | CPython | PSF-2.0'
    """
    if name in _SINGLE:
        return _SINGLE[name].what
    if name in wikitext.FILES:
        address = wikitext.ADDRESS.removeprefix("https://")
        return f"{_WHAT[name]} | {address} | {wikitext.LICENCE}"
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
        files = {split: _locate(name, split) for split in SPLITS}
        return Corpus(
            name,
            _Files({split: file.path for split, file in files.items()}),
            _identity({split: file.sha256 for split, file in files.items()}),
            {split: file.n_bytes for split, file in files.items()},
            {split: file.n_words for split, file in files.items()},
        )
    return _in_memory(_known(name), pydocs.splits())


def read_split(name: str, split: str) -> str:
    """Return the text of one split, for WikiText without asking for the other two."""
    if name in wikitext.FILES:
        return _read(_locate(name, split).path).decode()
    return load(name).text[split]


def cut(data: bytes, origin: str) -> dict[str, str]:
    """Cut a text into train, valid and test: 90, 5 and 5 per cent of its bytes, at line ends.

    Each cut lies at the first line end at or after its share.

    >>> cut(b"a\\n" * 20, "example")["valid"]
    'a\\n'
    """
    text = _decode(data, origin)
    encoded = text.encode()
    ends = [encoded.find(b"\n", len(encoded) * share // 100 - 1) + 1 for share in (90, 95)]
    parts = encoded[: ends[0]], encoded[ends[0] : ends[1]], encoded[ends[1] :]
    if not all(parts) or 0 in ends:
        raise ValueError(
            f"{origin} has too few lines to be cut into train, valid and test: "
            "give a longer text, or a folder with train.txt, valid.txt and test.txt"
        )
    return {split: part.decode() for split, part in zip(SPLITS, parts, strict=True)}


class _Files(Mapping[str, str]):
    """Texts that stay on disk until they are asked for: WikiText-103 fills half a gigabyte."""

    def __init__(self, paths: dict[str, Path]) -> None:
        self._paths = paths

    def __getitem__(self, split: str) -> str:
        return _read(self._paths[split]).decode()

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)


@dataclass(frozen=True)
class _File:
    path: Path
    sha256: str
    n_bytes: int
    n_words: int


def _in_memory(name: str, text: dict[str, str]) -> Corpus:
    data = {split: text[split].encode() for split in SPLITS}
    sha256 = _identity({split: hashlib.sha256(data[split]).hexdigest() for split in SPLITS})
    return Corpus(name, text, sha256, {split: len(data[split]) for split in SPLITS}, None)


def _identity(sha256: dict[str, str]) -> str:
    lines = "".join(f"{sha256[split]}  {split}\n" for split in SPLITS)
    return hashlib.sha256(lines.encode()).hexdigest()


def _locate(corpus: str, split: str) -> _File:
    """Find one WikiText file, or fetch it, and check it against what was published."""
    places = wikitext.places(corpus, split)
    path = _found(places)
    if path is None:
        path = _cached() / places[0]
        data = _fetch(corpus, split, path)
        file = _checked(corpus, split, path, data)
        cache.publish(path, data)
        return file
    return _checked(corpus, split, path, _read(path))


def _checked(corpus: str, split: str, path: Path, data: bytes) -> _File:
    sha256 = hashlib.sha256(data).hexdigest()
    # Counting the words of WikiText-103 takes ten seconds: once per machine is enough.
    counts = cache.sealed(
        cache.folder() / "counts" / sha256, lambda: json.dumps(wikitext.count(data)).encode()
    )
    n_lines, n_words = json.loads(cache.content(counts))
    published = wikitext.FILES[corpus][split]
    if faults := wikitext.faults(published, len(data), sha256, n_lines, n_words):
        crlf = " (its lines end in CRLF; the published ones end in LF)" * (b"\r\n" in data)
        raise ValueError(
            f"{path} is not the published {wikitext.file_name(corpus, split)} of {corpus}: "
            f"{', '.join(faults)}{crlf}; replace it, or remove it to have it downloaded"
        )
    return _File(path, sha256, len(data), n_words)


def _fetch(corpus: str, split: str, path: Path) -> bytes:
    try:
        return wikitext.fetch(corpus, split)
    except Exception as error:  # whatever the hub's client raises, the remedy is the same
        published = wikitext.FILES[corpus][split]
        known = f" (SHA-256 {published.sha256})" if published.sha256 else ""
        raise ValueError(
            f"{_absent(path.name, corpus)}, and the download from {wikitext.ADDRESS} failed "
            f"({type(error).__name__}); place the published file by hand as "
            f"{_by_hand(wikitext.places(corpus, split)[0])}{known}"
        ) from error


def _single(name: str) -> bytes:
    wanted = _SINGLE[name]
    path = _found([wanted.file])
    known = f"{_by_hand(wanted.file)} (SHA-256 {wanted.sha256})"
    if path is None:
        raise ValueError(f"{_absent(Path(wanted.file).name, name)}; place it by hand as {known}")
    data = _read(path)
    if hashlib.sha256(data).hexdigest() != wanted.sha256:
        raise ValueError(f"{path} is not the published file of {name}; place that as {known}")
    return data


def _found(places: list[str]) -> Path | None:
    for root in (_data_folder(), _cached()):
        for place in places:
            for path in (root / place, root / f"{place}.xz") if root else ():
                if path.is_file():
                    return path
    return None


def _data_folder() -> Path | None:
    chosen = os.environ.get("CQK_DATA_DIR")
    if chosen and not Path(chosen).is_dir():
        raise ValueError(f"CQK_DATA_DIR names {chosen}, which is no folder")
    return Path(chosen) if chosen else None


def _cached() -> Path:
    return cache.folder() / "corpora"


def _absent(file: str, corpus: str) -> str:
    where = [str(_data_folder() or "CQK_DATA_DIR (not set)"), str(_cached())]
    return f"{corpus} needs {file}, which is neither in {where[0]} nor in {where[1]}"


def _by_hand(place: str) -> Path:
    return (_data_folder() or _cached()) / place


def _read(path: Path) -> bytes:
    if path.suffix != ".xz":
        return path.read_bytes()
    try:
        return lzma.decompress(path.read_bytes())
    except lzma.LZMAError as error:
        raise ValueError(f"{path} is not a whole xz file ({error}): place it again") from error


def _known(name: str) -> str:
    if name in names():
        return name
    near = difflib.get_close_matches(name, names(), n=1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    raise ValueError(f"unknown corpus {name!r}{hint}: use one of {', '.join(names())}")


def _own(path: Path) -> dict[str, str]:
    if path.is_dir():
        files = {split: path / f"{split}.txt" for split in SPLITS}
        missing = [file.name for file in files.values() if not file.is_file()]
        if missing:
            raise ValueError(f"the folder {path} lacks {', '.join(missing)}")
        return {split: _nonempty(_decode(_read(f), str(f)), f) for split, f in files.items()}
    if not path.is_file():
        raise ValueError(f"no text file {path}: give the path of one as path:FILE")
    return cut(_read(path), str(path))


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
