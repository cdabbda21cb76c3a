"""Runs without their folders: packed, read, and unpacked, with nothing lost on the way."""

import json
import lzma
import shutil

import pytest

from analysis import archive
from analysis.analyze import analyze
from runner.execute import execute
from runner.launch import create_folder
from runner.profiles import Profile
from runner.status import read_status
from runner.study_run import execute as run_plan
from runner.study_run import read

TABLES = ("runs.csv", "comparisons.csv", "report.md", "diagnostics.csv.xz")


@pytest.fixture(scope="module")
def trained(tmp_path_factory, small_study_toml):
    """A study of two seeds with diagnostics, and its results, analysed."""
    folder = tmp_path_factory.mktemp("archive")
    text = small_study_toml.replace(
        "lr = 1e-2", "lr = 1e-2\nevaluate_every = 6\ndiagnostics = true"
    )
    study = folder / "small.toml"
    study.write_text(text.replace("[1, 2, 3]", "[1, 2]"), encoding="utf-8")
    plan = read(str(study), folder / "results")
    plan.results.mkdir(parents=True)
    plan.freeze(None)
    for run in plan.runs:
        assert execute(create_folder(plan.results, run)).status == "done"
    analyze([plan.results])
    return study, plan.results


@pytest.fixture
def sent(trained, tmp_path):
    """The results as a clone gets them: everything but the runs' folders."""
    study, results = trained
    there = tmp_path / "results" / "small"
    shutil.copytree(results, there, ignore=shutil.ignore_patterns("runs"))
    return study, there


def records_of(results):
    data = lzma.decompress((results / archive.RECORDS).read_bytes())
    return [json.loads(line) for line in data.splitlines()]


def content(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_an_analysis_of_the_archive_alone_writes_every_byte_again(trained, sent):
    _, there = sent
    whole = content(there)
    for name in TABLES:
        (there / name).unlink()
    shutil.rmtree(there / "tables")
    shutil.rmtree(there / "figures")
    analyze([there])
    again = content(there)
    assert {*again} == {*whole}
    assert [n for n in whole if not n.endswith((".png", ".html")) and again[n] != whole[n]] == []
    assert not (there / "runs").exists()


def test_starting_the_study_puts_the_runs_back_byte_for_byte_and_trains_none(trained, sent):
    study, there = sent
    _, results = trained
    plan = read(str(study), there.parent)
    summary = run_plan(plan, profile=Profile(executor="local"), jobs=1, threads=1, reason=None)
    assert (summary.done, summary.trained_now) == (4, 0)
    ours = {n: d for n, d in content(results / "runs").items() if not n.endswith(".lock")}
    assert {n: d for n, d in content(there / "runs").items() if not n.endswith(".lock")} == ours


def test_status_and_plan_know_archived_runs_without_unpacking_them(sent):
    study, there = sent
    assert read_status(there).counts == {"done": 4}
    assert archive.over(there).keys() == {run.run_id for run in read(str(study), there.parent).runs}
    assert not (there / "runs").exists()


def test_a_run_whose_folder_is_deleted_is_missing_whatever_the_archive_holds(trained, tmp_path):
    _, results = trained
    there = tmp_path / "results" / "small"
    shutil.copytree(results, there)
    gone = sorted((there / "runs").iterdir())[1]
    shutil.rmtree(gone)
    assert read_status(there).counts == {"done": 3, "missing": 1}
    assert archive.restore(there) == 0
    assert analyze([there]).run_counts["missing"] == 1
    assert gone.name not in lzma.decompress((there / archive.RECORDS).read_bytes()).decode()


def test_a_run_that_is_not_over_is_shown_and_never_restored(sent):
    _, there = sent
    lines = records_of(there)
    stopped = lines[2]["spec"]["run_id"]
    lines[2]["result"] = None
    with lzma.open(there / archive.RECORDS, "wt") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    assert analyze([there]).run_counts["missing"] == 1
    assert archive.restore(there) == 3
    assert not (there / "runs" / stopped).exists()


@pytest.mark.parametrize("name", [archive.RECORDS, archive.CURVES])
@pytest.mark.parametrize("size", [0, 1, 57, 200])
def test_a_torn_archive_is_one_sentence_and_leaves_no_runs(sent, name, size):
    _, there = sent
    path = there / name
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) * size // 400])
    if path.read_bytes() == b"":
        path.write_bytes(b"\0")
    for attempt in (lambda: analyze([there]), lambda: archive.restore(there)):
        with pytest.raises(ValueError, match=r"jsonl\.xz: is damaged .*; restore it, or delete it"):
            attempt()
    assert not (there / "runs").exists()
    assert not list(there.glob(".runs*"))


@pytest.mark.parametrize(
    "damage",
    [
        lambda line: line["spec"].update(run_id="../../../elsewhere"),
        lambda line: line["spec"].update(run_id="0" * 15),
        lambda line: line["spec"].update(surprise=1),
        lambda line: line.update(surprise=1),
        lambda line: line.pop("attempts"),
    ],
)
def test_a_hostile_archive_names_no_folder_and_brings_no_key(sent, damage):
    _, there = sent
    lines = records_of(there)
    damage(lines[1])
    with lzma.open(there / archive.RECORDS, "wt") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    before = content(there.parent.parent)
    with pytest.raises(ValueError, match=r"records\.jsonl\.xz: is damaged or no archive of runs"):
        archive.restore(there)
    assert content(there.parent.parent) == before
