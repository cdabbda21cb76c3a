"""WikiText as published: which files it is made of, how to know them, and how to fetch them.

Stephen Merity, Caiming Xiong, James Bradbury and Richard Socher, "Pointer Sentinel Mixture
Models", 2016, https://arxiv.org/abs/1609.07843. A word count is white-space separated words plus
one end-of-sentence token per line, blank lines included, which is how the paper counts.
"""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = "Salesforce/wikitext"
REVISION = "b08601e04326c79dfdd32d625aee71d232d685c3"
ADDRESS = f"https://huggingface.co/datasets/{REPOSITORY}"
LICENCE = "CC BY-SA 3.0"


@dataclass(frozen=True)
class Published:
    """What is known of one published file; None where no source we could check states it."""

    n_bytes: int | None
    sha256: str | None
    n_lines: int
    n_words: int | None


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

# The train file of WikiText-103 raw has no published hash, but its two parquet files have.
SHARD_SHA256 = {
    "wikitext-103-raw-v1/train-00000-of-00002.parquet": (
        "74da360f23826045b3e6ac6375411fdb15f003030aa74f2596ed08b857cb9212"
    ),
    "wikitext-103-raw-v1/train-00001-of-00002.parquet": (
        "ba090ac30dbf5461e8dcbdd1a1b8e6f3cf9c2c756d64f0c1220450acd514f720"
    ),
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


def faults(
    published: Published, n_bytes: int, sha256: str, n_lines: int, n_words: int
) -> list[str]:
    """Say in what a file differs from the published one; an empty list when in nothing."""
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


def fetch(corpus: str, split: str) -> bytes:
    """Download one split from the Hugging Face hub and rebuild the published file from its rows.

    The hub's client shows its progress on stderr, resumes, and keeps its own cache.
    """
    # Both take a second to import and are needed once per machine.
    import pyarrow.parquet
    from huggingface_hub import hf_hub_download

    rows: list[Any] = []
    for shard in shards(corpus, split):
        path = hf_hub_download(REPOSITORY, shard, repo_type="dataset", revision=REVISION)
        wanted = SHARD_SHA256.get(shard)
        if wanted and hashlib.sha256(Path(path).read_bytes()).hexdigest() != wanted:
            raise OSError(f"{shard} arrived damaged: remove {path} and try again")
        rows += pyarrow.parquet.read_table(path, columns=["text"]).column("text").to_pylist()
    return upstream(rows)


def shards(corpus: str, split: str) -> list[str]:
    """Return the hub's parquet files of one split.

    >>> shards("wikitext-2", "valid")
    ['wikitext-2-v1/validation-00000-of-00001.parquet']
    """
    n = 2 if split == "train" and "103" in corpus else 1
    part = "validation" if split == "valid" else split
    return [f"{corpus}-v1/{part}-{i:05d}-of-{n:05d}.parquet" for i in range(n)]


def upstream(rows: list[str]) -> bytes:
    """Rebuild a published file from the hub's rows, in which blank lines have become empty.

    >>> upstream(["", " = Title = \\n", ""])
    b' \\n = Title = \\n \\n'
    """
    return "".join(row or " \n" for row in rows).encode()
