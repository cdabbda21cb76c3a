"""Arms and seeds: from names, fields and files, and refused with what was found."""

import json
import math

import pytest

from analysis.importers import import_runs
from analysis.importers.request import parse_request

BY_NAME = {"arm": r"(?:^|/)([a-z]+)-s\d+", "seed": r"-s(\d+)"}


def values(imported, metric=None):
    """(arm, seed) -> value and status, of one metric."""
    table = imported.table
    rows = table[table["metric"] == (metric or table["metric"].iloc[0])]
    return {(r.arm, r.seed): (r.value, r.status) for r in rows.itertuples()}


def write(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return path


def chart(tmp_path, *runs, metric="loss", name="chart.csv"):
    header = ",".join(['"Step"', *(f'"{run} - {metric}"' for run in runs)])
    cells = ",".join(f'"{1 + i / 8}"' for i in range(len(runs)))
    return write(tmp_path / name, f'{header}\n"5",{cells}\n')


def test_a_run_name_splits_at_its_last_dash(tmp_path):
    path = chart(tmp_path, "base - wide - s3")
    table = import_runs("wandb", [path], parse_request(arm="^(.+) - s", seed=r"s(\d+)$")).table
    assert table["run_id"].tolist() == ["base - wide - s3"]
    assert table[["arm", "seed", "metric"]].values.tolist() == [["base - wide", 3, "loss"]]


def test_the_file_itself_may_name_the_arm(tmp_path):
    files = [chart(tmp_path, "seed-1", "seed-2", name=f"{arm}.csv") for arm in ("a", "b")]
    request = parse_request(seed=r"seed-(\d+)", columns=["arm=file"])
    assert set(values(import_runs("wandb", files, request))) == {
        ("a", 1), ("a", 2), ("b", 1), ("b", 2),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, r"neither a field nor a pattern for its arm\.\n  runs: 'base-s0', 'lin-s0'"),
        ({"arm": "nothing"}, r"--arm 'nothing' does not fit the run 'base-s0'"),
        ({"arm": "("}, "--arm '\\(' is no regular expression"),
        ({"arm": "(a)(b)"}, "has 2 groups"),
        ({"arm": "^([a-z]+)", "seed": "([a-z]+)"}, "seed 'base' is no whole number"),
        ({"arm": "s0", "seed": r"s(\d)"}, "2 runs are arm 's0', seed 0 and have 'loss'"),
        ({"arm": "^([a-z]+)", "columns": ["seed=config.seed"]}, "has no field 'config.seed'"),
        ({"arm": "a", "seed": "0", "metrics": ["los"]}, r"no run has the metric 'los'; did you"),
    ],
)
def test_what_names_leave_open_is_refused_with_the_names(tmp_path, options, said):
    path = chart(tmp_path, "base-s0", "lin-s0")
    with pytest.raises(ValueError, match=said):
        import_runs("wandb", [path], parse_request(**options))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"columns": ["arm"]}, "is not of the form COLUMN=FIELD"),
        ({"metrics": ["=x"]}, "is not of the form NEW=OLD"),
        ({"columns": ["arm=a", "arm=b"]}, "names the same column or metric twice"),
        ({"arm": "x", "columns": ["arm=a"]}, "both say where it is"),
        ({"columns": ["value=loss"]}, "the importer's own"),
    ],
)
def test_options_that_contradict_one_another(options, said):
    with pytest.raises(ValueError, match=said):
        parse_request(**options)


def test_a_grouped_chart_has_no_seeds_to_read(tmp_path):
    path = chart(tmp_path, "Group: base")
    with pytest.raises(ValueError, match="is a mean over the runs of a group"):
        import_runs("wandb", [path], parse_request(**BY_NAME))


def test_a_sampled_history_is_pointed_out(tmp_path):
    lines = [{"run_id": "a", "name": "a-s0", "_step": i, "loss": 1.0} for i in range(500)]
    path = write(tmp_path / "h.jsonl", "\n".join(map(json.dumps, lines)))
    found = import_runs("wandb", [path], parse_request(step="last", **BY_NAME))
    assert "run.history() samples" in found.notices[0]


def test_metrics_of_one_arm_are_not_missed_in_another(tmp_path):
    text = "arm,seed,metric,value\na,0,loss,1\na,0,extra,2\na,1,loss,1\nb,0,loss,1\n"
    found = import_runs("csv", [write(tmp_path / "runs.csv", text)], parse_request())
    assert values(found, "extra") == {("a", 0): (2.0, "done"), ("a", 1): (pytest.approx(
        math.nan, nan_ok=True), "failed")}  # fmt: skip
