"""Figures of a report: each draws rows that were computed elsewhere and returns Figures.

The only file that knows matplotlib and seaborn. Figures are objects and not pyplot's: nothing is
left open, and the caller's own plotting state is not touched. More than PAGE rows make more pages.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
import seaborn
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, LogLocator

from . import digits, wording

Row = Mapping[str, Any]

PAGE = 16
_WIDTH_INCHES = 4.8
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
_COLOURS = seaborn.color_palette("colorblind")
_DIVERGING = seaborn.color_palette("vlag", as_cmap=True)
_GREY, _INK = "#7B858E", "#1F2428"
_STYLE: Any = {
    **seaborn.axes_style("whitegrid"),
    "font.family": ["sans-serif"],
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 8,
    "axes.labelsize": 8,
    "axes.titlesize": 8,
    "axes.titlelocation": "left",
    "axes.edgecolor": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "#E6E9EC",
    "xtick.bottom": True,
    "legend.fontsize": 8,
    "legend.frameon": False,
    # Names are the user's: a dollar sign in one must not start a formula.
    "text.parse_math": False,
    # TrueType, since venues refuse Type 3; an ASCII minus keeps it to one subset of the font.
    "pdf.fonttype": 42,
    "axes.unicode_minus": False,
    "svg.hashsalt": "cqk",
    "savefig.dpi": 200,
}


def differences(rows: Sequence[Row], seeds: pd.DataFrame) -> list[Figure]:
    """Draw a forest: one line per comparison with its interval, verdict and seeds.

    `rows` are rows of comparisons.csv; `seeds` are the treatments' runs minus the baseline's mean
    (comparison, difference). Intervals that hold for the whole family at once (columns
    ci_simultaneous_low and _high) are drawn thinner behind. A comparison without a difference
    keeps its line and says so; nothing is drawn at 0 in its place.
    """
    return [_forest(page, seeds) for page in _pages(rows)]


def seeds(runs: pd.DataFrame, summary: pd.DataFrame, metric: str) -> list[Figure]:
    """Draw every run as a point with each arm's mean and interval, a panel per cell and split.

    Both frames have the columns cell, split and arm; `runs` also value, `summary` also runs, n,
    mean, ci_low and ci_high. Every panel has an axis of its own.
    """
    panels = [
        (str(cell), list(page))
        for cell, group in summary.groupby("cell", sort=False)
        for page in _pages(list(dict.fromkeys(group["arm"])))
    ]
    return [_seed_page(page, runs, summary, metric) for page in _filled(panels)]


def gain(rows: pd.DataFrame, label: str) -> list[Figure]:
    """Draw the difference with its interval against `x`, one line per `series`.

    Lines are set apart sideways by a hair, so that intervals at one x do not hide each other.
    """
    with matplotlib.rc_context(_STYLE):
        figure, axes = _canvas(3.0 + 0.18 * rows["series"].nunique())
        axes.axhline(0, color=_INK, linewidth=1)
        for i, (name, line) in enumerate(rows.groupby("series", sort=False)):
            style = {"color": _COLOURS[i % len(_COLOURS)], "marker": "osDPX^v"[i % 7]}
            x = line["x"] * 1.02 ** (i - rows["series"].nunique() / 2)
            axes.plot(x, line["difference"], markersize=4, label=_wrap(str(name), 80), **style)
            axes.vlines(x, line["ci_low"], line["ci_high"], color=style["color"], linewidth=1.2)
        axes.set_xscale("log")
        axes.set_xticks(sorted(rows["x"].unique()))
        axes.minorticks_off()
        axes.xaxis.set_major_formatter(FuncFormatter(_short))
        axes.set_xlabel(label)
        axes.set_ylabel(_difference_label(rows["metric"]))
        figure.legend(loc="outside upper left")
    return [figure]


def curves(bands: pd.DataFrame, metric: str) -> list[Figure]:
    """Draw mean curves with their band over seeds: a panel per cell, a colour per arm.

    `bands` has the columns of curves.band and `cell`. The vertical axis starts where the curves
    are after a quarter of the tokens, since the first steps would flatten all that follows.
    """
    cells = list(dict.fromkeys(bands["cell"]))
    return [
        _curve_page(cells[start : start + 6], bands, metric) for start in range(0, len(cells), 6)
    ]


def p_ladder(rows: Sequence[Row]) -> list[Figure]:
    """Draw the sorted p values against Bonferroni's line alpha/m and Holm's steps.

    m is the declared family size, so comparisons without a p still cost a step; their number is
    written below. A p under 1e-12 is an arrow at the edge.
    """
    ladder = sorted((row for row in rows if not digits.missing(row["p"])), key=lambda r: r["p"])
    steps = list(enumerate(ladder))
    return [_ladder_page(page, len(rows) - len(ladder)) for page in _pages(steps)]


def family(comparisons: pd.DataFrame) -> list[Figure]:
    """Draw the matrix of verdicts: comparisons down, metrics and splits across."""
    columns = list(dict.fromkeys(zip(comparisons["metric"], comparisons["split"], strict=True)))
    names = list(dict.fromkeys(comparisons["comparison"]))
    verdicts = {
        (row["comparison"], row["metric"], row["split"]): str(row["verdict"])
        for row in comparisons.to_dict("records")
    }
    return [_verdict_matrix(page, columns, verdicts) for page in _pages(names)]


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
        for some_lines in _parts(lines, 5)
        for some_columns in _parts(columns, 3)
    ]


def by_distance(rows: pd.DataFrame, chance: Mapping[str, float], metric: str) -> list[Figure]:
    """Draw mean values against distance, a panel per cell and a line per arm.

    `rows` has arm, cell, x and mean; `chance` gives the level of guessing by cell.
    """
    cells = list(dict.fromkeys(rows["cell"]))
    return [_distance_page(some, rows, chance, metric) for some in _parts(cells, 6)]


def lines(rows: pd.DataFrame, arms: Sequence[str], label: str) -> list[Figure]:
    """Draw means with their range against `x`: a panel per quantity, a colour per arm.

    `rows` has cell, panel, arm, stage, x, mean, low and high; the stage `scored` is drawn solid,
    any other dashed. `arms` are all of the study's, so that an arm keeps its colour from figure to
    figure. Every cell has pages of its own, every panel an axis of its own.
    """
    return [
        _line_page(str(cell), panels, rows[rows["cell"] == cell], arms, label)
        for cell, here in rows.groupby("cell", sort=False)
        for panels in _parts(list(dict.fromkeys(here["panel"])), 8)
    ]


def stacks(rows: pd.DataFrame) -> list[Figure]:
    """Draw two parts of a sum as stacked bars by layer: a panel per arm, a line for the range.

    `rows` has cell, arm, layer, sink, content, low and high. All panels share one axis.
    """
    panels = list(dict.fromkeys(zip(rows["cell"], rows["arm"], strict=True)))
    return [_stack_page(some, rows) for some in _parts(panels, 8)]


def save(figure: Figure, stem: Path) -> bytes:
    """Write `stem`.pdf and `stem`.png and return the figure as SVG, undated all three.

    The same figure gives the same bytes.
    """
    undated = {"CreationDate": None, "Creator": None, "Producer": None}
    buffer = BytesIO()
    with matplotlib.rc_context(_STYLE):
        _settle_layout(figure)
        figure.savefig(stem.with_name(f"{stem.name}.pdf"), metadata=undated)
        figure.savefig(stem.with_name(f"{stem.name}.png"), metadata={"Software": None})
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return buffer.getvalue()


def _settle_layout(figure: Figure) -> None:
    """Lay the figure out once for all formats, to a millionth of its size.

    The solver's last digits depend on the order of hashes, and SVG names its parts after them.
    """
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for axes in figure.axes:
        left, bottom, width, height = axes.get_position().bounds
        axes.set_position((round(left, 6), round(bottom, 6), round(width, 6), round(height, 6)))


def _canvas(height: float) -> tuple[Figure, Any]:
    figure = Figure(figsize=(_WIDTH_INCHES, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.add_subplot()


def _pages(rows: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(rows), PAGE):
        yield rows[start : start + PAGE]


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


def _wrap(name: str, letters: int = 22) -> str:
    return "\n".join(textwrap.wrap(name, letters, break_on_hyphens=False)) or name


def _named_lines(names: Sequence[str], least: float) -> tuple[Figure, Any]:
    """Return a figure with one named line per row, high enough for the longest name."""
    wrapped = [_wrap(name) for name in names]
    line = max(least, 0.1 + 0.14 * max(1 + name.count("\n") for name in wrapped))
    figure, axes = _canvas(0.6 + line * len(names))
    axes.set_yticks(range(len(names)), wrapped)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(axis="y", visible=False)
    return figure, axes


def _verdict_note(axes: Any, position: int, row: Row) -> None:
    axes.text(1.02, position, row["verdict"], transform=axes.get_yaxis_transform(),
              va="center", color=MARKS[str(row["verdict"])][1], fontsize=8)  # fmt: skip


def _forest(rows: Sequence[Row], seeds: pd.DataFrame) -> Figure:
    by_comparison = dict(iter(seeds.groupby("comparison")["difference"]))
    with matplotlib.rc_context(_STYLE):
        figure, axes = _named_lines([str(row["comparison"]) for row in rows], least=0.42)
        axes.axvline(0, color=_INK, linewidth=1, zorder=1)
        for position, row in enumerate(rows):
            _forest_line(axes, position, row, by_comparison.get(row["comparison"], ()))
            _verdict_note(axes, position, row)
        axes.locator_params(axis="x", nbins=5)
        axes.set_xlabel(_difference_label(row["metric"] for row in rows))
    return figure


def _forest_line(axes: Any, position: int, row: Row, seeds: Any) -> None:
    marker, colour = MARKS[str(row["verdict"])]
    axes.plot(seeds, [position + 0.28] * len(seeds), ".", color=_GREY, markersize=4)
    for low, high, width, shade in (
        ("ci_simultaneous_low", "ci_simultaneous_high", 1.0, _GREY),
        ("ci_low", "ci_high", 2.5, colour),
    ):
        if not digits.missing(row.get(low)) and not digits.missing(row.get(high)):
            axes.plot([row[low], row[high]], [position] * 2, color=shade, linewidth=width)
    if digits.missing(row["difference"]):
        axes.text(0.5, position, "no difference to draw", transform=axes.get_yaxis_transform(),
                  ha="center", va="center", color=colour, fontsize=8)  # fmt: skip
    else:
        axes.plot(row["difference"], position, marker, color=colour, markersize=6)


def _difference_label(metrics: Any) -> str:
    return f"difference in {'; '.join(_with_unit(metric) for metric in sorted(set(metrics)))}"


def _with_unit(metric: str) -> str:
    unit = wording.unit(metric)
    return f"{metric}, {unit}" if unit else metric


def _seed_page(
    page: Sequence[tuple[str, list[str]]], runs: pd.DataFrame, summary: pd.DataFrame, metric: str
) -> Figure:
    splits = list(dict.fromkeys(summary["split"]))
    heights = [0.6 + 0.42 * len(arms) for _, arms in page]
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(_WIDTH_INCHES, 0.3 + sum(heights)), layout="constrained")
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
        figure.supxlabel(_with_unit(metric), fontsize=8)
    return figure


def _seed_panel(axes: Any, arms: list[str], runs: pd.DataFrame, summary: pd.DataFrame) -> list[str]:
    """Draw one panel and return the arms' labels, which count the runs without a value."""
    rows = {row["arm"]: row for row in summary.to_dict("records")}
    labels = []
    for position, arm in enumerate(arms):
        row = rows.get(arm, {"runs": 0, "n": 0, "ci_low": None})
        values = runs.loc[runs["arm"] == arm, "value"].dropna()
        axes.plot(values, [position + 0.25] * len(values), ".", color=_GREY, markersize=5)
        if not digits.missing(row["ci_low"]):
            axes.plot([row["ci_low"], row["ci_high"]], [position] * 2, color=_INK, linewidth=2)
        if row["n"]:
            axes.plot(row["mean"], position, "D", color=_INK, markersize=5)
        short = "" if row["n"] == row["runs"] else f"\n({row['n']} of {row['runs']} runs)"
        labels.append(_wrap(str(arm), 18) + short)
    axes.set_ylim(len(arms) - 0.5, -0.5)
    axes.locator_params(axis="x", nbins=3)
    axes.grid(axis="y", visible=False)
    return labels


