"""Tables of a report: the same rows as CSV, Markdown, LaTeX and plain text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from . import wording


def escape_markdown(text: str) -> str:
    r"""Return text that GitHub Markdown shows as it stands, also inside a table cell.

    >>> escape_markdown("a|b *c* d_e")
    'a\\|b \\*c\\* d_e'
    """
    text = re.sub(r"&(?=#?\w+;)", "&amp;", " ".join(text.split()))
    text = re.sub(r"([\\`*|~$])", r"\\\1", text)
    text = re.sub(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", r"\\_", text)
    return re.sub(r"<(?=[A-Za-z/!?])", "&lt;", text).replace("](", "]\\(")


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a GitHub Markdown table."""
    shown = [[escape_markdown(cell) for cell in row] for row in [header, *rows]]
    shown.insert(1, ["---"] * len(header))
    return "\n".join(f"| {' | '.join(row)} |" for row in shown) + "\n"


def plain(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return an aligned plain-text table in which no cell is cut.

    >>> print(plain(["arm", "p"], [["affine", "0.0031"]]), end="")
    arm     p
    ------  ------
    affine  0.0031
    """
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    lines = [header, ["-" * width for width in widths], *rows]
    padded = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in lines]
    return "\n".join(line.rstrip() for line in padded) + "\n"


VERDICT_HEADER = (
    "comparison", "metric", "split", "difference", "interval", "p", "p Bonferroni", "m",
    "Hedges g", "n", "verdict",
)  # fmt: skip


def verdict_rows(comparisons: pd.DataFrame) -> list[list[str]]:
    """Return one row of printed cells per comparison, under VERDICT_HEADER."""
    return [_verdict_cells(row) for row in records(comparisons)]


def verdict_table(comparisons: pd.DataFrame) -> str:
    """Return the verdicts as a plain-text table for a terminal, with nothing cut."""
    rows = [[cell.replace(wording.DASH, "-") for cell in row] for row in verdict_rows(comparisons)]
    return plain(VERDICT_HEADER, rows)


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a frame as plain dictionaries, column by column name."""
    return [{str(key): value for key, value in row.items()} for row in frame.to_dict("records")]


def _verdict_cells(row: dict[str, Any]) -> list[str]:
    g = wording.number(row["hedges_g"])
    alpha = wording.number(row["alpha"])
    return [
        str(row["comparison"]),
        str(row["metric"]),
        wording.DASH if wording.missing(row["split"]) else str(row["split"]),
        wording.format_difference(row),
        wording.format_interval(row),
        wording.format_p(row["p"], alpha),
        wording.format_p(row["p_bonferroni"], alpha),
        f"{row['family_size']:.0f}",
        wording.DASH if g != g else f"{g:.2f}",
        f"{row['n_treatment']:.0f} v {row['n_baseline']:.0f}",
        str(row["verdict"]),
    ]
