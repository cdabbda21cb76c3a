"""Tables of a report: the same rows as CSV, Markdown, LaTeX and plain text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from . import digits, points


@dataclass(frozen=True)
class Table:
    """A printed table: every cell is text; `strong` holds the (row, column) places set in bold."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    strong: frozenset[tuple[int, int]] = frozenset()


def escape_markdown(text: str) -> str:
    r"""Return text that GitHub Markdown shows as it stands, also inside a table cell.

    >>> escape_markdown("a|b *c* d_e")
    'a\\|b \\*c\\* d_e'
    """
    text = re.sub(r"&(?=#?\w+;)", "&amp;", " ".join(text.split()))
    text = re.sub(r"([\\`*|~$])", r"\\\1", text)
    text = re.sub(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", r"\\_", text)
    return re.sub(r"<(?=[A-Za-z/!?])", "&lt;", text).replace("](", "]\\(")


_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "`": r"\textasciigrave{}",
    # After a row's end LaTeX would take a bracket or a star for an argument.
    "[": "{[}",
    "]": "{]}",
    "*": "{*}",
    "±": r"\(\pm\)",
    "†": r"\(\dagger\)",
    "–": "--",
}


def escape_latex(text: str) -> str:
    r"""Return text that LaTeX prints as it stands, numbers with a true minus sign.

    >>> print(escape_latex("a_b & c"), escape_latex("-0.3 ± 0.1"))
    a\_b \& c \(-\)0.3 \(\pm\) 0.1
    """
    text = " ".join(text.split())
    escaped = "".join(
        # Two hyphens of a name stay two hyphens and become no dash.
        "-{}" if letter == following == "-" else _LATEX.get(letter, letter)
        for letter, following in zip(text, f"{text[1:]} ", strict=False)
    )
    return re.sub(r"(?<![\w.)-])-(?=\d)", r"\\(-\\)", escaped)


