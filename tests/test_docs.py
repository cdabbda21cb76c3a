"""What the documents say is so: the tree, the links, the commands, the printed verdict."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from readme_tree import ROOT, tree, with_tree

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


def test_the_tree_is_what_the_modules_say_of_themselves():
    assert with_tree(README) == README, "run python tests/readme_tree.py"
    assert len(tree().splitlines()) == len(set(tree().splitlines())) > 50


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_inside_the_repository_lead_somewhere(document):
    for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text(encoding="utf-8")):
        assert (document.parent / target).exists(), target


def test_the_readme_shows_the_main_commands():
    shown = {command[1] for command in COMMANDS}
    assert {"run", "analyze", "status", "list"} <= shown


@pytest.mark.slow
def test_the_readmes_commands_run_and_its_printed_verdict_is_what_they_print(tmp_path):
    family = (
        'family = { comparisons = [{ name = "c", treatment = "coupled", baseline = "plain" }] }'
    )
    (tmp_path / "f.toml").write_text(
        f'study = {{ name = "f" }}\nseeds = {{ values = [1, 2, 3] }}\n{family}\n', encoding="utf-8"
    )
    printed = ""
    for command in COMMANDS:
        ended = cqk(*command[1:], cwd=tmp_path)
        assert ended.returncode == 0, (command, ended.stderr)
        if command[1:] == ["analyze", "results/demo"]:
            printed = ended.stdout
            runs = tmp_path / "results" / "demo" / "runs.csv"
            (tmp_path / "runs.csv").write_bytes(runs.read_bytes())
    shown = re.search(r"<!-- verdict: make demo -->\n```text\n(.*?)```", README, flags=re.S)
    assert shown
    assert [line.split("  ")[0] for line in shown[1].splitlines()] == [
        line.split("  ")[0] for line in printed.splitlines()
    ]
