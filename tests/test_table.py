"""The tidy table: digits kept, statuses read, and every doubtful cell refused with its row."""

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.table import load_runs, tidy

HEADER = "arm,seed,split,metric,value\n"


@pytest.fixture
def csv(tmp_path):
    def write(text, name="runs.csv"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_a_long_table_is_read_with_every_digit(csv):
    value = 3.2796000000000003
    table = load_runs(csv(f"{HEADER}a,1,valid,loss,{value!r}\nb,1,valid,loss,1e-300\n"))
    assert table["value"].tolist() == [value, 1e-300]
    assert table["seed"].tolist() == [1, 1]
    assert table["status"].tolist() == ["done", "done"]


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_values_survive_a_round_trip_through_csv(value):
    row = {"arm": "a", "seed": 1, "metric": "loss", "value": value, "status": "done"}
    text = pd.DataFrame([row]).to_csv(index=False)
    cells = dict(zip(*(line.split(",") for line in text.splitlines()), strict=True))
    assert tidy(pd.DataFrame([cells]), "t")["value"].iloc[0] == value


def test_empty_values_are_failed_runs_and_non_finite_ones_diverged(csv):
    rows = ["a,1,valid,loss,", "a,2,valid,loss,NaN", "a,3,valid,loss,-Infinity", "a,4,valid,loss,2"]
    table = load_runs(csv(HEADER + "\n".join(rows) + "\n"))
    assert table["status"].tolist() == ["failed", "diverged", "diverged", "done"]
    assert table["value"].isna().tolist() == [True, True, True, False]


def test_a_stated_status_counts_and_a_missing_value_is_never_done(csv):
    head = "arm,seed,metric,value,status\n"
    table = load_runs(csv(head + "a,1,loss,2.5,diverged\na,2,loss,,done\na,3,loss,2.0,\n"))
    assert table["status"].tolist() == ["diverged", "failed", "done"]


def test_a_wide_table_needs_the_name_of_its_metric(csv):
    path = csv("arm,name,run,val_loss\nH0,x,0,3.25\nH1,y,0,3.5\n")
    table = load_runs(path, "val_loss")
    assert table[["arm", "seed", "metric", "value"]].values.tolist() == [
        ["H0", 0, "val_loss", 3.25],
        ["H1", 0, "val_loss", 3.5],
    ]
    with pytest.raises(ValueError, match=r"its columns are arm, name, seed, val_loss"):
        load_runs(path, "loss")


def test_a_byte_order_mark_and_windows_line_ends_are_no_data(tmp_path):
    path = tmp_path / "runs.csv"
    text = (HEADER + "a,1,valid,loss,2\n").replace("\n", "\r\n")
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert load_runs(path)["arm"].tolist() == ["a"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is no readable table"),
        (HEADER, "has no rows"),
        ("arm,metric,value\na,loss,1\n", "has no column seed"),
        ("seed,metric,value\n1,loss,1\n", "has no column arm"),
        ("arm,seed,metric\na,1,loss\n", "neither the columns metric and value"),
        (HEADER + "a,1,valid,loss,2\na,1.5,valid,loss,2\n", "row 3: seed '1.5' is no whole number"),
        (HEADER + "a,1,valid,loss,2\na,two,valid,loss,2\n", "row 3: seed 'two'"),
        (HEADER + 'a,1,valid,loss,"2,5"\n', r"row 2: value '2,5' is no number \(write decimals"),
        (HEADER + "a,1,valid,loss,fast\n", "row 2: value 'fast' is no number"),
        (HEADER + "a,1,valid,loss,2\nb,1,valid,loss,2\na,1,valid,loss,3\n", "rows 2 and 4 are the"),
        ("arm,seed,metric,value,status\na,1,loss,2,ok\n", "status 'ok' is none of done"),
    ],
)
def test_what_cannot_be_decided_is_refused_with_file_and_row(csv, text, said):
    with pytest.raises(ValueError, match=said) as caught:
        load_runs(csv(text))
    assert "runs.csv" in str(caught.value)


def test_runs_may_differ_in_a_declared_axis_but_not_in_a_column_of_notes(csv):
    path = csv("arm,seed,lr,note,metric,value\na,1,0.1,x,loss,2\na,1,0.2,y,loss,3\n")
    assert load_runs(path, axes=["lr"])["value"].tolist() == [2.0, 3.0]
    with pytest.raises(ValueError, match="rows 2 and 3 are the same arm"):
        load_runs(path)


def test_a_folder_that_is_no_results_folder_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"holds no study\.toml"):
        load_runs(tmp_path)
    with pytest.raises(ValueError, match="does not exist"):
        load_runs(tmp_path / "absent.csv")


def test_parquet_and_csv_are_the_same_table(csv, tmp_path):
    pytest.importorskip("pyarrow")
    path = csv(HEADER + "a,1,valid,loss,2.25\nb,1,valid,loss,\n")
    table = load_runs(path)
    table.drop(columns="status").to_parquet(tmp_path / "runs.parquet")
    again = load_runs(tmp_path / "runs.parquet")
    assert again["value"].equals(table["value"])
    assert again["status"].tolist() == ["done", "failed"]