def markdown(table: Table) -> str:
    """Return a GitHub Markdown table."""
    lines = [[escape_markdown(cell) for cell in table.header], ["---"] * len(table.header)]
    for i, row in enumerate(table.rows):
        cells = [escape_markdown(cell) for cell in row]
        lines.append([f"**{c}**" if (i, j) in table.strong else c for j, c in enumerate(cells)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def latex(table: Table) -> str:
    """Return a tabular with booktabs rules, to be put into a paper with \\input."""
    columns = "l" + "r" * (len(table.header) - 1)
    lines = [f"\\begin{{tabular}}{{{columns}}}", "\\toprule", _latex_line(table.header)]
    lines.append("\\midrule")
    for i, row in enumerate(table.rows):
        lines.append(_latex_line(row, [j for k, j in table.strong if k == i]))
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}"]) + "\n"


def plain(table: Table) -> str:
    """Return an aligned plain-text table in which no cell is cut.

    >>> print(plain(Table(("arm", "p"), (("affine", "0.0031"),))), end="")
    arm     p
    ------  ------
    affine  0.0031
    """
    lines = [tuple(" ".join(c.split()) for c in line) for line in (table.header, *table.rows)]
    widths = [max(len(line[j]) for line in lines) for j in range(len(table.header))]
    lines.insert(1, tuple("-" * width for width in widths))
    padded = ["  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) for line in lines]
    return "\n".join(line.rstrip() for line in padded) + "\n"


def write(stem: Path, table: Table, frame: pd.DataFrame) -> list[Path]:
    """Write `table` as stem.md and stem.tex, and the full-precision `frame` as stem.csv."""
    targets = [stem.with_name(f"{stem.name}.{kind}") for kind in ("csv", "md", "tex")]
    csv = frame.to_csv(index=False, lineterminator="\n")
    for target, text in zip(targets, (csv, markdown(table), latex(table)), strict=True):
        target.write_text(text, encoding="utf-8", newline="\n")
    return targets


def verdict_table(comparisons: pd.DataFrame, correction: str = "bonferroni") -> str:
    """Return the verdicts as a plain-text table for a terminal: ASCII, with nothing cut."""
    return plain(verdicts(comparisons, correction)).replace(digits.DASH, "-")


def verdicts(comparisons: pd.DataFrame, correction: str = "bonferroni") -> Table:
    """Return one line per comparison, p adjusted by the family's own correction.

    A fixed sequence and Dunnett's procedure decide without a column of adjusted p values.
    """
    adjusted = [correction] if f"p_{correction}" in comparisons else []
    header = (
        "comparison", "verdict", "metric", "split", "difference", "interval", "p",
        *(f"p {name.capitalize()}" for name in adjusted), "m", "Hedges g", "n",
    )  # fmt: skip
    rows = [_verdict_cells(row, adjusted) for row in records(comparisons)]
    return Table(header, tuple(rows))


def arm_means(summary: pd.DataFrame, beaten: points.Beaten) -> Table:
    """Return `mean ± sd (n)` for every arm and cell, a column per metric and split.

    A dagger marks an arm whose declared one-sided comparison with its baseline is supported. Bold
    marks the best arm of a cell: one with such a comparison against every other arm there.
    """
    keys = ["arm", "cell", "metric", "split"]
    shown = {
        tuple(row[key] for key in keys): digits.format_mean(row["mean"], row["sd"], row["n"])
        for row in records(summary)
    }
    lines = list(dict.fromkeys(key[:2] for key in shown))
    places = list(dict.fromkeys(key[2:] for key in shown))
    celled = any(where for _, where in lines)
    rows, strong = [], set()
    for i, (arm, where) in enumerate(lines):
        others = {name for name, there in lines if there == where} - {arm}
        texts = [arm, where or digits.DASH] if celled else [arm]
        for place in places:
            losers = beaten.get((arm, where, *place), frozenset())
            if others and others <= losers:
                strong.add((i, len(texts)))
            texts.append(shown.get((arm, where, *place), digits.DASH) + ("†" if losers else ""))
        rows.append(tuple(texts))
    header = ("arm", *(["cell"] if celled else []), *(place_label(*place) for place in places))
    return Table(header, tuple(rows), frozenset(strong))


def side_by_side(declared: pd.DataFrame, held_out: pd.DataFrame, splits: Sequence[str]) -> Table:
    """Return the declared comparison and its replication on the held-out split, line by line."""
    replicated = {row["comparison"]: row for row in records(held_out)}
    rows = []
    for row in records(declared):
        other = replicated.get(row["comparison"])
        results = (_result_cells(row), _result_cells(other) if other else (digits.DASH,) * 4)
        # Verdicts stand next to each other, then differences, and so on.
        pairs = (text for pair in zip(*results, strict=True) for text in pair)
        rows.append((str(row["comparison"]), *pairs))
    heads = ("verdict", "difference", "interval", "p")
    header = ("comparison", *(f"{head} ({split})" for head in heads for split in splits))
    return Table(header, tuple(rows))


def full(frame: pd.DataFrame) -> Table:
    """Return a frame as it is, every column and row, numbers with six significant digits."""
    rows = tuple(tuple(cell(value) for value in row) for row in frame.itertuples(index=False))
    return Table(tuple(str(column) for column in frame.columns), rows)


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a frame as dictionaries from column name to value."""
    return [{str(key): value for key, value in row.items()} for row in frame.to_dict("records")]


def cell(value: object) -> str:
    """Return any value as the text of a cell; a missing one as a dash.

    >>> cell(0.123456789), cell(3.0), cell(float("nan")), cell(True)
    ('0.123457', '3', '–', 'yes')
    """
    if digits.missing(value):
        return digits.DASH
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _latex_line(cells: Sequence[str], strong: Sequence[int] = ()) -> str:
    texts = [escape_latex(text) for text in cells]
    shown = [f"\\textbf{{{text}}}" if j in strong else text for j, text in enumerate(texts)]
    return " & ".join(shown) + r" \\"


def place_label(metric: str, split: object) -> str:
    """Return a metric with its split, `loss (valid)`."""
    return metric if digits.missing(split) else f"{metric} ({split})"


def _result_cells(row: dict[str, Any]) -> tuple[str, ...]:
    p = digits.format_p(row["p"], digits.number(row["alpha"]))
    return str(row["verdict"]), digits.format_difference(row), digits.format_interval(row), p


def _verdict_cells(row: dict[str, Any], adjusted: Sequence[str]) -> tuple[str, ...]:
    g, alpha = digits.number(row["hedges_g"]), digits.number(row["alpha"])
    return (
        str(row["comparison"]),
        str(row["verdict"]),
        str(row["metric"]),
        cell(row["split"]),
        digits.format_difference(row),
        digits.format_interval(row),
        digits.format_p(row["p"], alpha),
        *(digits.format_p(row[f"p_{name}"], alpha) for name in adjusted),
        digits.count(row["family_size"]),
        digits.DASH if g != g else f"{g:.2f}",
        f"{digits.count(row['n_treatment'])} v {digits.count(row['n_baseline'])}",
    )
