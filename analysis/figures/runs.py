"""Figures of runs: every seed with its arm's mean, and learning curves."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import matplotlib
import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from .. import digits
from .style import (
    COLOURS,
    GREY,
    INK,
    PAGE,
    STYLE,
    WIDTH_INCHES,
    arm_styles,
    pages,
    short,
    with_unit,
    wrap,
)

# Bands of more arms lie over one another and hide the curves.
BANDED_ARMS = 4
PAIRS = 8  # on one page


def seeds(runs: pd.DataFrame, summary: pd.DataFrame, metric: str) -> list[Figure]:
    """Draw every run as a point with each arm's mean and interval, a panel per cell and split.

    Both frames have the columns cell, split and arm; `runs` also value, `summary` also runs, n,
    mean, ci_low and ci_high. Every panel has an axis of its own.
    """
    panels = [
        (str(cell), list(page))
        for cell, group in summary.groupby("cell", sort=False)
        for page in pages(list(dict.fromkeys(group["arm"])))
    ]
    return [_seed_page(page, runs, summary, metric) for page in _filled(panels)]


def curves(bands: pd.DataFrame, metric: str) -> list[Figure]:
    """Draw mean curves with their band over seeds: a panel per cell, a colour per arm.

    `bands` has the columns of curves.band and `cell`. The vertical axis starts where the curves
    are after a quarter of the tokens, since the first steps would flatten all that follows.
    """
    cells = list(dict.fromkeys(bands["cell"]))
    return [
        _curve_page(cells[start : start + 6], bands, metric) for start in range(0, len(cells), 6)
    ]


def curve_differences(bands: pd.DataFrame, metric: str) -> list[Figure]:
    """Draw differences of curves with their band over seeds: a panel per pair, one axis for all.

    `bands` has the columns of curves.band and `cell`, the pair's name.
    """
    pairs, late = list(dict.fromkeys(bands["cell"])), _late(bands)
    reach = float(late[["low", "high", "mean"]].abs().max().max())
    return [
        _difference_page(pairs[start : start + PAIRS], bands, metric, reach)
        for start in range(0, len(pairs), PAIRS)
    ]


def _late(bands: pd.DataFrame) -> pd.DataFrame:
    """Return what comes after a quarter of the tokens: the first steps would flatten all that."""
    late: pd.DataFrame = bands[bands["tokens"] >= bands["tokens"].max() / 4]
    return late


def _filled(panels: Sequence[tuple[str, list[str]]]) -> Iterator[list[tuple[str, list[str]]]]:
    """Put panels on pages of at most PAGE arms."""
    page: list[tuple[str, list[str]]] = []
    for panel in panels:
        if page and sum(len(arms) for _, arms in [*page, panel]) > PAGE:
            yield page
            page = []
        page.append(panel)
    if page:
        yield page


def _seed_page(
    page: Sequence[tuple[str, list[str]]], runs: pd.DataFrame, summary: pd.DataFrame, metric: str
) -> Figure:
    splits = list(dict.fromkeys(summary["split"]))
    heights = [0.6 + 0.42 * len(arms) for _, arms in page]
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH_INCHES, 0.3 + sum(heights)), layout="constrained")
        FigureCanvasAgg(figure)
        grid = figure.subplots(len(page), len(splits), squeeze=False, height_ratios=heights)
        for (cell, arms), line in zip(page, grid, strict=True):
            for split, axes in zip(splits, line, strict=True):
                here, those = (
                    frame[(frame["cell"] == cell) & (frame["split"] == split)]
                    for frame in (summary, runs)
                )
                labels = _seed_panel(axes, arms, those, here)
                axes.set_yticks(range(len(arms)), labels if axes is line[0] else [""] * len(arms))
                # The cell's line may run over the next panel, whose own first line is empty.
                first = f"{cell if axes is line[0] else ''}\n" if cell else ""
                axes.set_title(first + split)
        figure.supxlabel(with_unit(metric), fontsize=8)
    return figure


def _seed_panel(axes: Any, arms: list[str], runs: pd.DataFrame, summary: pd.DataFrame) -> list[str]:
    """Draw one panel and return the arms' labels, which count the runs without a value."""
    rows = {row["arm"]: row for row in summary.to_dict("records")}
    labels = []
    for position, arm in enumerate(arms):
        row = rows.get(arm, {"runs": 0, "n": 0, "ci_low": None})
        values = runs.loc[runs["arm"] == arm, "value"].dropna()
        axes.plot(values, [position + 0.25] * len(values), ".", color=GREY, markersize=5)
        if not digits.missing(row["ci_low"]):
            axes.plot([row["ci_low"], row["ci_high"]], [position] * 2, color=INK, linewidth=2)
        if row["n"]:
            axes.plot(row["mean"], position, "D", color=INK, markersize=5)
        short = "" if row["n"] == row["runs"] else f"\n({row['n']} of {row['runs']} runs)"
        labels.append(wrap(str(arm), 18) + short)
    axes.set_ylim(len(arms) - 0.5, -0.5)
    axes.locator_params(axis="x", nbins=3)
    axes.grid(axis="y", visible=False)
    return labels


