"""What a treatment cost: ratios by seed, from what the runs recorded, and nothing made up."""

import subprocess
import sys
from pathlib import Path

import pandas as pd

from analysis import cost
from analysis.records import Result, RunRecord, Spec

PAIR = [("new", "old")]


def record(arm, seed, *, params=100, tokens_per_second=64.0, memory=1000.0, status="done"):
    about = {"run_id": f"{arm[0]}{seed:015x}".replace("n", "a").replace("o", "b"), "study": "s"}
    spec = Spec(
        **about, arm=arm, seed=seed, cell={}, settings={"train": {"seq_len": 16, "batch": 8}}
    )
    timing = {"tokens_per_second": tokens_per_second, "peak_memory_bytes": memory}
    outcome = {"arm": arm, "seed": seed, "status": status, "steps": 5, "tokens": 640}
    outcome |= {"params": params, "metrics": {}, "data_fingerprint": "f", "weights_sha256": "w"}
    result = Result(
        **about,
        **outcome,
        timing={key: value for key, value in timing.items() if value is not None},
    )
    return RunRecord(Path(about["run_id"]), spec, result, [])


def runs(records, cell=""):
    ids = [(r.spec.run_id, r.spec.arm, cell) for r in records]
    return pd.DataFrame(ids, columns=["run_id", "arm", "cell"])


def by_quantity(records):
    rows = cost.ratios(cost.from_records(records), runs(records), PAIR)
    return rows.set_index("quantity")


def test_a_step_is_its_tokens_over_their_rate():
    (row,) = cost.from_records([record("new", 1, tokens_per_second=64.0)]).to_dict("records")
    assert row["step_seconds"] == 16 * 8 / 64
    assert (row["params"], row["peak_memory_bytes"]) == (100, 1000)


def test_ratios_are_taken_within_a_seed():
    speeds = {1: (10.0, 20.0), 2: (20.0, 20.0), 3: (40.0, 120.0)}
    records = [
        record(arm, seed, tokens_per_second=speed, params=params)
        for seed, pair in speeds.items()
        for arm, speed, params in zip(("new", "old"), pair, (110, 100), strict=True)
    ]
    found = by_quantity(records)
    assert found.loc["step_seconds", ["n", "median", "low", "high"]].tolist() == [3, 2, 1, 3]
    assert found.loc["params", ["median", "low", "high"]].tolist() == [1.1] * 3
    table = cost.table(found.reset_index())
    assert table.header == ("treatment", "baseline", "parameters", "step time", "peak memory")
    assert table.rows == (("new", "old", "1.100 (3)", "2.000, 1.000 to 3.000 (3)", "1.000 (3)"),)


def test_a_seed_without_its_partner_and_a_run_that_is_not_done_are_left_out():
    records = [
        *(record("new", seed) for seed in (1, 2, 3)),
        *(record("old", 1), record("old", 2, status="diverged")),
    ]
    assert by_quantity(records)["n"].tolist() == [1, 1, 1]


def test_what_was_not_recorded_is_a_dash():
    records = [record("new", 1, memory=None), record("old", 1)]
    assert "peak_memory_bytes" not in by_quantity(records).index
    rows = cost.ratios(cost.from_records(records), runs(records), PAIR)
    assert cost.table(rows).rows[0][-1] == "–"
    assert cost.from_records([record("new", 1, tokens_per_second=None)]) is None
    assert cost.from_records([]) is None


def test_cells_are_kept_apart():
    here, there = ([record(a, s) for a in ("new", "old")] for s in (1, 2))
    places = pd.concat([runs(here, "lr=1"), runs(there, "lr=2")])
    rows = cost.ratios(cost.from_records([*here, *there]), places, PAIR)
    assert rows.groupby("cell")["n"].max().to_dict() == {"lr=1": 1, "lr=2": 1}
    assert [row[2] for row in cost.table(rows).rows] == ["lr=1", "lr=2"]


def test_peak_memory_is_that_of_the_process_even_after_it_was_freed():
    code = (
        "from pathlib import Path\n"
        "from runner import device\n"
        "resident = int(Path('/proc/self/statm').read_text().split()[1]) * 4096\n"
        "block = bytearray(300 * 2**20)\n"
        "for i in range(0, len(block), 4096): block[i] = 1\n"
        "del block\n"
        "print(device.peak_memory_bytes('cpu') - resident)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 0.98 * 300 * 2**20 < int(ran.stdout) < 1200 * 2**20
