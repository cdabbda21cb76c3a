"""Who may import whom: imports fall one way, and each heavy library has its own file."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FILES = sorted(p for folder in ("analysis", "runner") for p in (ROOT / folder).rglob("*.py"))
# Floors of analysis/: a file imports only from floors below its own.
STATISTICS = {"welch", "effect", "resample", "equivalence", "power", "sequential", "pooled"}


def module_of(path):
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def imports_of(path, top_level_only=False):
    """Return the dotted names that a file imports, relative ones resolved."""
    package = path.relative_to(ROOT).parent.parts
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = ast.iter_child_nodes(tree) if top_level_only else ast.walk(tree)
    names = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            stem = ".".join([*base, *([node.module] if node.module else [])])
            names.add(stem)
            names.update(f"{stem}.{alias.name}" for alias in node.names)
    return names


def users_of(library, folder=""):
    return {
        module_of(path)
        for path in FILES
        if module_of(path).startswith(folder)
        and any(name == library or name.startswith(f"{library}.") for name in imports_of(path))
    }


def test_analysis_never_imports_torch_or_runner():
    assert users_of("torch", "analysis") == set()
    assert users_of("runner", "analysis") == set()


def test_only_the_figures_know_how_to_draw_and_only_the_cli_knows_typer():
    drawing = users_of("matplotlib") | users_of("seaborn")
    assert all(name.startswith("analysis.figures.") for name in drawing), drawing
    assert users_of("typer") == {"runner.cli"}


def test_toml_is_read_in_the_study_and_claims_only():
    allowed = {"analysis.study", "analysis.claims", "runner.profiles"}
    assert users_of("tomllib") <= allowed


def test_variants_know_nothing_of_studies_records_or_the_command_line():
    for path in FILES:
        module = module_of(path)
        if module.startswith(("runner.attention", "runner.coupling", "runner.model")):
            names = imports_of(path)
            assert not {n for n in names if n.startswith("analysis")}, module
            assert not {n for n in names if n.split(".")[:2] in (["runner", "cli"],)}, module


def test_statistics_modules_do_not_import_one_another_sideways():
    for name in STATISTICS:
        path = ROOT / "analysis" / f"{name}.py"
        sideways = {n.split(".")[1] for n in imports_of(path) if n.startswith("analysis.")}
        assert not (sideways & STATISTICS) - {name}, name


def test_there_is_no_import_circle():
    graph = {module_of(p): imports_of(p, top_level_only=True) for p in FILES}
    seen, open_ = set(), []

    def visit(module):
        assert module not in open_, f"circle: {[*open_[open_.index(module) :], module]}"
        if module in seen:
            return
        open_.append(module)
        for name in sorted(graph[module] & graph.keys()):
            visit(name)
        open_.pop()
        seen.add(module)

    for module in graph:
        visit(module)


def test_cross_package_imports_come_from_runner_and_are_absolute():
    crossing = users_of("analysis", "runner")
    assert crossing
    for path in FILES:
        own = module_of(path).split(".")[0]
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and not node.level and node.module:
                assert node.module.split(".")[0] != own, f"{path}: import {node.module} relatively"


@pytest.mark.parametrize("name", ["utils", "common", "helpers", "misc"])
def test_no_file_is_named_after_nothing(name):
    assert not [path for path in FILES if path.stem == name]


BLOCKED = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {blocked!r}:
            raise ImportError(f"blocked: {{name}}")
sys.meta_path.insert(0, Block())
"""


def python(code, blocked=()):
    script = BLOCKED.format(blocked=set(blocked) or {"no"}) + code
    return subprocess.run(
        [sys.executable, "-P", "-c", script], capture_output=True, text=True, timeout=120
    )


def test_every_module_of_analysis_imports_with_torch_blocked():
    modules = [module_of(p).removesuffix(".__init__") for p in FILES]
    code = "import importlib\n" + "\n".join(
        f"importlib.import_module({m!r})" for m in modules if m.startswith("analysis")
    )
    ended = python(code, {"torch", "runner", "safetensors", "tokenizers", "pyarrow"})
    assert ended.returncode == 0, ended.stderr


def test_importing_analysis_alone_imports_nothing_heavy():
    heavy = {"numpy", "scipy", "pandas", "matplotlib", "seaborn", "statsmodels", "pydantic"}
    ended = python("import analysis, runner.cli", heavy | {"torch"})
    assert ended.returncode == 0, ended.stderr


def test_a_public_name_stays_a_function_whatever_was_imported_before():
    code = """
import analysis, importlib
for name in ("welch", "power", "compare"):
    importlib.import_module(f"analysis.{name}")
    assert callable(getattr(analysis, name)), name
from analysis.welch import welch_many
from analysis import welch
assert callable(welch) and set(dir(analysis)) >= {"welch", "adjust", "load_runs"}
"""
    ended = python(code)
    assert ended.returncode == 0, ended.stderr
