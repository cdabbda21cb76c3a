"""A write that fails, for want of room or of rights, ends in one sentence and costs nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class CannotWrite(ValueError):
    """A file could not be written; what was there before is still there."""


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an ``OSError`` of the block into the sentence that says what to do.

    Raises:
        CannotWrite: Named after the file of the error, or after ``path`` where it names none: a
            full disk shows at a write, which knows no file name.

    >>> with writing(Path("/nowhere/at/all")):
    ...     Path("/nowhere/at/all").write_text("x")
    Traceback (most recent call last):
    runner.writing.CannotWrite: /nowhere/at/all: cannot be written (No such file or directory); ...
    """
    try:
        yield
    except OSError as error:
        raise CannotWrite(
            f"{error.filename or path}: cannot be written ({error.strerror or error}); make room "
            "or take the right to write there, and start `cqk run` again: what was there is kept"
        ) from error


def cut_torn_tail(path: Path) -> None:
    """Drop a last line without its newline, which a kill in the middle of a write leaves."""
    if not path.exists():
        return
    with open(path, "rb+") as file:
        content = file.read()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            file.truncate(whole)
