"""Diagnostics from the runs' files to the report: nothing lost, nothing claimed."""

import json
import lzma
import shutil

import numpy as np
import pandas as pd
import pytest

from analysis import archive, diagnostics
from analysis.analyze import analyze
from analysis.anatomy import per_run, summary
from runner.execute import execute
from runner.launch import create_folder
from runner.study_run import read

HEADS = {"coupling_by_layer", "coupling_over_training", "participation_by_layer",
         "participation_over_training", "rank_by_layer", "entropy_by_layer"}  # fmt: skip


@pytest.fixture(scope="module")
def trained(tmp_path_factory, small_study_toml):
    """Results of the small study, two layers, with diagnostics at the start, at 6 and at 12."""
    folder = tmp_path_factory.mktemp("heads")
    text = small_study_toml.replace("layers = 1", "layers = 2").replace(
        "lr = 1e-2", "lr = 1e-2\nevaluate_every = 6\ndiagnostics = true"
    )
    (folder / "small.toml").write_text(text, encoding="utf-8")
    plan = read(str(folder / "small.toml"), folder / "results")
    plan.results.mkdir(parents=True)
    plan.freeze(None)
    for run in plan.runs:
        assert execute(create_folder(plan.results, run)).status == "done"
    return plan.results


@pytest.fixture
def results(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "small")
    return tmp_path / "small"


def lines_of(results):
    for path in results.glob("runs/*/diagnostics.jsonl"):
        for line in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
            yield path.parent.name, line


def test_the_table_holds_every_value_of_every_run(results):
    analyze([results], figures=False)
    table = diagnostics.load(results / diagnostics.FILE, [])
    assert list(table.columns) == diagnostics.columns([])
    found = {(r.run_id, r.step, r.layer, r.quantity, r.head): r.value for r in table.itertuples()}
    expected = {
        (run_id, line["step"], line["layer"], line["quantity"], head): value
        for run_id, line in lines_of(results)
        for head, value in enumerate(line["values"])
    }
    assert found == expected
    specs = {p.name: json.loads((p / "spec.json").read_text()) for p in results.glob("runs/*")}
    assert all(
        (specs[r.run_id]["arm"], specs[r.run_id]["seed"]) == (r.arm, r.seed)
        for r in table.itertuples()
    )


def test_the_report_shows_what_the_rows_say(results):
    analyze([results])
    made = {path.stem for path in (results / "figures").glob("*.csv")}
    assert made == {*HEADS, "curve_differences"}
    drift = pd.read_csv(results / "figures" / "coupling_by_layer.csv")
    assert set(drift["arm"]) == {"coupled"}
    values = [
        (run_id, np.mean(line["values"]))
        for run_id, line in lines_of(results)
        if (line["step"], line["layer"], line["quantity"]) == (12, 1, "drift_key")
    ]
    assert len(values) == 3
    row = drift[(drift["panel"].str.startswith("key: |k'")) & (drift["x"] == 1)].iloc[0]
    seeds = [value for _, value in values]
    assert row["n"] == 3
    assert [row["mean"], row["low"], row["high"]] == pytest.approx(
        [np.mean(seeds), min(seeds), max(seeds)], rel=1e-5
    )
    ratios = pd.read_csv(results / "figures" / "participation_by_layer.csv")
    assert set(ratios[ratios["arm"] == "coupled"]["stage"]) == {"scored", "projected"}
    assert set(ratios[ratios["arm"] == "plain"]["stage"]) == {"scored"}
    means = ratios.set_index(["arm", "stage", "x", "panel"])["mean"]
    query, key, difference = (
        means.xs(panel, level="panel") for panel in ("queries (PR Q)", "keys (PR K)", "PR Q - PR K")
    )
    assert (query - key - difference).abs().max() < 1e-4
    assert len(query) == len(key) == len(difference) == 6
    entropy = pd.read_csv(results / "figures" / "entropy_by_layer.csv")
    assert np.allclose(entropy["sink"] + entropy["content"], entropy["entropy"], atol=1e-5)
    report = (results / "report.md").read_text(encoding="utf-8")
    section = report.split("## Inside the heads")[1].split("## Provenance")[0]
    assert all(f"figures/{name}.png" in section for name in HEADS)
    assert "supported" not in section
    assert "Inside the heads" in (results / "report.html").read_text(encoding="utf-8")


