"""TensorBoard event files against TensorBoard's own reading, and cut or damaged anywhere."""

import csv
import struct
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.importers import import_runs, load
from analysis.importers.contract import Log
from analysis.importers.event_file import Scalar, _masked_checksum, scalars
from analysis.importers.request import parse_request

IMPORTS = Path(__file__).parent / "reference" / "imports"


def test_event_files_hold_what_tensorboard_reads_in_them():
    folder = IMPORTS / "tensorboard"
    with (folder / "expected.csv").open(newline="") as file:
        wanted = [(r["file"], r["tag"], r["step"], r["value"]) for r in csv.DictReader(file)]
    found = [
        (path.relative_to(folder).as_posix(), s.tag, str(s.step), repr(s.value))
        for path in sorted(folder.rglob("*tfevents*"))
        for s in scalars(path)
    ]
    assert found == wanted
    assert len(found) == 29


def test_a_later_event_file_erases_later_steps_even_of_metrics_it_lacks(tmp_path):
    def event(step, tag):
        value = b"\x0a" + bytes([len(tag)]) + tag + b"\x15" + struct.pack("<f", step)
        return b"\x10" + bytes([step]) + b"\x2a" + bytes([len(value) + 2]) + b"\x0a" + bytes(
            [len(value)]) + value  # fmt: skip

    records = {"events.tfevents.1": [event(1, b"acc"), event(5, b"acc")],
               "events.tfevents.2": [event(3, b"loss")]}  # fmt: skip
    for name, payloads in records.items():
        (tmp_path / name).write_bytes(b"".join(map(record, payloads)))
    request = parse_request(arm="^", seed=r"\d", step="last")
    with pytest.raises(ValueError, match="its arm is empty"):
        import_runs("tensorboard", [tmp_path], request)
    steps = {s.tag: s.step for s in kept_scalars(tmp_path)}
    assert steps == {"acc": 1, "loss": 3}


def record(payload):
    length = struct.pack("<Q", len(payload))
    return b"".join([
        length, struct.pack("<I", _masked_checksum(length)),
        payload, struct.pack("<I", _masked_checksum(payload)),
    ])  # fmt: skip


def kept_scalars(folder):
    reader = load("tensorboard")
    for point in reader.points([folder], parse_request(), Log()):
        yield Scalar(point.metric, int(point.step), point.value)


@pytest.mark.parametrize(
    ("tensor", "wanted"),
    [
        (b"\x08\x01\x2a\x04" + struct.pack("<f", 1.5), 1.5),  # float_val, packed
        (b"\x08\x01\x2d" + struct.pack("<f", 1.5), 1.5),  # float_val, not packed
        (b"\x08\x01\x22\x04" + struct.pack("<f", 1.5), 1.5),  # tensor_content
        (b"\x08\x02\x32\x08" + struct.pack("<d", 0.1), 0.1),  # double_val
        (b"\x08\x07\x42\x04text", None),
        (b"\x08\x01\x2a\x08" + struct.pack("<ff", 1, 2), None),
    ],
)
def test_scalars_that_are_written_as_tensors(tmp_path, tensor, wanted):
    value = b"\x0a\x01x\x42" + bytes([len(tensor)]) + tensor
    summary = b"\x0a" + bytes([len(value)]) + value
    path = tmp_path / "events.out.tfevents.1"
    path.write_bytes(record(b"\x10\x07\x2a" + bytes([len(summary)]) + summary))
    assert [(s.tag, s.step, s.value) for s in scalars(path)] == (
        [] if wanted is None else [("x", 7, wanted)]
    )


def test_an_event_file_cut_anywhere_gives_its_start(tmp_path):
    event = next((IMPORTS / "tensorboard/coupled-s0").iterdir()).read_bytes()
    path = tmp_path / "x-s0" / "events.out.tfevents.1"
    path.parent.mkdir()
    path.write_bytes(event)
    whole = list(scalars(path))
    seen = 0
    for cut in range(0, len(event), 7):
        path.write_bytes(event[:cut])
        reader = load("tensorboard")
        found = [(p.metric, p.value) for p in reader.points([path], parse_request(), Log())]
        assert found == [(s.tag, s.value) for s in whole[: len(found)]]
        assert len(found) >= seen
        seen = len(found)
    assert seen >= len(whole) - 1


def test_a_damaged_number_in_an_event_file_is_refused(tmp_path):
    event = bytearray(next((IMPORTS / "tensorboard/plain-s0").iterdir()).read_bytes())
    place = event.index(b"valid/loss") + 13
    event[place] ^= 1
    path = tmp_path / "events.out.tfevents.1"
    path.write_bytes(event)
    with pytest.raises(ValueError, match=r"damaged at byte \d+: a checksum does not match"):
        list(scalars(path))


@given(st.lists(st.binary(max_size=60), max_size=4))
def test_any_payload_with_a_right_checksum_is_scalars_or_one_sentence(tmp_path_factory, payloads):
    path = tmp_path_factory.getbasetemp() / "events.out.tfevents.any"
    path.write_bytes(b"".join(map(record, payloads)))
    with suppress(ValueError):
        assert all(isinstance(s.value, float) for s in scalars(path))


@given(st.integers(0, 400), st.binary(min_size=1, max_size=3))
def test_a_changed_payload_with_a_right_checksum_is_scalars_or_one_sentence(
    tmp_path_factory, place, change
):
    event = next((IMPORTS / "tensorboard/plain-s0").iterdir()).read_bytes()
    payload = bytearray(event[-62:-4])
    place %= len(payload)
    payload[place : place + len(change)] = change
    path = tmp_path_factory.getbasetemp() / "events.out.tfevents.changed"
    path.write_bytes(record(bytes(payload)))
    with suppress(ValueError):
        assert all(isinstance(s.value, float) for s in scalars(path))