def _curve_page(cells: Sequence[str], bands: pd.DataFrame, metric: str) -> Figure:
    columns = min(2, len(cells))
    rows = -(-len(cells) // columns)
    arms, splits = (list(dict.fromkeys(bands[column])) for column in ("arm", "split"))
    colours = {arm: _COLOURS[i % len(_COLOURS)] for i, arm in enumerate(arms)}
    dashes = {split: ("-", "--", ":", "-.")[i % 4] for i, split in enumerate(splits)}
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(_WIDTH_INCHES, 1.0 + 2.4 * rows), layout="constrained")
        FigureCanvasAgg(figure)
        grid = figure.subplots(rows, columns, squeeze=False).flat
        for cell, axes in zip(cells, grid, strict=False):
            _curve_panel(axes, bands[bands["cell"] == cell], colours, dashes)
            axes.set_title(_wrap(cell, 38))
        for axes in grid:
            axes.set_visible(False)
        handles = [Line2D([], [], color=c, label=_wrap(arm, 60)) for arm, c in colours.items()]
        handles += [Line2D([], [], color=_INK, ls=d, label=split) for split, d in dashes.items()]
        figure.legend(handles=handles, loc="outside upper left", ncols=2)
        figure.supylabel(_with_unit(metric), fontsize=8)
        figure.supxlabel("tokens", fontsize=8)
    return figure


