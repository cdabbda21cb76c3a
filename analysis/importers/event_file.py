"""TensorBoard event files: records, and the scalars in them, read as a stream.

A record is a length (8 bytes, little-endian), its checksum (4), the payload and its checksum (4).
The payload is a protobuf Event {1: wall_time, 2: step, 5: Summary {1: Value {1: tag,
2: simple_value, 8: tensor}}}. Formats: TensorFlow, "tfrecord" and "event.proto",
https://www.tensorflow.org/tutorials/load_data/tfrecord.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from .contract import require_file

# No summary of numbers needs more; larger records hold images or audio and are passed over.
LARGEST_SUMMARY = 64 * 2**20
_HEADER, _FOOTER = 12, 4
_CASTAGNOLI = 0x82F63B78


class Scalar(NamedTuple):
    """One logged number."""

    tag: str
    step: int
    value: float


class Torn(ValueError):
    """The file ends inside a record, as when its writer is killed."""


def scalars(path: Path) -> Iterator[Scalar]:
    """Yield the scalars of an event file in the order in which they were written.

    Raises:
        Torn: The file ends inside a record; what was yielded before is good.
        ValueError: A record is damaged; the message names its place.
    """
    require_file(path)
    size = path.stat().st_size
    with path.open("rb") as file:
        while (start := file.tell()) < size:
            payload, checksum = _record(file, path, start, size)
            found = list(_scalars_of(payload, path, start))
            # Checksums take most of the time here, so only records that hold numbers pay for one.
            if found and checksum != _masked_checksum(payload):
                raise _damaged(path, start)
            yield from found


def _record(file: BinaryIO, path: Path, start: int, size: int) -> tuple[bytes, int]:
    """Return the next record's payload and stated checksum; nothing of one that is too large."""
    header = file.read(_HEADER)
    if len(header) < _HEADER:
        raise Torn(f"{path}: ends inside a record at byte {start}")
    length, stated = struct.unpack("<QI", header)
    if stated != _masked_checksum(header[:8]):
        raise _damaged(path, start)
    end = start + _HEADER + length + _FOOTER
    if end > size:
        raise Torn(f"{path}: ends inside a record at byte {start}")
    if length > LARGEST_SUMMARY:
        file.seek(end)
        return b"", 0
    payload = file.read(length)
    (checksum,) = struct.unpack("<I", file.read(_FOOTER))
    return payload, checksum


def _damaged(path: Path, start: int) -> ValueError:
    return ValueError(
        f"{path}: is no event file, or is damaged at byte {start}: a checksum does not match; copy "
        "the file again"
    )


def _scalars_of(payload: bytes, path: Path, start: int) -> Iterator[Scalar]:
    try:
        event = dict(_fields(payload))
        step = event.get(2, 0)
        summary = event.get(5)
        if not isinstance(step, int) or not isinstance(summary, bytes):
            return
        for key, value in _fields(summary):
            if key == 1 and isinstance(value, bytes):
                found = _value_of(value)
                if found is not None:
                    yield Scalar(found[0], step - 2**64 if step >= 2**63 else step, found[1])
    except (ValueError, struct.error, IndexError):
        raise ValueError(f"{path}: the record at byte {start} is no event") from None


def _value_of(message: bytes) -> tuple[str, float] | None:
    """Return tag and number of a Summary.Value; None for images, histograms, text and so on."""
    fields = dict(_fields(message))
    tag = fields.get(1)
    if not isinstance(tag, bytes):
        return None
    if isinstance(simple := fields.get(2), bytes):
        return tag.decode(), struct.unpack("<f", simple)[0]
    if isinstance(tensor := fields.get(8), bytes):
        number = _tensor_number(tensor)
        return None if number is None else (tag.decode(), number)
    return None


def _tensor_number(message: bytes) -> float | None:
    """Return the one number of a TensorProto {1: dtype, 4: content, 5: floats, 6: doubles}."""
    fields = dict(_fields(message))
    code = {1: "<f", 2: "<d"}.get(dtype) if isinstance(dtype := fields.get(1), int) else None
    if code is None:
        return None
    content = fields.get(4) or fields.get(5 if code == "<f" else 6)
    if not isinstance(content, bytes) or len(content) != struct.calcsize(code):
        return None
    return float(struct.unpack(code, content)[0])


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and raw value of each field of a protobuf message."""
    place = 0
    while place < len(message):
        key, place = _varint(message, place)
        wire = key & 7
        if wire == 0:
            value, place = _varint(message, place)
            yield key >> 3, value
            continue
        if wire == 2:
            length, place = _varint(message, place)
        elif wire in (1, 5):
            length = 8 if wire == 1 else 4
        else:
            raise ValueError(f"wire type {wire}")
        if place + length > len(message):
            raise ValueError("field beyond its message")
        yield key >> 3, message[place : place + length]
        place += length


def _varint(message: bytes, place: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = message[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
    raise ValueError("varint too long")


def _table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (_CASTAGNOLI if byte & 1 else 0)
        table.append(byte)
    return table


_CHECKSUMS = _table()


def _masked_checksum(data: bytes) -> int:
    """Return the record format's checksum: CRC-32C, rotated and shifted by a constant."""
    crc = _checksum(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _checksum(data: bytes) -> int:
    """Return the CRC-32C (Castagnoli) of the bytes.

    >>> hex(_checksum(b"123456789"))
    '0xe3069283'
    """
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CHECKSUMS[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF
