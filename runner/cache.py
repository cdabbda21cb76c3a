"""Files that are made once per machine: published whole, by one process, and known when damaged.

A sealed file is 64 hexadecimal characters, the SHA-256 of the rest, followed by the rest. A
reader therefore knows a torn or edited file for what it is, and the file is made again.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

HEADER_BYTES = 64


def folder() -> Path:
    """Return the cache folder: ``CQK_CACHE_DIR``, else ``cqk`` in the user's XDG cache folder."""
    if chosen := os.environ.get("CQK_CACHE_DIR"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cqk"


def sealed(path: Path, build: Callable[[], bytes]) -> Path:
    """Return ``path`` once it holds an intact sealed file; ``build`` makes its content if needed.

    Raises ``ValueError`` as :func:`once` does.
    """

    def seal() -> bytes:
        made = build()
        return hashlib.sha256(made).hexdigest().encode() + made

    return once(path, seal, intact)


def content(path: Path) -> bytes:
    """Return what a sealed file holds, without its header."""
    return path.read_bytes()[HEADER_BYTES:]


def intact(path: Path) -> bool:
    """Say whether ``path`` is a sealed file whose content still has the hash of its header."""
    try:
        with open(path, "rb") as file:
            header = file.read(HEADER_BYTES)
            return hashlib.file_digest(file, "sha256").hexdigest().encode() == header
    except FileNotFoundError:
        return False
    except OSError as error:
        raise _unusable(path, error) from error


def once(
    path: Path, build: Callable[[], bytes], made: Callable[[Path], bool] = Path.is_file
) -> Path:
    """Return ``path`` once it is ``made``, with the bytes of ``build`` if it is not made yet.

    The file appears whole or not at all. Of several processes that ask at once, one builds and the
    others wait for it. Raises ``ValueError`` when the folder cannot be written.
    """
    if not made(path):
        with _locked(path):
            if not made(path):
                _publish(path, build())
    return path


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock of one cache file; the system frees it when the process dies."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = open(path.with_name(path.name + ".lock"), "w")  # noqa: SIM115 (closed below)
        fcntl.flock(lock, fcntl.LOCK_EX)
    except OSError as error:
        raise _unusable(path, error) from error
    with lock:
        yield


def _publish(path: Path, data: bytes) -> None:
    # One name for all: the lock is held, so what lies there was left by a process that died.
    temporary = path.with_name(path.name + ".part")
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise _unusable(path, error) from error


def _unusable(path: Path, error: OSError) -> ValueError:
    return ValueError(
        f"cannot use {path} ({error.strerror or error}): "
        "make room there, or name another folder in CQK_CACHE_DIR"
    )