def test_without_the_runs_the_same_is_rebuilt_from_the_table(results, tmp_path):
    analyze([results])
    clone = tmp_path / "clone"
    shutil.copytree(
        results, clone, ignore=shutil.ignore_patterns("runs", "figures", "tables", "*.jsonl.xz")
    )
    before = (clone / diagnostics.FILE).read_bytes()
    analyze([clone])
    assert (clone / diagnostics.FILE).read_bytes() == before
    kept = [*(f"figures/{name}.{kind}" for name in HEADS for kind in ("csv", "pdf", "png")),
            *(f"tables/heads.{kind}" for kind in ("csv", "md", "tex"))]  # fmt: skip
    for name in kept:
        assert (clone / name).read_bytes() == (results / name).read_bytes(), name


def test_a_study_without_diagnostics_has_no_trace_of_them(results):
    analyze([results])
    for path in results.glob("runs/*/diagnostics.jsonl"):
        path.unlink()
    (results / diagnostics.FILE).unlink()
    analyze([results], out=results.parent / "out")
    analyze([results])
    assert not (results / diagnostics.FILE).exists()
    assert not {path.stem for path in (results / "figures").iterdir()} & HEADS
    for kind in ("md", "html"):
        assert "Inside the heads" not in (results / f"report.{kind}").read_text(encoding="utf-8")
    assert not list((results.parent / "out" / "tables").glob("heads*"))


@pytest.mark.parametrize("damage", ["cut", "no archive", "other columns"])
def test_a_broken_table_ends_in_one_sentence(results, damage):
    analyze([results], figures=False)
    shutil.rmtree(results / "runs")
    (results / archive.RECORDS).unlink()
    path = results / diagnostics.FILE
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-20])
    else:
        data = b"a,b\n1,2\n"
        path.write_bytes(data if damage == "no archive" else lzma.compress(data))
    with pytest.raises(ValueError, match=r"diagnostics\.csv\.xz.*delete it"):
        analyze([results], figures=False)


def frame(rows):
    columns = ["run_id", "arm", "seed", "step", "layer", "head", "quantity", "value"]
    return pd.DataFrame(rows, columns=columns)


def test_only_runs_that_are_done_count_and_a_missing_head_stays_missing():
    rows = frame(
        [
            ("a", "x", 1, 4, 0, 0, "pr_key", 2.0),
            ("a", "x", 1, 4, 0, 1, "pr_key", 4.0),
            ("a", "x", 1, 4, 1, 0, "pr_key", 5.0),
            ("a", "x", 1, 4, 1, 1, "pr_key", np.nan),
            ("b", "x", 2, 2, 0, 0, "pr_key", 99.0),
        ]
    )
    runs = pd.DataFrame({"run_id": ["a", "b"], "status": ["done", "diverged"], "cell": ["", ""]})
    values = per_run(rows, runs)
    assert values[["layer", "value"]].to_numpy().tolist() == [[0, 3.0]]
    assert summary(values)["mean"].tolist() == [3.0]
    assert per_run(rows[rows["run_id"] == "b"], runs) is None
    assert per_run(None, runs) is None


def test_only_the_last_step_of_a_run_stands_for_its_end():
    rows = frame([("a", "x", 1, step, 0, 0, "log_det", float(step)) for step in (0, 6, 12)])
    runs = pd.DataFrame({"run_id": ["a"], "status": ["done"], "cell": [""]})
    assert summary(per_run(rows, runs))["mean"].tolist() == [12.0]


def test_runs_that_were_trained_before_diagnostics_were_asked_for_are_counted(results):
    next(results.glob("runs/*/diagnostics.jsonl")).unlink()
    notices = analyze([results], figures=False).notices
    assert [n.split(" recorded")[0] for n in notices] == ["1 of 6 finished runs"]
