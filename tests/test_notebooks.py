"""The notebooks run, print what they show in the repository, and type no number of their own."""

import ast
import re
import sys

import nbformat
import pytest
from notebook_runs import executed, paths

THEIRS = {"analysis", "IPython", "pandas"}


def cells(path, kind):
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == kind]


def printed(notebook):
    """Return what every cell shows as text, in order."""
    return [
        output.get("text") or output.data.get("text/markdown") or output.data.get("text/plain")
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
    ]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the Jupyter client's own
@pytest.mark.parametrize("path", paths(), ids=lambda path: path.stem)
def test_a_fresh_kernel_prints_what_the_repository_shows(path, tmp_path, monkeypatch):
    for variable in ("JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR", "MPLCONFIGDIR"):
        monkeypatch.setenv(variable, "")
    shown = printed(nbformat.read(path, as_version=4))
    assert shown
    assert None not in shown
    assert printed(executed(path, tmp_path)) == shown, "run python tests/notebook_runs.py"


@pytest.mark.parametrize("path", paths(), ids=lambda path: path.stem)
def test_prose_holds_no_number_since_every_number_is_read(path):
    for cell in cells(path, "markdown"):
        prose = re.sub(r"\]\([^)]*\)|`[^`]*`|<[^>]*>", "", cell.source)
        assert not re.search(r"\d", prose), prose


@pytest.mark.parametrize("path", paths(), ids=lambda path: path.stem)
def test_code_imports_the_analysis_and_nothing_of_the_runner(path):
    imported = set()
    for cell in cells(path, "code"):
        for node in ast.walk(ast.parse(cell.source)):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add(node.module.partition(".")[0])
    assert imported <= THEIRS | sys.stdlib_module_names
    assert "analysis" in imported


def test_there_are_notebooks():
    assert paths()
