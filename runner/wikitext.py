"""WikiText as published: which files it is made of, how to know them, and where they lie.

Stephen Merity, Caiming Xiong, James Bradbury and Richard Socher, "Pointer Sentinel Mixture
Models", 2016, https://arxiv.org/abs/1609.07843. A word count is white-space separated words plus
one end-of-sentence token per line, blank lines included, which is how the paper counts.
"""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import dataclass
from pathlib import Path

from . import cache, hub, placed


@dataclass(frozen=True)
class Published:
    """What is known of one published file; None where no source we could check states it."""

    n_bytes: int | None
    sha256: str | None
    n_lines: int
    n_words: int | None


@dataclass(frozen=True)
class File:
    """One file on this machine that is what was published."""

    path: Path
    sha256: str
    n_bytes: int
    n_words: int

    def text(self) -> str:
        """Return the text; raises ``ValueError`` when the file has changed since it was checked."""
        data = placed.read(self.path)
        if hashlib.sha256(data).hexdigest() != self.sha256:
            raise ValueError(f"{self.path} changed while it was in use: start again")
        return data.decode()


_RAW_VALID = Published(
    1_146_846,
    "4cd0f6876d07a413aa911261ff6d363c72d757d47f0fdd6015702014c89cb9c7",
    3_760,
    217_646,
)
_RAW_TEST = Published(
    1_290_590,
    "173c87a53759e0201f33e0ccf978e510c2042d7f2cb78229d9a50d79b9e7dd08",
    4_358,
    245_569,
)

FILES = {
    "wikitext-2": {
        "train": Published(
            10_797_148,
            "9e9fa1ad55b1c2c95b08e37dd8e653f638fac2c6de904b79e813611eefbc985f",
            36_718,
            2_088_628,
        ),
        "valid": Published(
            1_121_681,
            "f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8",
            3_760,
            217_646,
        ),
        "test": Published(
            1_256_449,
            "d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0",
            4_358,
            245_569,
        ),
    },
    "wikitext-103": {
        "train": Published(None, None, 1_801_350, 103_227_021),
        "valid": Published(
            1_142_309,
            "9aee9f52d6e77de6c7751fc5e7c44287db3ec0eaf15477098acc6b93c1c4250b",
            3_760,
            217_646,
        ),
        "test": Published(
            1_281_077,
            "56db52eb157b1ab5c89646eef70510c1eca6e12a3bfdb99f0d6b05b4eacb75b9",
            4_358,
            245_569,
        ),
    },
    "wikitext-2-raw": {
        "train": Published(
            10_940_747,
            "6707892fa3788b5ab9ed78ab5ff37d9fe825f6011a2ad4fcd6a6d467f0e7da57",
            36_718,
            None,
        ),
        "valid": _RAW_VALID,
        "test": _RAW_TEST,
    },
    "wikitext-103-raw": {
        "train": Published(None, None, 1_801_350, None),
        "valid": _RAW_VALID,
        "test": _RAW_TEST,
    },
}


def file_name(corpus: str, split: str) -> str:
    """Return the name that the upstream archives give to the file of one split."""
    return f"wiki.{split}.{'raw' if corpus.endswith('-raw') else 'tokens'}"


def places(corpus: str, split: str) -> list[str]:
    """Return where the file may lie below a data folder, best first.

    The two raw corpora share their valid and test files, hence the folder ``wikitext-raw``.

    >>> places("wikitext-2", "train")
    ['wikitext-2/wiki.train.tokens']
    """
    folders = [corpus]
    if corpus.endswith("-raw") and split != "train":
        folders.append("wikitext-raw")
    return [f"{folder}/{file_name(corpus, split)}" for folder in folders]


def count(data: bytes) -> tuple[int, int]:
    """Return the number of lines and the published kind of word count.

    >>> count(b" = Title = \\n \\n a b <unk> \\n")
    (3, 9)
    """
    lines = [len(line.split()) for line in io.BytesIO(data)]
    return len(lines), sum(lines) + len(lines)


def locate(corpus: str, split: str) -> File:
    """Find the file of one split, or fetch it, and check it against what was published.

    Raises ``ValueError`` when it is nowhere, cannot be fetched, or is not the published one.
    """
    path = placed.find(*places(corpus, split))
    if path is None:
        path = placed.downloads() / places(corpus, split)[0]
        cache.once(path, lambda: _download(corpus, split, path))
    return _checked(corpus, split, path, placed.read(path))


def _download(corpus: str, split: str, path: Path) -> bytes:
    try:
        data = hub.fetch(corpus, split)
    except Exception as error:  # whatever the hub's client raises, the remedy is the same
        reason = f"the download from {hub.ADDRESS} failed ({type(error).__name__})"
        place = places(corpus, split)[0]
        raise placed.absent(place, FILES[corpus][split].sha256, reason) from error
    _checked(corpus, split, path, data)
    return data


def _checked(corpus: str, split: str, path: Path, data: bytes) -> File:
    sha256 = hashlib.sha256(data).hexdigest()
    # Counting WikiText-103 takes ten seconds: once per machine is enough.
    counts = cache.sealed(
        cache.folder() / "counts" / sha256, lambda: json.dumps(count(data)).encode()
    )
    n_lines, n_words = json.loads(cache.content(counts))
    if faults := _faults(FILES[corpus][split], len(data), sha256, n_lines, n_words):
        if b"\r\n" in data:
            faults.append("and its lines end in CRLF, the published ones in LF")
        raise ValueError(
            f"{path} is not the published {file_name(corpus, split)} of {corpus}: "
            f"{', '.join(faults)}; replace it, or remove it to have it downloaded"
        )
    return File(path, sha256, len(data), n_words)


def _faults(
    published: Published, n_bytes: int, sha256: str, n_lines: int, n_words: int
) -> list[str]:
    found = []
    if published.n_bytes not in (None, n_bytes):
        found.append(f"{n_bytes:,} bytes instead of {published.n_bytes:,}")
    if n_lines != published.n_lines:
        found.append(f"{n_lines:,} lines instead of {published.n_lines:,}")
    if published.n_words not in (None, n_words):
        found.append(f"{n_words:,} words instead of {published.n_words:,}")
    if published.sha256 not in (None, sha256):
        found.append(f"SHA-256 {sha256[:12]}... instead of {str(published.sha256)[:12]}...")
    return found
