"""A folder of variants: a file's name is the variant's name, and adding a file adds a variant."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from analysis.nearest import closest


def unknown(kind: str, name: str, known: Iterable[str]) -> ValueError:
    """Return the error for a name that is not known; it names the nearest and lists all.

    >>> print(unknown("attention", "standart", ["none", "standard"]))
    unknown attention 'standart': did you mean 'standard'? Known: none, standard
    """
    known = sorted(known)
    meant = closest(name, known)
    hint = f"did you mean {meant!r}? " if meant else ""
    return ValueError(f"unknown {kind} {name!r}: {hint}Known: {', '.join(known)}")


@dataclass(frozen=True)
class Folder:
    """The variants of one kind (``attention``, ``coupling``) that lie in one package's folder."""

    kind: str
    package: str
    path: Path

    _classes: dict[str, type] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def _names(self) -> tuple[str, ...]:
        # Looked up once: a plan of many runs asks for names and classes for every run.
        stems = (file.stem for file in self.path.glob("*.py"))
        return tuple(sorted(s for s in stems if s != "base" and not s.startswith("_")))

    def names(self) -> tuple[str, ...]:
        """List the variants by file name; nothing is imported."""
        return self._names

    def load(self, name: str) -> type:
        """Import one variant and return its class; an unknown name raises ``ValueError``."""
        if name not in self.names():
            raise unknown(self.kind, name, self.names())
        if name not in self._classes:
            self._classes[name] = self._import(name)
        return self._classes[name]

    def _import(self, name: str) -> type:
        contract = getattr(importlib.import_module(f"{self.package}.base"), self.kind.capitalize())
        module = importlib.import_module(f"{self.package}.{name}")
        own = [
            value
            for value in vars(module).values()
            if isinstance(value, type)
            and issubclass(value, contract)
            and value.__module__ == module.__name__
        ]
        if len(own) != 1:
            raise ValueError(
                f"{self.kind} file {name}.py must define exactly one {contract.__name__} class, "
                f"found {[c.__name__ for c in own]}; helpers belong in a file that starts with '_'"
            )
        return own[0]
