"""The built wheel, installed without torch in an environment of its own and used from elsewhere."""

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

pytestmark = pytest.mark.slow

FAMILY = """
study = { name = "foreign" }
seeds = { values = [0, 1, 2] }
family = { comparisons = [{ name = "new", treatment = "new", baseline = "old" }] }
"""
TABLE = """arm,seed,metric,value
old,0,loss,2.01
old,1,loss,2.02
old,2,loss,2.04
new,0,loss,1.91
new,1,loss,1.93
new,2,loss,1.92
"""


def call(*command, **options):
    return subprocess.run(
        [*map(str, command)], capture_output=True, text=True, timeout=600, **options
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built from a copy, so that neither stale nor new build folders matter."""
    source = tmp_path_factory.mktemp("source") / "cqk"
    listed = call("git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=ROOT)
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, source / name)
    built = tmp_path_factory.mktemp("wheel")
    ended = call(sys.executable, "-m", "pip", "wheel", source, "--no-deps", "-q", "-w", built)
    assert ended.returncode == 0, ended.stderr
    (path,) = built.glob("cqk-*.whl")
    return path


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    """A virtual environment that holds the wheel and what it requires, and nothing else."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    assert call(sys.executable, "-m", "venv", folder).returncode == 0
    constraints = ROOT / "constraints.txt"
    ended = call(folder / "bin" / "python", "-m", "pip", "install", "-q", "-c", constraints, wheel)
    assert ended.returncode == 0, ended.stderr
    return folder / "bin"


@pytest.fixture
def elsewhere(tmp_path):
    """A user's folder with packages of our names, a table and a family."""
    for name in ("analysis", "runner"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('theirs')\n")
    (tmp_path / "family.toml").write_text(FAMILY, encoding="utf-8")
    (tmp_path / "table.csv").write_text(TABLE, encoding="utf-8")
    return tmp_path


def test_analyze_works_without_torch_beside_a_users_own_analysis(environment, elsewhere):
    assert call(environment / "python", "-c", "import torch").returncode != 0
    ended = call(
        environment / "cqk", "analyze", "table.csv", "--family", "family.toml", "--json",
        cwd=elsewhere,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert [row["verdict"] for row in json.loads(ended.stdout)["comparisons"]] == ["supported"]
    assert (elsewhere / "table-report" / "report.md").exists()
    assert (elsewhere / "table-report" / "report.html").exists()


def test_shipped_studies_are_in_the_wheel_and_run_names_the_missing_extra(environment, elsewhere):
    listed = call(environment / "cqk", "list", "studies", cwd=elsewhere)
    assert "demo" in listed.stdout, listed.stderr
    ended = call(environment / "cqk", "run", "demo", cwd=elsewhere)
    assert ended.returncode == 2
    assert "cqk[train]" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not (elsewhere / "results").exists()


def test_the_wheel_holds_our_two_packages_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {
        "analysis",
        "runner",
    }
    assert {"analysis/py.typed", "runner/py.typed", "runner/studies/demo.toml"} <= set(names)
