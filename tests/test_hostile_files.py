"""Broken, hostile and huge files: a table or one sentence, in little memory, no code run."""

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tracemalloc
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from analysis.importers import FORMATS, import_runs, load
from analysis.importers.event_file import scalars
from analysis.importers.request import parse_request

IMPORTS = Path(__file__).parent / "reference" / "imports"
BY_NAME = {"arm": r"(?:^|/)([a-z]+)-s\d+", "seed": r"-s(\d+)"}


LONG = "arm,seed,step,metric,value\nbase,0,100,loss,1.93\nbase,1,100,loss,\nlin,0,100,loss,NaN\n"


def values(imported, metric=None):
    """(arm, seed) -> value and status, of one metric."""
    table = imported.table
    rows = table[table["metric"] == (metric or table["metric"].iloc[0])]
    return {(r.arm, r.seed): (r.value, r.status) for r in rows.itertuples()}


def write(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return path


def test_a_torn_tail_is_left_out_and_said(tmp_path):
    event = next((IMPORTS / "tensorboard/plain-s0").iterdir())
    whole = list(scalars(event))
    torn = tmp_path / "plain-s0" / event.name
    torn.parent.mkdir()
    torn.write_bytes(event.read_bytes()[:-3])
    found = import_runs("tensorboard", [torn], parse_request(step="last", **BY_NAME))
    assert "breaks off" in found.notices[0]
    assert values(found)["plain", 0][0] == whole[-1].value
    line = json.dumps({"name": "a-s0", "_step": 1, "loss": 2.5})
    path = write(tmp_path / "h.jsonl", f'{line}\n{{"name": "a-s0", "_st')
    found = import_runs("wandb", [path], parse_request(**BY_NAME))
    assert values(found) == {("a", 0): (2.5, "done")}
    assert "breaks off" in found.notices[0]
    log = tmp_path / "c-s0" / "metrics.csv"
    log.parent.mkdir()
    write(log, "epoch,step,loss\n0,1,2.5\n0,2")
    found = import_runs("lightning", [log], parse_request(**BY_NAME))
    assert values(found) == {("c", 0): (2.5, "done")}
    assert "breaks off" in found.notices[0]


def test_what_is_no_ordinary_file_is_not_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    for format_ in FORMATS:
        with pytest.raises(ValueError, match=r"is no ordinary file"):
            import_runs(format_, [tmp_path / "pipe.csv"], parse_request(metrics=["loss"]))
        with pytest.raises(ValueError, match="does not exist"):
            import_runs(format_, [tmp_path / "absent.csv"], parse_request(metrics=["loss"]))


def test_links_in_a_file_store_are_not_followed(tmp_path):
    shutil.copytree(IMPORTS / "mlflow" / "mlruns", tmp_path / "mlruns")
    secret = write(tmp_path / "secret", "hidden")
    params = next((tmp_path / "mlruns").rglob("params"))
    (params / "leak").symlink_to(secret)
    options = {"columns": ["arm=params.attn", "seed=params.seed"], "step": "last"}
    found = import_runs("mlflow", [tmp_path / "mlruns"], parse_request(**options))
    assert any("is a link and was not followed" in notice for notice in found.notices)


def test_a_view_in_a_database_is_never_run(tmp_path):
    path = tmp_path / "m.db"
    shutil.copy(IMPORTS / "mlflow" / "mlflow.db", path)
    with sqlite3.connect(path) as database:
        database.execute("ALTER TABLE metrics RENAME TO hidden")
        database.execute("CREATE VIEW metrics AS SELECT * FROM hidden")
    database.close()
    with pytest.raises(ValueError, match="has no table metrics"):
        import_runs("mlflow", [path], parse_request(**BY_NAME))


def test_a_database_is_not_changed_by_reading(tmp_path):
    path = tmp_path / "m.db"
    shutil.copy(IMPORTS / "mlflow" / "mlflow.db", path)
    path.chmod(0o444)
    before = path.read_bytes()
    import_runs("mlflow", [path], parse_request(step="last", **BY_NAME))
    assert path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.db"]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("run.wandb", "", "W&B's own binary log"),
        ("x.csv", "a,b\n1,2\n", "is neither a chart export"),
        ("h.jsonl", "{}\n[1]\n", "line 2 is no JSON object"),
        ("h.jsonl", '{"loss": 1}\n', "line 1 names no run"),
        ("x.csv", '"Created","a-s0 - loss"\n"2026-01-01","1"\n', "with Step on its x axis"),
    ],
)
def test_exports_that_say_too_little(tmp_path, name, text, said):
    with pytest.raises(ValueError, match=said):
        import_runs("wandb", [write(tmp_path / name, text)], parse_request(**BY_NAME))


def test_json_that_would_exhaust_a_parser_is_refused(tmp_path):
    deep = write(tmp_path / "trainer_state.json", "[" * 100_000)
    with pytest.raises(ValueError, match="is no readable JSON"):
        import_runs("hf-trainer", [deep], parse_request(**BY_NAME))
    digits = write(tmp_path / "h.jsonl", '{"name": "a-s0", "loss": ' + "9" * 5000 + "}\n")
    with pytest.raises(ValueError, match="line 1 is no JSON object"):
        import_runs("wandb", [digits], parse_request(**BY_NAME))


