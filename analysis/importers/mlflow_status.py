"""MLflow's words and codes for what became of a run."""

from __future__ import annotations

from typing import Literal

_CODES = {"1": "RUNNING", "2": "SCHEDULED", "3": "FINISHED", "4": "FAILED", "5": "KILLED"}


def status(state: str) -> Literal["done", "failed", "unfinished"]:
    """Return the status for a word of the database or a code of the file store.

    >>> status("FINISHED"), status("4"), status("RUNNING")
    ('done', 'failed', 'unfinished')
    """
    word = _CODES.get(state, state)
    if word == "FINISHED":
        return "done"
    return "failed" if word in ("FAILED", "KILLED") else "unfinished"


def described(state: str) -> str:
    """Return the state as a word for the user, empty for a run that finished.

    >>> described("5")
    'killed'
    """
    word = _CODES.get(state, state).lower()
    return "" if word == "finished" else word