def _curve_panel(
    axes: Any, bands: pd.DataFrame, colours: Mapping[Any, Any], dashes: Mapping[Any, str]
) -> None:
    for (arm, split), line in bands.groupby(["arm", "split"], sort=False):
        axes.fill_between(line["tokens"], line["low"], line["high"], color=colours[arm],
                          alpha=0.2, linewidth=0)  # fmt: skip
        axes.plot(line["tokens"], line["mean"], dashes[split], color=colours[arm], linewidth=1.2)
    late = bands[bands["tokens"] >= bands["tokens"].max() / 4]
    low, high = late["mean"].min(), late["mean"].max()
    if high > low:
        axes.set_ylim(low - 0.05 * (high - low), high + 0.05 * (high - low))
    axes.xaxis.set_major_formatter(FuncFormatter(_short))
    axes.locator_params(axis="x", nbins=5)


def _parts(values: Sequence[Any], size: int) -> list[Sequence[Any]]:
    return [values[start : start + size] for start in range(0, len(values), size)]


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
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(_WIDTH_INCHES, height), layout="constrained")
        FigureCanvasAgg(figure)
        grid = figure.subplots(len(lines), len(columns), squeeze=False)
        for line, row_of_axes in zip(lines, grid, strict=True):
            for column, panel in zip(columns, row_of_axes, strict=True):
                here = [row for row in rows if (row["series"], _panel(row, axes)) == (line, column)]
                _map_panel(panel, here, (axes[0], down), (axes[-1], across), norm)
                panel.set_title(f"{line if panel is row_of_axes[0] else ''}\n{column}")
        figure.supylabel(axes[0], fontsize=8)
        label = _difference_label(row["metric"] for row in rows)
        figure.supxlabel(f"{axes[-1]}; colour: {label}", fontsize=8)
    return figure


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
        colour = _DIVERGING(norm(row["difference"])) if known else "white"
        supported = row["verdict"] == "supported"
        axes.add_patch(Rectangle(
            (place[0] - 0.47, place[1] - 0.45), 0.94, 0.9, facecolor=colour,
            edgecolor=_INK if supported else _GREY, linewidth=2.5 if supported else 0.5,
        ))  # fmt: skip
        dark = known and abs(norm(row["difference"]) - 0.5) > 0.35
        sign = "+" if known and row["difference"] > 0 else ""
        number = f"{sign}{digits.format_difference(row)}\n" if known else ""
        axes.text(*place, f"{number}{row['verdict']}", ha="center", va="center",
                  fontsize=7, color="white" if dark else _INK)  # fmt: skip
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
    with matplotlib.rc_context(_STYLE):
        figure, grid = _panels(len(cells))
        for cell, axes in zip(cells, grid, strict=False):
            here = rows[rows["cell"] == cell]
            for i, arm in enumerate(arms):
                line = here[here["arm"] == arm]
                axes.plot(line["x"], line["mean"], marker="osDPX^v"[i % 7], markersize=3,
                          linewidth=1, color=_COLOURS[i % len(_COLOURS)])  # fmt: skip
            if cell in chance:
                axes.axhline(chance[cell], color=_INK, linestyle=":", linewidth=1)
            axes.set_xscale("log", base=2)
            axes.xaxis.set_major_formatter(FuncFormatter(_short))
            axes.set_title(_wrap(cell, 38))
        handles = [
            Line2D([], [], color=_COLOURS[i % len(_COLOURS)], marker="osDPX^v"[i % 7],
                   markersize=3, label=_wrap(str(arm), 40))
            for i, arm in enumerate(arms)
        ]  # fmt: skip
        figure.legend(handles=handles, loc="outside upper left", ncols=2)
        figure.supylabel(_with_unit(metric), fontsize=8)
        figure.supxlabel("distance in tokens", fontsize=8)
    return figure


