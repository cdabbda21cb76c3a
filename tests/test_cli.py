"""The command line: frozen options, quick help, exit codes, and JSON alone where asked."""

import json
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

CQK = Path(sys.executable).with_name("cqk")

# design: the command line is frozen; a change here is a change of the interface.
OPTIONS = {
    "run": "--results --jobs --threads --executor --profile --only --seeds --dry-run --amend"
    " --json",
    "analyze": "--family --out --metric --split --no-figures --json",
    "check": "--json",
    "power": "",
    "import": "--out",
    "status": "--json",
    "list": "--json",
    "bench": "",
}
HEAVY = {"torch", "pandas", "scipy", "statsmodels", "seaborn", "matplotlib", "pydantic", "numpy"}


def cqk(*arguments, cwd=None, env=None):
    return subprocess.run(
        [CQK, *map(str, arguments)], capture_output=True, text=True, timeout=300, cwd=cwd, env=env
    )


def test_help_lists_exactly_the_frozen_commands():
    listed = re.findall(r"^│ ([a-z]+) ", cqk("--help").stdout, flags=re.M)
    assert listed == list(OPTIONS)


@pytest.mark.parametrize("command", OPTIONS)
def test_every_command_has_at_least_its_frozen_options(command):
    ended = cqk(command, "--help", env={"COLUMNS": "200", "PATH": "/usr/bin"})
    assert ended.returncode == 0
    listed = set(re.findall(r"(--[a-z][a-z-]*)", ended.stdout))
    assert set(OPTIONS[command].split()) <= listed


def test_help_imports_nothing_heavy():
    ended = subprocess.run(
        [sys.executable, "-X", "importtime", CQK, "--help"], capture_output=True, text=True
    )
    imported = {line.rsplit("|", 1)[1].strip().split(".")[0] for line in ended.stderr.splitlines()}
    assert ended.returncode == 0
    assert "typer" in imported
    assert not imported & HEAVY


def test_help_costs_little_more_than_the_library_that_prints_it():
    """Processor time, in turn in one test: neither the machine nor other work on it decides."""

    def seconds(*command):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)

    library = [sys.executable, "-c", "import typer.rich_utils"]
    pairs = [(seconds(CQK, "--help"), seconds(*library)) for _ in range(5)]
    ours, theirs = map(min, zip(*pairs, strict=True))
    assert ours < 2 * theirs


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "dmeo"], 'dmeo: is neither a file nor a shipped study; did you mean "demo"?'),
        (["analyze", "absent"], "absent: does not exist"),
        (["status", "absent"], "absent: has no plan.json"),
        (["run", "demo", "--jobs", "64", "--threads", "64"], "is more than the"),
    ],
)
def test_a_users_error_is_one_sentence_and_exit_code_2(tmp_path, arguments, said):
    ended = cqk(*arguments, cwd=tmp_path)
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr
    assert len(ended.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    "what", ["attention", "coupling", "presets", "studies", "corpora", "formats"]
)
def test_listings_are_json_when_asked_and_hold_a_name_each(what):
    rows = json.loads(cqk("list", what, "--json").stdout)[what]
    assert rows
    assert all(row["name"] and len(row) > 1 for row in rows)
    plain = cqk("list", what).stdout
    assert [line.split()[0] for line in plain.splitlines()] == [row["name"] for row in rows]


def test_a_users_own_folders_of_our_names_do_not_get_in_the_way(tmp_path):
    for name in ("analysis", "runner"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('theirs')\n")
    assert cqk("list", "presets", cwd=tmp_path).returncode == 0


def test_another_analysis_that_answers_the_import_is_named(tmp_path):
    (tmp_path / "analysis").mkdir()
    (tmp_path / "analysis" / "__init__.py").write_text("", encoding="utf-8")
    ended = cqk("--help", env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin"})
    assert ended.returncode == 2
    assert str(tmp_path / "analysis") in ended.stderr
    assert "without PYTHONPATH" in ended.stderr
