"""Plain CSV of any hand: three layouts, any line ends, nothing guessed."""

import pytest

from analysis.importers import import_runs
from analysis.importers.request import parse_request


def values(imported, metric=None):
    """(arm, seed) -> value and status, of one metric."""
    table = imported.table
    rows = table[table["metric"] == (metric or table["metric"].iloc[0])]
    return {(r.arm, r.seed): (r.value, r.status) for r in rows.itertuples()}


def write(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return path


LONG = "arm,seed,step,metric,value\nbase,0,100,loss,1.93\nbase,1,100,loss,\nlin,0,100,loss,NaN\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_a_long_table_with_any_line_ends_and_mark(tmp_path, encoding, ends):
    path = write(tmp_path / "long.csv", LONG.replace("\n", ends), encoding)
    found = values(import_runs("csv", [path], parse_request()))
    assert found["base", 0] == (1.93, "done")
    assert found["base", 1][1] == "failed"
    assert found["lin", 0][1] == "diverged"


def test_one_column_a_metric_and_one_column_a_seed(tmp_path):
    wide = write(tmp_path / "wide.csv", "arm,seed,loss,acc,lr\na,0,1.5,0.5,3\nb,0,1.25,0.75,1\n")
    found = import_runs("csv", [wide], parse_request(metrics=["nats=loss", "acc"]))
    assert values(found, "nats")["b", 0] == (1.25, "done")
    assert values(found, "acc")["a", 0] == (0.5, "done")
    assert found.notices == [f"{wide}: columns left out: 'lr'; keep one with --map NAME=COLUMN"]
    seeds = write(tmp_path / "seeds.csv", "arm,seed0,seed 1,Seed_2\na,1.5,,2.5\nb,1,2,3\n")
    found = import_runs("csv", [seeds], parse_request(metrics=["loss"]))
    assert values(found)["a", 2] == (2.5, "done")
    assert values(found)["a", 1][1] == "failed"
    assert values(found)["b", 1] == (2.0, "done")


def test_known_columns_are_kept_and_further_ones_mapped(tmp_path):
    text = "arm,seed,split,size,metric,value\na,0,valid,60m,loss,1\na,0,test,60m,loss,2\n"
    path = write(tmp_path / "runs.csv", text)
    table = import_runs("csv", [path], parse_request(columns=["preset=size"])).table
    assert table[["preset", "split", "value"]].values.tolist() == [
        ["60m", "valid", 1.0], ["60m", "test", 2.0],
    ]  # fmt: skip


def test_a_decimal_comma_needs_its_flag(tmp_path):
    quoted = write(tmp_path / "quoted.csv", 'arm,seed,metric,value\na,0,loss,"1,93"\n')
    with pytest.raises(ValueError, match=r"row 2: 'value': '1,93' is no number.*--decimal-comma"):
        import_runs("csv", [quoted], parse_request())
    semicolons = write(tmp_path / "semi.csv", "arm;seed;metric;value\na;0;loss;1,93\n")
    with pytest.raises(ValueError, match="separated by semicolons; give --decimal-comma"):
        import_runs("csv", [semicolons], parse_request())
    found = import_runs("csv", [semicolons], parse_request(decimal_comma=True))
    assert values(found) == {("a", 0): (1.93, "done")}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("arm,arm,metric,value\n", "column 'arm' is there twice"),
        ("arm,,metric,value\n", "column 2 has no name"),
        ("arm,seed,metric,value\n", "holds no run"),
        (LONG + "base,0,100\n", "row 5 has 3 cells and the header 5"),
        (LONG + 'base,"0,100,loss,2\n', "is no CSV"),
        (LONG + "base,0,100,loss,1_000\n", "'1_000' is no number"),
        (LONG + "base,0,200,loss,1.5\n", r"step 100 and step 200; declare which counts: --step"),
        (LONG + "base,0,100,loss,1.94\n", r"two values at step 100, 1.93 and 1.94; keep one"),
        (LONG + "base,x1,100,loss,1\n", "seed 'x1' is no whole number"),
        ("arm,metric,value\na,loss,1\n", r"its seed(.|\n)*fields: 'arm', 'file'"),
        ("model,seed,metric,value\na,0,loss,1\n", r"--map arm=FIELD, or --arm with a pattern"),
        ("arm,seed,loss,acc\na,0,1,2\n", r"name them with --metric.*'loss', 'acc'"),
        ("arm,seed0,seed1\na,1,2\n", "one --metric NAME"),
        ("arm,seed,seed0\na,1,2\n", "has both a column seed and columns"),
        ("arm,seed,metric,value,status\na,0,loss,1,ok\n", "status 'ok' is none of"),
    ],
)
def test_what_a_table_leaves_open_is_refused_with_what_was_found(tmp_path, text, said):
    path = write(tmp_path / "runs.csv", text)
    with pytest.raises(ValueError, match=said) as caught:
        import_runs("csv", [path], parse_request())
    assert "runs.csv" in str(caught.value)


def test_a_row_that_is_there_twice_and_says_the_same_is_one_value(tmp_path):
    path = write(tmp_path / "runs.csv", LONG + "base,0,100,loss,1.93\n")
    assert values(import_runs("csv", [path], parse_request()))["base", 0] == (1.93, "done")
