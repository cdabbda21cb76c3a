"""Figures of comparisons: forest, ladder of p values, matrix of verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator

from .. import digits
from .style import GREY, INK, STYLE, Row, difference_label, named_lines, pages

_SMALLEST_P = 1e-12

# Colours that stay apart for colour-blind readers and dark enough to be read as text on white;
# shape and word repeat what the colour says.
MARKS = {
    "supported": ("o", "#00734F"),
    "suggestive": ("D", "#9A6200"),
    "not supported": ("s", "#4A5560"),
    "equivalent": ("P", "#005A94"),
    "incomplete": ("X", "#8F4A73"),
    "refused": ("v", "#B3440E"),
}


def differences(rows: Sequence[Row], seeds: pd.DataFrame) -> list[Figure]:
    """Draw a forest: one line per comparison with its interval, verdict and seeds.

    `rows` are rows of comparisons.csv; `seeds` are the treatments' runs minus the baseline's mean
    (comparison, difference). Intervals that hold for the whole family at once (columns
    ci_simultaneous_low and _high) are drawn thinner behind. A comparison without a difference
    keeps its line and says so; nothing is drawn at 0 in its place.
    """
    return [_forest(page, seeds) for page in pages(rows)]


def p_ladder(rows: Sequence[Row]) -> list[Figure]:
    """Draw the sorted p values against Bonferroni's line alpha/m and Holm's steps.

    m is the declared family size, so comparisons without a p still cost a step; their number is
    written below. A p under 1e-12 is an arrow at the edge.
    """
    ladder = sorted((row for row in rows if not digits.missing(row["p"])), key=lambda r: r["p"])
    steps = list(enumerate(ladder))
    return [_ladder_page(page, len(rows) - len(ladder)) for page in pages(steps)]


def family(comparisons: pd.DataFrame) -> list[Figure]:
    """Draw the matrix of verdicts: comparisons down, metrics and splits across."""
    columns = list(dict.fromkeys(zip(comparisons["metric"], comparisons["split"], strict=True)))
    names = list(dict.fromkeys(comparisons["comparison"]))
    verdicts = {
        (row["comparison"], row["metric"], row["split"]): str(row["verdict"])
        for row in comparisons.to_dict("records")
    }
    return [_verdict_matrix(page, columns, verdicts) for page in pages(names)]


def _forest(rows: Sequence[Row], seeds: pd.DataFrame) -> Figure:
    by_comparison = dict(iter(seeds.groupby("comparison")["difference"]))
    with matplotlib.rc_context(STYLE):
        figure, axes = named_lines([str(row["comparison"]) for row in rows], least=0.42)
        axes.axvline(0, color=INK, linewidth=1, zorder=1)
        for position, row in enumerate(rows):
            _forest_line(axes, position, row, by_comparison.get(row["comparison"], ()))
            _verdict_note(axes, position, row)
        axes.locator_params(axis="x", nbins=5)
        axes.set_xlabel(difference_label(row["metric"] for row in rows))
    return figure


def _forest_line(axes: Any, position: int, row: Row, seeds: Any) -> None:
    marker, colour = MARKS[str(row["verdict"])]
    axes.plot(seeds, [position + 0.28] * len(seeds), ".", color=GREY, markersize=4)
    for low, high, width, shade in (
        ("ci_simultaneous_low", "ci_simultaneous_high", 1.0, GREY),
        ("ci_low", "ci_high", 2.5, colour),
    ):
        if not digits.missing(row.get(low)) and not digits.missing(row.get(high)):
            axes.plot([row[low], row[high]], [position] * 2, color=shade, linewidth=width)
    if digits.missing(row["difference"]):
        axes.text(0.5, position, "no difference to draw", transform=axes.get_yaxis_transform(),
                  ha="center", va="center", color=colour, fontsize=8)  # fmt: skip
    else:
        axes.plot(row["difference"], position, marker, color=colour, markersize=6)


def _verdict_note(axes: Any, position: int, row: Row) -> None:
    axes.text(1.02, position, row["verdict"], transform=axes.get_yaxis_transform(),
              va="center", color=MARKS[str(row["verdict"])][1], fontsize=8)  # fmt: skip


def _ladder_page(steps: Sequence[tuple[int, Row]], absent: int) -> Figure:
    alpha, m = float(steps[0][1]["alpha"]), int(steps[0][1]["family_size"])
    with matplotlib.rc_context(STYLE):
        figure, axes = named_lines([str(row["comparison"]) for _, row in steps], least=0.28)
        axes.axvline(alpha / m, color=INK, linewidth=1.2, label=f"Bonferroni: {alpha:g}/{m}")
        holm = [alpha / (m - rank) for rank, _ in steps]
        axes.stairs(holm, np.arange(len(steps) + 1) - 0.5, orientation="horizontal", baseline=None,
                    color="#005A94", linestyle="--", label="Holm's steps")  # fmt: skip
        for position, (_, row) in enumerate(steps):
            marker, colour = MARKS[str(row["verdict"])]
            shape = "<" if row["p"] < _SMALLEST_P else marker
            axes.plot(max(row["p"], _SMALLEST_P), position, shape, color=colour, markersize=6)
            _verdict_note(axes, position, row)
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(numticks=7))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda p, _: f"{p:g}"))
        axes.minorticks_off()
        axes.set_xlabel("p" + (f"  ({absent} of {m} declared have none)" if absent else ""))
        figure.legend(loc="outside upper left", ncols=2)
    return figure


def _verdict_matrix(
    names: Sequence[str],
    columns: Sequence[tuple[str, str]],
    verdicts: Mapping[tuple[str, str, str], str],
) -> Figure:
    kinds = list(MARKS)
    codes = np.full((len(names), len(columns)), np.nan)
    with matplotlib.rc_context(STYLE):
        figure, axes = named_lines(names, least=0.34)
        for i, name in enumerate(names):
            for j, column in enumerate(columns):
                if verdict := verdicts.get((name, *column)):
                    codes[i, j] = kinds.index(verdict)
                    axes.text(j + 0.5, i + 0.5, verdict.replace(" ", "\n"), ha="center",
                              va="center", color="white", fontsize=7)  # fmt: skip
        labels = [axes.get_yticklabels()[i].get_text() for i in range(len(names))]
        colours = ListedColormap([colour for _, colour in MARKS.values()])
        axes.pcolormesh(codes, cmap=colours, vmin=-0.5, vmax=len(kinds) - 0.5,
                        edgecolors="white", linewidth=1.5)  # fmt: skip
        axes.set_ylim(len(names), 0)
        axes.set_yticks(np.arange(len(names)) + 0.5, labels)
        axes.spines[:].set_visible(False)
        axes.grid(visible=False)
        heads = ["\n".join(part for part in column if part) for column in columns]
        axes.set_xticks(np.arange(len(columns)) + 0.5, heads)
        axes.tick_params(length=0)
    return figure