def _line_page(
    cell: str, panels: Sequence[str], rows: pd.DataFrame, arms: Sequence[str], label: str
) -> Figure:
    styles: dict[Any, dict[str, Any]] = {
        arm: {"color": _COLOURS[i % len(_COLOURS)], "marker": "osDPX^v"[i % 7], "markersize": 3}
        for i, arm in enumerate(arms)
    }
    with matplotlib.rc_context(_STYLE):
        figure, grid = _panels(len(panels))
        for panel, axes in zip(panels, grid, strict=True):
            here = rows[rows["panel"] == panel]
            for (arm, stage), line in here.groupby(["arm", "stage"], sort=False):
                line = line.sort_values("x")
                dash = "-" if stage == "scored" else "--"
                axes.fill_between(line["x"], line["low"], line["high"], alpha=0.15, linewidth=0,
                                  color=styles[arm]["color"])  # fmt: skip
                axes.plot(line["x"], line["mean"], dash, linewidth=1, **styles[arm])
            axes.set_title(_wrap(panel, 38))
            axes.locator_params(axis="x", nbins=6, integer=True)
            axes.xaxis.set_major_formatter(FuncFormatter(_short))
        drawn = [arm for arm in arms if (rows["arm"] == arm).any()]
        handles = [Line2D([], [], label=_wrap(str(arm), 40), **styles[arm]) for arm in drawn]
        if (rows["stage"] != "scored").any():
            handles.append(Line2D([], [], color=_INK, ls="--", label="before the coupling"))
        figure.legend(handles=handles, loc="outside upper left", ncols=2)
        figure.supxlabel(_wrap(f"{label}; {cell}" if cell else label, 90), fontsize=8)
    return figure