def test_importers_load_nothing_that_runs_code_from_files():
    for path in Path(load("csv").__file__).parent.glob("*.py"):
        code = path.read_text()
        assert not re.search(r"^\s*(import|from) (pickle|yaml|marshal|shelve)\b", code, re.M), path
        assert not re.search(r"\b(eval|exec|__import__)\(", code), path


def some(folder, pattern, *which):
    found = sorted(p.relative_to(IMPORTS).as_posix() for p in (IMPORTS / folder).rglob(pattern))
    return [found[i] for i in which]


CORPUS = {
    "wandb": ["wandb/plain.csv", "wandb/runs_table.csv", "wandb/history.jsonl"],
    "hf-trainer": ["hf_trainer/plain-s0/trainer_state.json"],
    "lm-eval": some("lm_eval", "*.json", 0),
    "tensorboard": some("tensorboard", "*tfevents*", 2, 4, 5, 6),
    "lightning": ["lightning/plain-s0/version_0/metrics.csv"],
    "mlflow": ["mlflow/mlflow.db"],
    "csv": ["long.csv"],
}  # fmt: skip


@st.composite
def mutations(draw, whole):
    """A file with some bytes overwritten, dropped, doubled or cut off."""
    data = bytearray(whole)
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, max(len(data) - 1, 0)))
        width = draw(st.integers(1, 12))
        kind = draw(st.sampled_from(["set", "drop", "double", "cut", "text"]))
        if kind == "set":
            data[place : place + width] = draw(st.binary(min_size=width, max_size=width))
        elif kind == "drop":
            del data[place : place + width]
        elif kind == "double":
            data[place:place] = data[place : place + 40 * width]
        elif kind == "cut":
            del data[place:]
        else:
            pieces = [b'"', b",", b"\n", b"\r", b"\0", b"NaN", b"1e999", b"{", b"}", b"[", b"-",
                      b"\xff", b"\xef\xbb\xbf", b": ", b"null", b"9" * 30]  # fmt: skip
            data[place:place] = draw(st.sampled_from(pieces))
    return bytes(data)


def survive(format_, folder, data, name):
    """Reading ends in a table or in a sentence that names the file."""
    path = folder / name
    path.write_bytes(data)
    request = parse_request(step="last", metrics=["valid/loss"], **BY_NAME) if (
        name.endswith("table.csv")) else parse_request(step="last", **BY_NAME)  # fmt: skip
    with suppress(ValueError):
        table = import_runs(format_, [path], request).table
        assert set(table["status"]) <= {"done", "diverged", "failed"}
        assert table["value"].notna().equals(table["status"] == "done")


def whole_file(name):
    return LONG.encode() if name == "long.csv" else (IMPORTS / name).read_bytes()


@pytest.mark.parametrize("format_", FORMATS)
def test_no_damage_to_a_file_ends_in_a_traceback(format_, tmp_path):
    damaged(format_, tmp_path, 300)


@pytest.mark.slow
@pytest.mark.parametrize("format_", FORMATS)
def test_no_damage_among_ten_thousand_ends_in_a_traceback(format_, tmp_path):
    damaged(format_, tmp_path, 10_000)


def damaged(format_, folder, count):
    place = folder / "plain-s0"
    place.mkdir()

    @settings(max_examples=count, suppress_health_check=list(HealthCheck))
    @given(st.data(), st.sampled_from(CORPUS[format_]))
    def run(data, name):
        survive(format_, place, data.draw(mutations(whole_file(name))), Path(name).name)

    run()


def test_a_long_table_is_read_in_little_memory(tmp_path):
    path, request = long_table(tmp_path / "long.csv", 60_000), parse_request(step="last")
    import_runs("csv", [path], request)  # what is imported and cached once is no use of memory
    tracemalloc.start()
    try:
        found = import_runs("csv", [path], request)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert values(found)["a", 1] == (59_999.5, "done")
    assert peak_bytes < path.stat().st_size / 2


@pytest.mark.slow
def test_a_table_a_hundred_times_as_large_takes_no_more_memory(tmp_path):
    small, large = (
        peak_kib(long_table(tmp_path / f"{rows}.csv", rows)) for rows in (40_000, 4_000_000)
    )
    assert large < small + 10_000


def long_table(path, rows):
    with path.open("w") as file:
        file.write("arm,seed,step,metric,value\n")
        for start in range(0, rows, 1000):
            file.writelines(f"a,{s % 2},{s},loss,{s}.5\n" for s in range(start, start + 1000))
    return path


PEAK = """
import resource, sys
from pathlib import Path
from analysis.importers import import_runs
from analysis.importers.request import parse_request
import_runs("csv", [Path(sys.argv[1])], parse_request(step="last"))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def peak_kib(path):
    ended = subprocess.run([sys.executable, "-c", PEAK, path], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return int(ended.stdout)
