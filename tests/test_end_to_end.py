"""From a study file to a verdict: the whole path by the real command, in processes of its own."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

CQK = Path(sys.executable).with_name("cqk")


def cqk(*arguments, cwd=None):
    return subprocess.run(
        [CQK, *map(str, arguments)], capture_output=True, text=True, timeout=300, cwd=cwd
    )


def without_times(path):
    record = json.loads(path.read_text(encoding="utf-8"))
    record.pop("timing")
    return record


@pytest.fixture(scope="module")
def finished(tmp_path_factory, small_study_toml):
    """A results folder of the small study, trained once for all tests of this file."""
    folder = tmp_path_factory.mktemp("finished")
    study = folder / "small.toml"
    study.write_text(small_study_toml, encoding="utf-8")
    # The user's own packages of our generic names must reach neither the command nor its children.
    for name in ("analysis", "runner"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text("raise SystemExit('theirs')\n")
    ended = cqk("run", study, "--results", folder / "results", cwd=folder)
    assert ended.returncode == 0, ended.stderr
    return ended, study, folder / "results" / "small"


@pytest.fixture
def copy(finished, tmp_path):
    """A copy of the finished results that a test may break."""
    _, study, results = finished
    shutil.copytree(results, tmp_path / "results" / "small")
    return study, tmp_path / "results" / "small"


def test_progress_goes_to_stderr_and_the_outcome_to_stdout(finished):
    ended, _, results = finished
    assert ended.stdout == "6 done, 0 diverged, 0 failed; 6 trained now\n"
    assert len(ended.stderr.strip().splitlines()) == 6
    assert len(list(results.glob("runs/*/result.json"))) == 6
    assert not list(results.glob("runs/*/checkpoint"))


def test_arms_of_a_seed_see_the_same_batches_and_seeds_different_ones(finished):
    _, _, results = finished
    seen = {}
    for path in results.glob("runs/*/result.json"):
        record = json.loads(path.read_text(encoding="utf-8"))
        seen.setdefault(record["seed"], set()).add(record["data_fingerprint"])
    assert [len(fingerprints) for fingerprints in seen.values()] == [1, 1, 1]
    assert len(set.union(*seen.values())) == 3


def test_a_second_run_trains_nothing_and_changes_no_file(finished):
    _, study, results = finished
    before = {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in results.rglob("*") if p.is_file()}
    ended = cqk("run", study, "--results", results.parent)
    assert ended.returncode == 0
    assert ended.stdout == "6 done, 0 diverged, 0 failed; 0 trained now\n"
    after = {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in results.rglob("*") if p.is_file()}
    assert after == before


def test_a_deleted_result_is_trained_again_alone_and_comes_out_the_same(copy):
    study, results = copy
    path = sorted(results.glob("runs/*/result.json"))[2]
    expected = without_times(path)
    curve = (path.parent / "metrics.jsonl").read_bytes()
    path.unlink()
    ended = cqk("run", study, "--results", results.parent)
    assert ended.stdout.endswith("; 1 trained now\n"), ended.stderr
    assert without_times(path) == expected
    assert (path.parent / "metrics.jsonl").read_bytes() == curve


def test_the_analysis_writes_its_files_and_prints_the_verdict(copy):
    _, results = copy
    before = {p: p.read_bytes() for p in results.rglob("*") if p.is_file()}
    ended = cqk("analyze", results)
    assert ended.returncode == 0, ended.stderr
    assert "coupling" in ended.stdout
    assert f"report: {results / 'report.md'}" in ended.stdout
    for name in ("runs.csv", "comparisons.csv", "report.md", "figures/differences.png"):
        assert (results / name).stat().st_size > 0
    assert {path: path.read_bytes() for path in before} == before
    runs = pd.read_csv(results / "runs.csv")
    for row in runs[runs["metric"] == "loss"].to_dict("records"):
        record = json.loads((results / "runs" / row["run_id"] / "result.json").read_text())
        assert row["value"] == record["metrics"][row["split"]]["loss"]


def test_analysing_twice_writes_the_same_bytes(copy):
    _, results = copy
    cqk("analyze", results)
    first = {p: p.read_bytes() for p in results.rglob("*") if p.is_file()}
    cqk("analyze", results)
    assert {p: p.read_bytes() for p in results.rglob("*") if p.is_file()} == first


def test_the_json_of_an_analysis_is_one_document_with_finite_numbers(copy):
    _, results = copy
    ended = cqk("analyze", results, "--json", "--no-figures")
    document = json.loads(ended.stdout)
    assert document["runs"]["done"] == 6
    assert [row["split"] for row in document["comparisons"]] == ["valid", "test"]
    table = pd.read_csv(results / "comparisons.csv")
    assert [row["p"] for row in document["comparisons"]] == table["p"].tolist()


def test_an_arm_without_one_of_its_seeds_is_incomplete_and_exits_with_3(copy):
    _, results = copy
    next(results.glob("runs/*/result.json")).unlink()
    ended = cqk("analyze", results, "--json", "--no-figures")
    assert ended.returncode == 3
    document = json.loads(ended.stdout)
    assert document["runs"] == {"done": 5, "diverged": 0, "failed": 0, "missing": 1}
    assert {row["verdict"] for row in document["comparisons"]} == {"incomplete"}
    assert {row["p"] for row in document["comparisons"]} == {None}
    assert cqk("status", results).returncode == 3


def test_a_truncated_result_ends_in_one_sentence(copy):
    _, results = copy
    path = next(results.glob("runs/*/result.json"))
    path.write_bytes(path.read_bytes()[:-20])
    for arguments in (["analyze", results], ["status", results]):
        ended = cqk(*arguments)
        assert ended.returncode == 2
        assert str(path) in ended.stderr
        assert "delete it" in ended.stderr
        assert "Traceback" not in ended.stderr


def test_results_of_another_study_and_an_empty_folder_are_refused(copy, small_study, tmp_path):
    _, results = copy
    other = small_study(('name = "small"', 'name = "other"'), name="other.toml")
    results.rename(results.parent / "other")
    ended = cqk("run", other, "--results", results.parent)
    assert ended.returncode == 2
    assert "holds the results of the study 'small', not of 'other'" in ended.stderr
    (tmp_path / "empty").mkdir()
    ended = cqk("analyze", tmp_path / "empty")
    assert ended.returncode == 2
    assert "holds no study.toml" in ended.stderr


def test_a_changed_study_is_refused_until_a_reason_is_given_and_the_report_prints_it(
    copy, small_study
):
    _, results = copy
    more = small_study(("[1, 2, 3]", "[1, 2, 3, 4]"))
    refused = cqk("run", more, "--results", results.parent)
    assert refused.returncode == 2
    assert "seeds.values: [1, 2, 3] -> [1, 2, 3, 4]" in refused.stderr
    ended = cqk("run", more, "--results", results.parent, "--amend", "three were too few")
    assert ended.stdout.endswith("; 2 trained now\n"), ended.stderr
    document = json.loads(cqk("analyze", results, "--json").stdout)
    assert all("optional_stopping" in row["flags"] for row in document["comparisons"])
    assert not any(row["verdict"] == "supported" for row in document["comparisons"])
    assert "three were too few" in (results / "report.md").read_text(encoding="utf-8")


def test_a_loss_that_is_not_finite_ends_as_diverged_and_yields_no_verdict(small_study, tmp_path):
    study = small_study(('coupling = "affine"', 'coupling = "affine"\ntrain = { lr = 1e30 }'))
    ended = cqk("run", study, "--results", tmp_path / "results")
    assert ended.returncode == 0, ended.stderr
    assert "3 done, 3 diverged" in ended.stdout
    results = tmp_path / "results" / "small"
    document = json.loads(cqk("analyze", results, "--json", "--no-figures").stdout)
    assert document["runs"]["diverged"] == 3
    assert {row["verdict"] for row in document["comparisons"]} == {"incomplete"}
    assert all("runs_diverged" in row["flags"] for row in document["comparisons"])
    lost = pd.read_csv(results / "runs.csv").query("status == 'diverged'")
    assert lost["value"].isna().all()
    assert set(lost["split"]) == {"valid", "test"}


def test_a_dry_run_shows_the_plan_and_writes_nothing(small_study, tmp_path):
    ended = cqk("run", small_study(), "--results", tmp_path / "results", "--dry-run", "--json")
    assert ended.returncode == 0
    assert len(json.loads(ended.stdout)["runs"]) == 6
    assert not (tmp_path / "results").exists()


def test_a_selection_trains_only_what_it_names(small_study, tmp_path):
    study, results = small_study(), tmp_path / "results"
    ended = cqk("run", study, "--results", results, "--only", "plain", "--seeds", "2-3")
    assert ended.stdout.startswith("2 done, "), ended.stderr
    assert cqk("status", results / "small").stdout.splitlines()[-1] == "2 done, 4 missing"
    assert cqk("run", study, "--results", results, "--only", "plane").returncode == 2
    assert cqk("run", study, "--results", results, "--seeds", "7").returncode == 2


STEEP = '''
"""Plain attention with its scores made steeper, as somebody might try."""

from ._heads import HeadAttention
from .base import MakeCoupling, Options, Shape


class Steep(HeadAttention):
    """Softmax of doubled scores."""

    summary = "softmax of doubled scores"
    source = "a test of this project"
    Options = Options

    def __init__(self, shape: Shape, options: Options, make_coupling: MakeCoupling) -> None:
        super().__init__(shape, make_coupling)

    def normalise(self, q_bhtd, k_bgtd):
        return 2 * q_bhtd, k_bgtd
'''


def test_an_attention_dropped_into_the_folder_is_listed_and_trained_with_no_other_edit(
    small_study, tmp_path
):
    root, checkout = Path(__file__).resolve().parent.parent, tmp_path / "checkout"
    for package in ("analysis", "runner"):
        unwanted = shutil.ignore_patterns("__pycache__")
        shutil.copytree(root / package, checkout / package, ignore=unwanted)
    (checkout / "runner" / "attention" / "steep.py").write_text(STEEP, encoding="utf-8")
    study = small_study(('coupling = "affine"', 'attention = "steep"\ncoupling = "affine"'))

    def command(*arguments):
        call = [sys.executable, "-P", "-c", "from runner.cli import app; app()", *arguments]
        path = {"PYTHONPATH": str(checkout), "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run(
            [*map(str, call)],
            capture_output=True,
            text=True,
            timeout=300,
            cwd=tmp_path,
            env=os.environ | path,
        )

    assert "steep  softmax of doubled scores" in command("list", "attention").stdout
    ended = command("run", study, "--results", tmp_path / "results", "--seeds", "1")
    assert "2 done" in ended.stdout, ended.stderr
    specs = (tmp_path / "results" / "small").glob("runs/*/spec.json")
    settings = [json.loads(path.read_text(encoding="utf-8"))["settings"] for path in specs]
    assert sorted(s["attention"]["name"] for s in settings) == ["standard", "steep"]
