"""What the documents say is so: the tree, the links, the commands, the printed verdict."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from readme_parts import ROOT, tree, with_tables, with_tree

README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCUMENTS = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
COMMANDS = [
    shlex.split(line, comments=True)
    for block in re.findall(r"```sh\n(.*?)```", README, flags=re.S)
    for line in block.splitlines()
    if line.startswith("cqk ")
]


def cqk(*arguments, cwd):
    command = [Path(sys.executable).with_name("cqk"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=900, cwd=cwd)


def test_tables_of_results_are_those_in_results():
    assert with_tables(README) == README, "run python tests/readme_parts.py"
    one = "<!-- results/recall-map/tables/verdicts.md -->\nold\n<!-- end of table -->"
    written = with_tables(f"{one} between {one}")
    assert "old" not in written
    assert written.count("| comparison |") == 2
    assert with_tables(written) == written


def test_the_tree_is_what_the_modules_say_of_themselves():
    assert with_tree(README) == README, "run python tests/readme_parts.py"
    assert len(tree().splitlines()) == len(set(tree().splitlines())) > 50


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_inside_the_repository_lead_somewhere(document):
    for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text(encoding="utf-8")):
        assert (document.parent / target).exists(), target


def test_the_readme_shows_the_main_commands():
    shown = {command[1] for command in COMMANDS}
    assert {"run", "analyze", "status", "list"} <= shown


def chart(arm, values):
    """Return the export of a W&B chart with one column per seed of an arm."""
    header = ['"Step"', *(f'"{arm}-s{seed} - eval/loss"' for seed in range(len(values)))]
    rows = [header, ['"0"', *(f'"{value + 0.4:.2f}"' for value in values)]]
    rows.append(['"10"', *(f'"{value:.2f}"' for value in values)])
    return "\n".join(",".join(row) for row in rows) + "\n"


@pytest.fixture
def reader(tmp_path):
    """The folder of somebody who follows the README: its family file, two charts, the claims."""
    family = re.search(r"```toml\n(.*?)```", README, flags=re.S)
    assert family
    (tmp_path / "family.toml").write_text(family[1], encoding="utf-8")
    (tmp_path / "base.csv").write_text(chart("base", [1.90, 1.92, 1.89]), encoding="utf-8")
    (tmp_path / "linear.csv").write_text(chart("linear", [1.85, 1.86, 1.84]), encoding="utf-8")
    shutil.copytree(ROOT / "results" / "paper", tmp_path / "results" / "paper")
    return tmp_path


@pytest.mark.slow
def test_the_readmes_commands_run_and_its_printed_verdict_is_what_they_print(reader):
    printed = {}
    for command in COMMANDS:
        ended = cqk(*command[1:], cwd=reader)
        assert ended.returncode == 0, (command, ended.stderr)
        printed[" ".join(command[1:3])] = ended.stdout
    assert "linear against base  supported" in printed["analyze runs.csv"]
    shown = re.search(r"<!-- verdict: make demo -->\n```text\n(.*?)```", README, flags=re.S)
    assert shown
    # Figures differ from one Python's documentation to the next; rows and columns do not.
    assert [line.split("  ")[0] for line in shown[1].splitlines()] == [
        line.split("  ")[0] for line in printed["analyze results/demo"].splitlines()
    ]
