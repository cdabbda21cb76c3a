"""Published files on this machine: below ``CQK_DATA_DIR`` or in the cache, plain or as .xz."""

from __future__ import annotations

import lzma
import os
from pathlib import Path

from . import cache


def find(*places: str) -> Path | None:
    """Return the first of ``places`` that is a file, below ``CQK_DATA_DIR`` or else in the cache.

    Raises ``ValueError`` when ``CQK_DATA_DIR`` names no folder.
    """
    for root in filter(None, (_chosen(), downloads())):
        for place in places:
            for path in (root / place, root / f"{place}.xz"):
                if path.is_file():
                    return path
    return None


def read(path: Path) -> bytes:
    """Return the content of a file, unpacked where its name ends in .xz."""
    try:
        data = path.read_bytes()
        return lzma.decompress(data) if path.suffix == ".xz" else data
    except OSError as error:
        raise ValueError(f"cannot read {path} ({error.strerror})") from error
    except lzma.LZMAError as error:
        raise ValueError(f"{path} is not a whole xz file ({error}): place it again") from error


def downloads() -> Path:
    """Return the folder in which files are kept that we fetched."""
    return cache.folder() / "files"


def absent(place: str, sha256: str | None, reason: str) -> ValueError:
    """Return the error for a file that is nowhere: why, and where to place it by hand."""
    chosen = _chosen()
    searched = chosen if chosen else "CQK_DATA_DIR (not set)"
    known = f" (SHA-256 {sha256})" if sha256 else ""
    return ValueError(
        f"{place} is neither in {searched} nor in {downloads()}, and {reason}; "
        f"place the published file{known} by hand as {(chosen or downloads()) / place}"
    )


def _chosen() -> Path | None:
    chosen = os.environ.get("CQK_DATA_DIR")
    if chosen and not Path(chosen).is_dir():
        raise ValueError(f"CQK_DATA_DIR names {chosen}, which is no folder")
    return Path(chosen) if chosen else None
