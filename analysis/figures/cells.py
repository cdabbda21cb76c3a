"""Figures over a grid: map of differences, gain against size or length, value against distance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import matplotlib
import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import Colormap, Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter

from .. import digits
from .style import (
    COLOURS,
    GREY,
    INK,
    STYLE,
    WIDTH_INCHES,
    Row,
    canvas,
    difference_label,
    panel_grid,
    parts,
    short,
    with_unit,
    wrap,
)


def grid_map(rows: Sequence[Row], axes: Sequence[str]) -> list[Figure]:
    """Draw the difference in each cell of a grid as a colour, with its number and verdict.

    `rows` are rows of comparisons.csv with `series` and a column per axis. The first axis runs
    down, the last across; the axes between them make columns of panels, the series rows of panels.
    Values stand in the order of the rows. A thick frame marks a supported cell; a cell without a
    difference stays white.
    """
    lines = list(dict.fromkeys(row["series"] for row in rows))
    columns = list(dict.fromkeys(_panel(row, axes) for row in rows))
    return [
        _map_page(rows, axes, some_lines, some_columns)
        for some_lines in parts(lines, 5)
        for some_columns in parts(columns, 3)
    ]


def gain(rows: pd.DataFrame, label: str) -> list[Figure]:
    """Draw the difference with its interval against `x`, one line per `series`.

    Lines are set apart sideways by a hair, so that intervals at one x do not hide each other.
    """
    with matplotlib.rc_context(STYLE):
        figure, axes = canvas(3.0 + 0.18 * rows["series"].nunique())
        axes.axhline(0, color=INK, linewidth=1)
        for i, (name, line) in enumerate(rows.groupby("series", sort=False)):
            style = {"color": COLOURS[i % len(COLOURS)], "marker": "osDPX^v"[i % 7]}
            x = line["x"] * 1.02 ** (i - rows["series"].nunique() / 2)
            axes.plot(x, line["difference"], markersize=4, label=wrap(str(name), 80), **style)
            axes.vlines(x, line["ci_low"], line["ci_high"], color=style["color"], linewidth=1.2)
        axes.set_xscale("log")
        axes.set_xticks(sorted(rows["x"].unique()))
        axes.minorticks_off()
        axes.xaxis.set_major_formatter(FuncFormatter(short))
        axes.set_xlabel(label)
        axes.set_ylabel(difference_label(rows["metric"]))
        figure.legend(loc="outside upper left")
    return [figure]


def by_distance(rows: pd.DataFrame, chance: Mapping[str, float], metric: str) -> list[Figure]:
    """Draw mean values against distance, a panel per cell and a line per arm.

    `rows` has arm, cell, x and mean; `chance` gives the level of guessing by cell.
    """
    cells = list(dict.fromkeys(rows["cell"]))
    return [_distance_page(some, rows, chance, metric) for some in parts(cells, 6)]


def _panel(row: Row, axes: Sequence[str]) -> str:
    return ", ".join(f"{axis}={row[axis]}" for axis in axes[1:-1])


def _map_page(
    rows: Sequence[Row], axes: Sequence[str], lines: Sequence[str], columns: Sequence[str]
) -> Figure:
    down, across = (list(dict.fromkeys(row[axis] for row in rows)) for axis in (axes[0], axes[-1]))
    known = [abs(row["difference"]) for row in rows if not digits.missing(row["difference"])]
    reach = max(known, default=0.0) or 1.0
    norm = Normalize(-reach, reach)
    height = 0.5 + len(lines) * (0.55 + 0.45 * len(down))
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH_INCHES, height), layout="constrained")
        FigureCanvasAgg(figure)
        grid = figure.subplots(len(lines), len(columns), squeeze=False)
        for line, row_of_axes in zip(lines, grid, strict=True):
            for column, panel in zip(columns, row_of_axes, strict=True):
                here = [row for row in rows if (row["series"], _panel(row, axes)) == (line, column)]
                _map_panel(panel, here, (axes[0], down), (axes[-1], across), norm)
                panel.set_title(f"{line if panel is row_of_axes[0] else ''}\n{column}")
        figure.supylabel(axes[0], fontsize=8)
        label = difference_label(row["metric"] for row in rows)
        figure.supxlabel(f"{axes[-1]}; colour: {label}", fontsize=8)
    return figure


@cache
def _diverging() -> Colormap:
    import seaborn  # half a second with all it brings, and only a grid of cells has a map

    colours: Colormap = seaborn.color_palette("vlag", as_cmap=True)
    return colours


def _map_panel(
    axes: Any,
    rows: Sequence[Row],
    down: tuple[str, list[Any]],
    across: tuple[str, list[Any]],
    norm: Normalize,
) -> None:
    for row in rows:
        place = across[1].index(row[across[0]]), down[1].index(row[down[0]])
        known = not digits.missing(row["difference"])
        colour = _diverging()(norm(row["difference"])) if known else "white"
        supported = row["verdict"] == "supported"
        axes.add_patch(Rectangle(
            (place[0] - 0.47, place[1] - 0.45), 0.94, 0.9, facecolor=colour,
            edgecolor=INK if supported else GREY, linewidth=2.5 if supported else 0.5,
        ))  # fmt: skip
        dark = known and abs(norm(row["difference"]) - 0.5) > 0.35
        sign = "+" if known and row["difference"] > 0 else ""
        number = f"{sign}{digits.format_difference(row)}\n" if known else ""
        axes.text(*place, f"{number}{row['verdict']}", ha="center", va="center",
                  fontsize=7, color="white" if dark else INK)  # fmt: skip
    axes.set_xlim(-0.5, len(across[1]) - 0.5)
    axes.set_ylim(len(down[1]) - 0.5, -0.5)
    axes.set_xticks(range(len(across[1])), list(map(str, across[1])))
    axes.set_yticks(range(len(down[1])), list(map(str, down[1])))
    axes.grid(visible=False)
    axes.tick_params(length=0)


def _distance_page(
    cells: Sequence[str], rows: pd.DataFrame, chance: Mapping[str, float], metric: str
) -> Figure:
    arms = list(dict.fromkeys(rows["arm"]))
    with matplotlib.rc_context(STYLE):
        figure, grid = panel_grid(len(cells))
        for cell, axes in zip(cells, grid, strict=False):
            here = rows[rows["cell"] == cell]
            for i, arm in enumerate(arms):
                line = here[here["arm"] == arm]
                axes.plot(line["x"], line["mean"], marker="osDPX^v"[i % 7], markersize=3,
                          linewidth=1, color=COLOURS[i % len(COLOURS)])  # fmt: skip
            if cell in chance:
                axes.axhline(chance[cell], color=INK, linestyle=":", linewidth=1)
            axes.set_xscale("log", base=2)
            axes.xaxis.set_major_formatter(FuncFormatter(short))
            axes.set_title(wrap(cell, 38))
        handles = [
            Line2D([], [], color=COLOURS[i % len(COLOURS)], marker="osDPX^v"[i % 7],
                   markersize=3, label=wrap(str(arm), 40))
            for i, arm in enumerate(arms)
        ]  # fmt: skip
        figure.legend(handles=handles, loc="outside upper left", ncols=2)
        figure.supylabel(with_unit(metric), fontsize=8)
        figure.supxlabel("distance in tokens", fontsize=8)
    return figure
