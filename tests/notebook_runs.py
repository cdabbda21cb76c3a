"""Runs the notebooks in a kernel of their own and keeps what they print.

Run it after changing a notebook or the results it reads: python tests/notebook_runs.py
"""

import os
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"
KEPT = ("kernelspec",)
SECONDS = 300


def paths() -> list[Path]:
    """Return every notebook."""
    return sorted(NOTEBOOKS.glob("*.ipynb"))


def executed(path: Path, scratch: Path) -> nbformat.NotebookNode:
    """Return the notebook as a fresh kernel leaves it, run in its own folder.

    ``scratch`` takes what the kernel writes beside its output: sockets, histories, font caches.
    """
    notebook = nbformat.read(path, as_version=4)
    for variable in ("JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR", "MPLCONFIGDIR"):
        os.environ[variable] = str(scratch / variable.lower())
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    client = NotebookClient(
        notebook, timeout=SECONDS, record_timing=False, resources={"metadata": {"path": NOTEBOOKS}}
    )
    client.execute()
    # The version of Python that ran it is no part of a notebook.
    notebook.metadata = {key: notebook.metadata[key] for key in KEPT if key in notebook.metadata}
    return notebook


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for each in paths():
            nbformat.write(executed(each, Path(folder)), each)
            print(each)
