"""The name that somebody who misspelt one probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def closest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name most like ``name``, ``None`` where none is like it.

    >>> closest("stpes", ["steps", "batch"])
    'steps'
    """
    return next(iter(difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)), None)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the clause that helps someone who wrote ``name`` for one of ``known``.

    >>> nearest("stpes", ["steps", "batch"])
    'did you mean "steps"?'
    >>> nearest("colour", ["steps", "batch"])
    'known: steps, batch'
    """
    known = list(known)
    meant = closest(name, known)
    return f"known: {', '.join(known)}" if meant is None else f'did you mean "{meant}"?'
