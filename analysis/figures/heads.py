"""Figures of what the heads do: lines by layer or step, and parts of an entropy as bars."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter

from .style import COLOURS, INK, STYLE, arm_styles, panel_grid, parts, short, wrap


def lines(rows: pd.DataFrame, arms: Sequence[str], label: str) -> list[Figure]:
    """Draw means with their range against `x`: a panel per quantity, a colour per arm.

    `rows` has cell, panel, arm, stage, x, mean, low and high; the stage `scored` is drawn solid,
    any other dashed. `arms` are all of the study's, so that an arm keeps its colour from figure to
    figure. Every cell has pages of its own, every panel an axis of its own.
    """
    return [
        _line_page(str(cell), panels, rows[rows["cell"] == cell], arms, label)
        for cell, here in rows.groupby("cell", sort=False)
        for panels in parts(list(dict.fromkeys(here["panel"])), 8)
    ]


def stacks(rows: pd.DataFrame) -> list[Figure]:
    """Draw two parts of a sum as stacked bars by layer: a panel per arm, a line for the range.

    `rows` has cell, arm, layer, sink, content, low and high. All panels share one axis.
    """
    panels = list(dict.fromkeys(zip(rows["cell"], rows["arm"], strict=True)))
    return [_stack_page(some, rows) for some in parts(panels, 8)]


def _line_page(
    cell: str, panels: Sequence[str], rows: pd.DataFrame, arms: Sequence[str], label: str
) -> Figure:
    styles = arm_styles(arms)
    with matplotlib.rc_context(STYLE):
        figure, grid = panel_grid(len(panels))
        for panel, axes in zip(panels, grid, strict=True):
            here = rows[rows["panel"] == panel]
            for (arm, stage), line in here.groupby(["arm", "stage"], sort=False):
                line = line.sort_values("x")
                dash = "-" if stage == "scored" else "--"
                axes.fill_between(line["x"], line["low"], line["high"], alpha=0.15, linewidth=0,
                                  color=styles[arm]["color"])  # fmt: skip
                axes.plot(line["x"], line["mean"], dash, linewidth=1, **styles[arm])
            axes.set_title(wrap(panel, 38))
            axes.locator_params(axis="x", nbins=6, integer=True)
            axes.xaxis.set_major_formatter(FuncFormatter(short))
        drawn = [arm for arm in arms if (rows["arm"] == arm).any()]
        handles = [Line2D([], [], label=wrap(str(arm), 40), **styles[arm]) for arm in drawn]
        if (rows["stage"] != "scored").any():
            handles.append(Line2D([], [], color=INK, ls="--", label="before the coupling"))
        figure.legend(handles=handles, loc="outside upper left", ncols=2)
        figure.supxlabel(wrap(f"{label}; {cell}" if cell else label, 90), fontsize=8)
    return figure


def _stack_page(panels: Sequence[tuple[str, str]], rows: pd.DataFrame) -> Figure:
    with matplotlib.rc_context(STYLE):
        figure, grid = panel_grid(len(panels))
        for (cell, arm), axes in zip(panels, grid, strict=True):
            here = rows[(rows["cell"] == cell) & (rows["arm"] == arm)]
            bars = {"width": 0.8, "linewidth": 0}
            axes.bar(here["layer"], here["sink"], color=COLOURS[1], **bars)
            axes.bar(here["layer"], here["content"], bottom=here["sink"], color=COLOURS[0], **bars)
            axes.vlines(here["layer"], here["low"], here["high"], color=INK, linewidth=1.2)
            axes.set_ylim(0, 1.05 * rows["high"].max())
            axes.set_title(wrap(f"{arm}, {cell}" if cell else str(arm), 38))
            axes.locator_params(axis="x", nbins=6, integer=True)
        handles = [
            Rectangle((0, 0), 1, 1, color=COLOURS[i], label=part)
            for i, part in ((0, "among the other tokens"), (1, "first token or not"))
        ]
        figure.legend(handles=handles, loc="outside upper left", ncols=2)
        figure.supylabel("entropy, nats", fontsize=8)
        figure.supxlabel("layer, counted from 0", fontsize=8)
    return figure
