"""Statistics, tables and reports for experiments with seeds; files in, rows and verdicts out.

results/<study>/runs or anybody's table -> load_runs -> tidy table -> compare -> one row for each
declared comparison, with its verdict -> tables, figures, report. Nothing here imports torch.

>>> import analysis
>>> round(analysis.welch([20.1, 20.3, 20.2], [20.6, 20.5, 20.7]).p, 5)
0.00402
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .claims import check_claims as check_claims
    from .compare import compare as compare
    from .effect import hedges_g as hedges_g
    from .multiplicity import adjust as adjust
    from .power import minimum_detectable as minimum_detectable
    from .power import power as power
    from .power import seeds_needed as seeds_needed
    from .resample import permutation_test as permutation_test
    from .study import load_study as load_study
    from .table import load_runs as load_runs
    from .welch import welch as welch
    from .welch import welch_from_summary as welch_from_summary

# Public name -> module; imported on first use, so that `import analysis` costs nothing.
_PUBLIC = {
    "adjust": "multiplicity",
    "check_claims": "claims",
    "compare": "compare",
    "hedges_g": "effect",
    "load_runs": "table",
    "load_study": "study",
    "minimum_detectable": "power",
    "permutation_test": "resample",
    "power": "power",
    "seeds_needed": "power",
    "welch": "welch",
    "welch_from_summary": "welch",
}


class _Package(ModuleType):
    """Keeps `analysis.welch` the function although a module of that name lies in the package.

    Importing a submodule binds it as an attribute of its package, which would otherwise replace
    the function of the same name from the first import on.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _PUBLIC or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_PUBLIC[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(_PUBLIC)


sys.modules[__name__].__class__ = _Package
