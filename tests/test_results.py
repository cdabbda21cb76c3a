"""What results/ holds is what comes out of the runs in it, and of the study that is shipped."""

import shutil
from pathlib import Path

import pytest

from analysis import archive
from analysis.analyze import analyze
from analysis.study import load_study
from runner import corpora, tasks
from runner.plan import find_study
from runner.study_run import read

RESULTS = Path(__file__).resolve().parent.parent / "results"
STUDIES = sorted(
    path.parent
    for path in RESULTS.glob("*/study.toml")
    if path.parent.name != "demo"  # which is made here, and not committed
)
DRAWN = (".png", ".pdf", ".html")  # these hold dates, or depend on fonts


def again(study, tmp_path, *, figures):
    """Return the files that an analysis writes of the committed runs, and those committed."""
    there = tmp_path / study.name
    left = shutil.ignore_patterns("runs", "submissions", "tables", "figures", ".lock")
    shutil.copytree(study, there, ignore=left)
    analyze([there], figures=figures)
    return [
        {p.relative_to(folder).as_posix(): p for p in folder.rglob("*") if p.is_file()}
        for folder in (there, study)
    ]


@pytest.mark.parametrize("study", STUDIES, ids=lambda path: path.name)
def test_the_committed_tables_come_out_of_the_committed_runs_byte_for_byte(study, tmp_path):
    written, committed = again(study, tmp_path, figures=False)
    tables = [n for n in written if n.endswith((".csv", ".tex", ".md")) and n != "report.md"]
    assert {"runs.csv", "comparisons.csv", "tables/verdicts.md"} <= set(tables)
    for name in tables:
        assert written[name].read_bytes() == committed[name].read_bytes(), name


@pytest.mark.slow
@pytest.mark.parametrize("study", STUDIES, ids=lambda path: path.name)
def test_so_do_report_figures_and_their_rows(study, tmp_path):
    written, committed = again(study, tmp_path, figures=True)
    committed = {n: p for n, p in committed.items() if not n.startswith(("runs/", ".lock"))}
    assert {*written} == {*committed}
    for name in written:
        if not name.endswith(DRAWN):
            assert written[name].read_bytes() == committed[name].read_bytes(), name


@pytest.mark.parametrize("study", STUDIES, ids=lambda path: path.name)
def test_the_shipped_study_is_the_frozen_one_and_nothing_of_it_is_missing(study, tmp_path):
    shipped, frozen = find_study(study.name), load_study(study / "study.toml")
    assert load_study(shipped).sha256 == frozen.sha256
    corpus = frozen.data.corpus
    if corpus in tasks.names() or corpora.is_here(corpus):
        planned = {run.run_id for run in read(study.name, tmp_path).runs}
        assert planned <= {*archive.over(study)} | {p.name for p in study.glob("runs/*")}
