"""The benchmarks' machinery: sections, exponents, made results, the check of the GPU script.

Nothing here looks at a time.
"""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "benchmarks"


@pytest.fixture
def script(monkeypatch):
    """Imports a script of the folder, and forgets it again: its name may be another module's."""
    monkeypatch.syspath_prepend(str(FOLDER))
    before = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if str(FOLDER) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def test_a_section_replaces_its_own_and_no_other(script):
    section = script("section")
    text = "# Results\n\nwords\n\n## One\n\nold\n\n## One and more\n\nkept\n"
    once = section.replaced(text, "One", "new $1 \\g<0>\n")
    assert once == "# Results\n\nwords\n\n## One\n\nnew $1 \\g<0>\n\n## One and more\n\nkept\n"
    assert section.replaced(once, "One", "new $1 \\g<0>\n") == once
    assert section.replaced(once, "Two", "last\n") == f"{once}\n## Two\n\nlast\n"


def test_a_written_section_has_machine_load_command_and_verdicts(script, tmp_path):
    section = script("section")
    path = tmp_path / "RESULTS.md"
    path.write_text("# Results\n")
    made = section.Section("Speed")
    made.add(section.at_most("fast", 0.49, 0.5), section.at_least("slow", 0.9, 1.0))
    made.add(section.Figure("free", "3 s"))
    made.note("A note.")
    made.write(path)
    text = path.read_text()
    assert "| fast | 0.490 | at most 0.5 | yes |" in text
    assert "| slow | 0.900 | at least 1 | **no** |" in text
    assert "| free | 3 s |  |  |" in text
    assert text.endswith("\nA note.\n")
    for word in ("torch", "cores", "load", "UTC", "`python"):
        assert word in text


@pytest.mark.parametrize("limit", [0.5, 1.0])
def test_the_limit_itself_is_reached(script, limit):
    section = script("section")
    assert section.at_most("x", limit, limit).reached
    assert section.at_least("x", limit, limit).reached


def test_an_exponent_is_the_slope_of_the_logarithms(script):
    growth = script("growth")
    assert growth.exponent({3: 2 * 3**1.7, 50: 2 * 50**1.7, 700: 2 * 700**1.7}) == pytest.approx(
        1.7
    )


def test_made_results_read_as_finished_runs(script, tmp_path):
    from analysis.table import load_runs
    from runner.status import read_status

    results = script("make_results").make(200, tmp_path)
    assert read_status(results).counts == {"done": 200}
    table = load_runs(results)
    assert table["run_id"].nunique() == 200
    assert set(table["split"]) == {"valid", "test"}
    assert table["value"].notna().all()


def test_the_gpu_script_writes_utilisation_of_every_method_or_says_why_not(tmp_path):
    size = "--presets tiny --lengths 8 --tokens 16 --vocab-size 16 --rounds 2"
    methods = ["standard", "multi_token"]
    ended = subprocess.run(
        ["sh", FOLDER / "gpu.sh", tmp_path / "gpu.json", *size.split(), "--methods", *methods],
        env={"PYTHON": sys.executable, "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    document = json.loads((tmp_path / "gpu.json").read_text())
    assert [row["attention"] for row in document["rows"]] == methods
    for row in document["rows"]:
        for coupling in ("none", "affine"):
            found = row[coupling]
            expected = found["teraflops"] / document["peak_teraflops"]
            assert found["utilisation"] == pytest.approx(expected)
            assert found["utilisation"] > 0


@pytest.mark.slow
def test_the_committed_dry_runs_are_what_a_dry_run_says(script):
    dry_runs = script("dry_runs")
    study = "composition-60m"
    (row,) = dry_runs.rows(study, dry_runs.look(study)["kinds"])
    committed = dry_runs.TABLE.read_text(encoding="utf-8").splitlines()
    assert f"| {' | '.join(row)} |" in committed
    assert [line.split("`")[1] for line in committed[2:4]] == [*dry_runs.STUDIES[:2]]


def test_every_script_is_run_by_make_bench_or_used_by_one_that_is():
    run = (ROOT / "Makefile").read_text().split("for script in ")[1].split(";")[0].split()
    parts = {"section", "layers", "baseline_loop", "make_results", "gpu"}
    assert set(run) | parts == {path.stem for path in FOLDER.glob("*.py")}
