"""One figure of a report before it is drawn onto the disk: names, caption, pages, and its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd


@dataclass(frozen=True)
class Plate:
    """A figure of one or more pages; ``section`` is the report's part it stands in, "" by default.

    ``data``, when given, are the rows that are drawn, to be written beside the figure.
    """

    name: str
    title: str
    caption: str
    pages: Sequence[Any]
    section: str = ""
    data: pd.DataFrame | None = None
