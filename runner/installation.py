"""Makes sure that `import analysis` means ours: the name is generic and others use it too."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path


def require_own_analysis() -> None:
    """Exit with one sentence when another folder answers the import of ``analysis``.

    Only `python -m` or PYTHONPATH can bring that about; the installed command never looks there.
    """
    ours = Path(__file__).resolve().parent.parent / "analysis"
    spec = importlib.util.find_spec("analysis")
    found = Path(spec.origin).resolve().parent if spec and spec.origin else None
    if found != ours:
        where = found or (list(spec.submodule_search_locations or []) if spec else "nothing")
        sys.stderr.write(
            f"cqk: `import analysis` finds {where} instead of {ours}; start the command `cqk` "
            "itself, without `python -m` and without PYTHONPATH\n"
        )
        raise SystemExit(2)
