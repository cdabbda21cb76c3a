"""Rows of a CSV file, one at a time: UTF-8 with or without its mark, any line ends, no guessing."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TextIO

from .contract import listed, require_file, shown


class Row(NamedTuple):
    """One row below the header, and the line of the file on which it ends."""

    line: int
    cells: list[str]


class Torn(ValueError):
    """The last row was not written whole, as when a writer is killed."""


def header(path: Path, delimiter: str = ",") -> list[str]:
    """Return the names of the columns, which must be there and differ.

    Raises:
        ValueError: The file is no CSV file, is empty, or names a column twice or not at all.
    """
    require_file(path)
    with _opened(path) as file:
        names = next(_cells(file, path, delimiter), Row(1, [])).cells
    names = [name.strip() for name in names]
    if not any(names):
        raise ValueError(f"{path}: is empty; a table starts with the names of its columns")
    if "" in names:
        raise ValueError(f"{path}: column {names.index('') + 1} has no name; its header is "
                         f"{listed(names)}")  # fmt: skip
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{path}: the column {shown(twice[0])} is there twice; rename one")
    return names


def rows(path: Path, delimiter: str = ",") -> Iterator[Row]:
    """Yield the rows below the header; blank lines are none.

    Raises:
        Torn: The last row breaks off.
        ValueError: A row has another number of cells than the header, or the file is no CSV text.
    """
    width = len(header(path, delimiter))
    whole = _ends_with_newline(path)
    with _opened(path) as file:
        reader = _cells(file, path, delimiter)
        next(reader, None)
        for row in reader:
            if not row.cells:
                continue
            if len(row.cells) != width:
                kind = Torn if not whole and _at_end(reader) else ValueError
                raise kind(
                    f"{path}: row {row.line} has {len(row.cells)} cells and the header "
                    f"{width}; write every row in full"
                )
            yield row


def _opened(path: Path) -> TextIO:
    return path.open(encoding="utf-8-sig", newline="")


def _cells(file: TextIO, path: Path, delimiter: str) -> Iterator[Row]:
    reader = csv.reader(file, delimiter=delimiter, strict=True)
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except UnicodeDecodeError:
            raise ValueError(f"{path}: is not UTF-8 text; save the table as UTF-8 CSV") from None
        except csv.Error as error:
            raise ValueError(f"{path}: row {reader.line_num}: is no CSV: {error}") from None
        yield Row(reader.line_num, cells)


def _at_end(reader: Iterator[Row]) -> bool:
    return next(reader, None) is None


def _ends_with_newline(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(0, 2)
        if file.tell() == 0:
            return True
        file.seek(-1, 2)
        return file.read(1) in b"\r\n"