def _curve_page(cells: Sequence[str], bands: pd.DataFrame, metric: str) -> Figure:
    columns = min(2, len(cells))
    rows = -(-len(cells) // columns)
    arms, splits = (list(dict.fromkeys(bands[column])) for column in ("arm", "split"))
    styles = arm_styles(arms)
    if len(arms) <= len(COLOURS):  # each has a colour of its own
        styles = {arm: {"color": style["color"]} for arm, style in styles.items()}
    dashes = {split: ("-", "--", ":", "-.")[i % 4] for i, split in enumerate(splits)}
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH_INCHES, 1.0 + 2.4 * rows), layout="constrained")
        FigureCanvasAgg(figure)
        grid = figure.subplots(rows, columns, squeeze=False).flat
        for cell, axes in zip(cells, grid, strict=False):
            _curve_panel(axes, bands[bands["cell"] == cell], styles, dashes)
            axes.set_title(wrap(cell, 38))
        for axes in grid:
            axes.set_visible(False)
        handles = [Line2D([], [], label=wrap(arm, 60), **style) for arm, style in styles.items()]
        handles += [Line2D([], [], color=INK, ls=d, label=split) for split, d in dashes.items()]
        figure.legend(handles=handles, loc="outside upper left", ncols=2)
        figure.supylabel(with_unit(metric), fontsize=8)
        figure.supxlabel("tokens", fontsize=8)
    return figure


def _curve_panel(
    axes: Any,
    bands: pd.DataFrame,
    styles: Mapping[Any, Mapping[str, Any]],
    dashes: Mapping[Any, str],
) -> None:
    banded = bands["arm"].nunique() <= BANDED_ARMS
    for (arm, split), line in bands.groupby(["arm", "split"], sort=False):
        if banded:
            axes.fill_between(line["tokens"], line["low"], line["high"], color=styles[arm]["color"],
                              alpha=0.2, linewidth=0)  # fmt: skip
        axes.plot(line["tokens"], line["mean"], dashes[split], linewidth=1.2, markevery=0.12,
                  **styles[arm])  # fmt: skip
    late = _late(bands)
    low, high = late["mean"].min(), late["mean"].max()
    if high > low:
        axes.set_ylim(low - 0.05 * (high - low), high + 0.05 * (high - low))
    axes.xaxis.set_major_formatter(FuncFormatter(short))
    axes.locator_params(axis="x", nbins=5)


def _difference_page(
    pairs: Sequence[str], bands: pd.DataFrame, metric: str, reach: float
) -> Figure:
    columns = min(2, len(pairs))
    rows = -(-len(pairs) // columns)
    splits = list(dict.fromkeys(bands["split"]))
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH_INCHES, 0.6 + 1.7 * rows), layout="constrained")
        FigureCanvasAgg(figure)
        panels = list(figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True).flat)
        for pair, axes in zip(pairs, panels, strict=False):
            _difference_panel(axes, bands[bands["cell"] == pair], splits)
            axes.set_title("\n".join(wrap(line, 38) for line in pair.splitlines()))
            if math.isfinite(reach) and reach > 0:
                axes.set_ylim(-1.05 * reach, 1.05 * reach)
        for axes in panels[len(pairs) :]:
            axes.set_visible(False)
        for axes in panels[len(pairs) - columns : len(pairs)]:
            axes.tick_params(labelbottom=True)
        if len(splits) > 1:
            handles = [
                Line2D([], [], color=COLOURS[i], label=split) for i, split in enumerate(splits)
            ]
            figure.legend(handles=handles, loc="outside upper left", ncols=2)
        figure.supylabel(f"difference in {with_unit(metric)}", fontsize=8)
        figure.supxlabel("tokens", fontsize=8)
    return figure


def _difference_panel(axes: Any, bands: pd.DataFrame, splits: Sequence[str]) -> None:
    axes.axhline(0, color=GREY, linewidth=0.8)
    for split, line in bands.groupby("split", sort=False):
        colour = COLOURS[splits.index(str(split)) % len(COLOURS)]
        axes.fill_between(line["tokens"], line["low"], line["high"], color=colour,
                          alpha=0.25, linewidth=0)  # fmt: skip
        axes.plot(line["tokens"], line["mean"], color=colour, linewidth=1.2)
    axes.xaxis.set_major_formatter(FuncFormatter(short))
    axes.locator_params(axis="x", nbins=4)