def _stack_page(panels: Sequence[tuple[str, str]], rows: pd.DataFrame) -> Figure:
    with matplotlib.rc_context(_STYLE):
        figure, grid = _panels(len(panels))
        for (cell, arm), axes in zip(panels, grid, strict=True):
            here = rows[(rows["cell"] == cell) & (rows["arm"] == arm)]
            bars = {"width": 0.8, "linewidth": 0}
            axes.bar(here["layer"], here["sink"], color=_COLOURS[1], **bars)
            axes.bar(here["layer"], here["content"], bottom=here["sink"], color=_COLOURS[0], **bars)
            axes.vlines(here["layer"], here["low"], here["high"], color=_INK, linewidth=1.2)
            axes.set_ylim(0, 1.05 * rows["high"].max())
            axes.set_title(_wrap(f"{arm}, {cell}" if cell else str(arm), 38))
            axes.locator_params(axis="x", nbins=6, integer=True)
        handles = [
            Rectangle((0, 0), 1, 1, color=_COLOURS[i], label=part)
            for i, part in ((0, "among the other tokens"), (1, "first token or not"))
        ]
        figure.legend(handles=handles, loc="outside upper left", ncols=2)
        figure.supylabel("entropy, nats", fontsize=8)
        figure.supxlabel("layer, counted from 0", fontsize=8)
    return figure


def _panels(number: int) -> tuple[Figure, Any]:
    """Return a figure with so many panels, two in a line."""
    columns = min(2, number)
    lines = -(-number // columns)
    figure = Figure(figsize=(_WIDTH_INCHES, 1.2 + 2.0 * lines), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(lines, columns, squeeze=False).flat
    for spare in grid[number:]:
        spare.set_visible(False)
    return figure, grid[:number]


def _ladder_page(steps: Sequence[tuple[int, Row]], absent: int) -> Figure:
    alpha, m = float(steps[0][1]["alpha"]), int(steps[0][1]["family_size"])
    with matplotlib.rc_context(_STYLE):
        figure, axes = _named_lines([str(row["comparison"]) for _, row in steps], least=0.28)
        axes.axvline(alpha / m, color=_INK, linewidth=1.2, label=f"Bonferroni: {alpha:g}/{m}")
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
    with matplotlib.rc_context(_STYLE):
        figure, axes = _named_lines(names, least=0.34)
        for i, name in enumerate(names):
            for j, column in enumerate(columns):
                if verdict := verdicts.get((name, *column)):
                    codes[i, j] = kinds.index(verdict)
                    axes.text(j + 0.5, i + 0.5, verdict.replace(" ", "\n"), ha="center",
                              va="center", color="white", fontsize=7)  # fmt: skip
        labels = [axes.get_yticklabels()[i].get_text() for i in range(len(names))]
        seaborn.heatmap(codes, ax=axes, cmap=[colour for _, colour in MARKS.values()], vmin=-0.5,
                        vmax=len(kinds) - 0.5, cbar=False, linewidths=1.5)  # fmt: skip
        axes.set_yticks(np.arange(len(names)) + 0.5, labels, rotation=0)
        heads = ["\n".join(part for part in column if part) for column in columns]
        axes.set_xticks(np.arange(len(columns)) + 0.5, heads)
        axes.tick_params(length=0)
    return figure


def _short(x: float, _: int = 0) -> str:
    """Return 60000000 as 60M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(x) >= size:
            return f"{x / size:.3g}{letter}"
    return f"{x:.4g}"
