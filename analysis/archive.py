"""Runs without their folders: records.jsonl.xz and metrics.jsonl.xz, beside runs.csv.

A results folder that is committed or sent on holds these two in place of runs/. Nothing is lost:
the folders come out of them byte for byte, checkpoints and locks aside. Where runs/ is there, it
alone counts, so that a run whose folder is deleted is trained again.
"""

from __future__ import annotations

import json
import lzma
import secrets
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from .records import RunRecord, Spec, read_lines, to_json

RECORDS, CURVES = "records.jsonl.xz", "metrics.jsonl.xz"
_LONGEST_LINE = 64 * 2**20  # characters; a line that unpacks to more is no record of a run
_LOGS = ("attempts", "diagnostics")

Line = dict[str, Any]


def pack(results: Path, records: Sequence[RunRecord]) -> None:
    """Write both files of ``results`` for the runs as read, anew only where content changed."""
    ordered = sorted(records, key=lambda record: record.spec.run_id)
    _write(results / RECORDS, map(_packed, ordered))
    _write(
        results / CURVES,
        (
            {"run_id": record.spec.run_id, **line}
            for record in ordered
            for line in read_lines(record.folder / "metrics.jsonl")
        ),
    )


def over(results: Path) -> dict[str, str]:
    """Return the status, done or diverged, of every run that only the archive holds, by its id.

    Raises:
        ValueError: The archive is broken.
    """
    if (results / "runs").exists():
        return {}
    archived = ((line["spec"]["run_id"], line["result"]) for line in _lines(results / RECORDS))
    return {run_id: result["status"] for run_id, result in archived if result}


def restore(results: Path) -> int:
    """Make runs/ of the archived runs that are over, where it is missing; return how many.

    Raises:
        ValueError: The archive is broken.
    """
    if (results / "runs").exists() or not (results / RECORDS).exists():
        return 0
    with tempfile.TemporaryDirectory(dir=results, prefix=".runs.") as place:
        made = _unpack(results, Path(place) / "runs", lambda line: bool(line["result"]))
        (Path(place) / "runs").rename(results / "runs")
    return made


@contextmanager
def unpacked(results: Path) -> Iterator[Path | None]:
    """Yield a folder of the archived runs' folders, for the length of the block.

    Yields None where there is a runs/, or no archive.

    Raises:
        ValueError: The archive is broken.
    """
    if (results / "runs").exists() or not (results / RECORDS).exists():
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="cqk-") as place:
        _unpack(results, Path(place) / "runs", lambda line: True)
        yield Path(place) / "runs"


def _unpack(results: Path, runs: Path, wanted: Callable[[Line], bool]) -> int:
    """Make the folders of the wanted runs."""
    chosen = {line["spec"]["run_id"]: line for line in _lines(results / RECORDS) if wanted(line)}
    runs.mkdir()
    curves: dict[str, list[Line]] = {run_id: [] for run_id in chosen}
    for line in _lines(results / CURVES):
        if line["run_id"] in curves:
            curves[line.pop("run_id")].append(line)
    for run_id, line in chosen.items():
        (runs / run_id).mkdir()
        _fill(runs / run_id, line, curves[run_id])
    return len(chosen)


def _fill(folder: Path, line: Line, curve: list[Line]) -> None:
    (folder / "spec.json").write_text(to_json(line["spec"]), encoding="utf-8")
    logs = {"metrics": curve, **{name: line[name] for name in _LOGS}}
    for name, lines in logs.items():
        if lines:
            text = "".join(json.dumps(each) + "\n" for each in lines)
            (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")
    if line["result"]:
        (folder / "result.json").write_text(to_json(line["result"]), encoding="utf-8")


def _packed(record: RunRecord) -> Line:
    return {
        "spec": record.spec.model_dump(by_alias=True),
        "result": record.result and record.result.model_dump(by_alias=True),
        "attempts": record.attempts,
        "diagnostics": list(read_lines(record.folder / "diagnostics.jsonl")),
    }


def _lines(path: Path) -> Iterator[Line]:
    """Yield the lines of a packed file, none where there is no file."""
    if not path.exists():
        return
    remedy = "restore it, or delete it: the runs in it then count as missing"
    try:
        with lzma.open(path, "rt", encoding="utf-8") as file:
            while text := file.readline(_LONGEST_LINE):
                yield _checked(json.loads(text))
    except (OSError, EOFError, lzma.LZMAError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: is damaged or no archive of runs ({error}); {remedy}") from None


def _checked(line: Line) -> Line:
    """Return a line whose run id may be trusted to be one, since it becomes a folder's name."""
    if "spec" in line:
        try:
            Spec.model_validate(line["spec"])
        except ValidationError as error:
            raise ValueError(str(error.errors(include_url=False)[0]["msg"]).lower()) from None
        if {*line} != {"spec", "result", *_LOGS}:
            raise ValueError(f"a record has the keys {', '.join(sorted(line))}")
    elif not isinstance(line["run_id"], str):
        raise ValueError(f"{line['run_id']!r} is no run id")
    return line


def _write(path: Path, lines: Iterable[Line]) -> None:
    data = "".join(json.dumps(line) + "\n" for line in lines).encode()
    if _holds(path, data):  # another version of the library may compress to other bytes
        return
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with lzma.open(temporary, "wb", preset=2) as file:
            file.write(data)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _holds(path: Path, data: bytes) -> bool:
    try:
        with lzma.open(path) as file:
            return file.read() == data
    except (OSError, EOFError, lzma.LZMAError):
        return False
