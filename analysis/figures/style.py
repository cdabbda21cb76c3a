"""What all figures share: colours, type, sizes, pages, and how a figure is saved."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from ..phrases import unit
from .typeface import WHOLE, families

Row = Mapping[str, Any]

PAGE = 16
WIDTH_INCHES = 4.8

# Seaborn's palette for the colour-blind and its style "whitegrid", written out: to import seaborn
# takes longer than to draw a small report. A test compares them.
COLOURS = (
    *("#0173b2", "#de8f05", "#029e73", "#d55e00", "#cc78bc"),
    *("#ca9161", "#fbafe4", "#949494", "#ece133", "#56b4e9"),
)
WHITEGRID = {
    **dict.fromkeys(("figure.facecolor", "axes.facecolor"), "white"),
    **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), ".15"),
    **dict.fromkeys(("axes.grid", "axes.axisbelow", "patch.force_edgecolor"), True),
    **dict.fromkeys(("axes.spines.left", "axes.spines.bottom"), True),
    **dict.fromkeys(("xtick.top", "ytick.left", "ytick.right"), False),
    **dict.fromkeys(("xtick.direction", "ytick.direction"), "out"),
    "grid.linestyle": "-",
    "lines.solid_capstyle": "round",
    "patch.edgecolor": "w",
}
GREY, INK = "#7B858E", "#1F2428"
STYLE: Any = {
    **WHITEGRID,
    "font.family": ["sans-serif"],
    "font.sans-serif": [WHOLE],
    "font.size": 8,
    "axes.labelsize": 8,
    "axes.titlesize": 8,
    "axes.titlelocation": "left",
    "axes.edgecolor": INK,
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
    # No engine may be at work once a figure is laid out: it would draw each format twice.
    "figure.autolayout": False,
    "figure.constrained_layout.use": False,
}


def save(figure: Figure, stem: Path) -> bytes:
    """Write `stem`.pdf and `stem`.png and return the figure as SVG, undated all three.

    The same figure gives the same bytes.
    """
    undated = {"CreationDate": None, "Creator": None, "Producer": None}
    buffer = BytesIO()
    with matplotlib.rc_context({**STYLE, "font.sans-serif": families()}):
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
    figure.set_layout_engine(None)
    for axes in figure.axes:
        left, bottom, width, height = axes.get_position().bounds
        axes.set_position((round(left, 6), round(bottom, 6), round(width, 6), round(height, 6)))


def canvas(height: float) -> tuple[Figure, Any]:
    """Return an empty figure of one panel."""
    figure = Figure(figsize=(WIDTH_INCHES, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.add_subplot()


def pages(rows: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Yield the rows in pages of at most PAGE."""
    for start in range(0, len(rows), PAGE):
        yield rows[start : start + PAGE]


def parts(values: Sequence[Any], size: int) -> list[Sequence[Any]]:
    """Return the values in parts of at most ``size``."""
    return [values[start : start + size] for start in range(0, len(values), size)]


def wrap(name: str, letters: int = 22) -> str:
    """Return a name broken into lines between words."""
    return "\n".join(textwrap.wrap(name, letters, break_on_hyphens=False)) or name


def named_lines(names: Sequence[str], least: float) -> tuple[Figure, Any]:
    """Return a figure with one named line per row, high enough for the longest name."""
    wrapped = [wrap(name) for name in names]
    line = max(least, 0.1 + 0.14 * max(1 + name.count("\n") for name in wrapped))
    figure, axes = canvas(0.6 + line * len(names))
    axes.set_yticks(range(len(names)), wrapped)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(axis="y", visible=False)
    return figure, axes


def panel_grid(number: int) -> tuple[Figure, Any]:
    """Return a figure with so many panels, two in a line."""
    columns = min(2, number)
    lines = -(-number // columns)
    figure = Figure(figsize=(WIDTH_INCHES, 1.2 + 2.0 * lines), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(lines, columns, squeeze=False).flat
    for spare in grid[number:]:
        spare.set_visible(False)
    return figure, grid[:number]


def arm_styles(arms: Sequence[str]) -> dict[Any, dict[str, Any]]:
    """Return a colour and a marker for each arm; no two of the first seventy share both."""
    return {
        arm: {"color": COLOURS[i % len(COLOURS)], "marker": "osDPX^v"[i % 7], "markersize": 3}
        for i, arm in enumerate(arms)
    }


def difference_label(metrics: Any) -> str:
    """Return the label of an axis of differences, with the metrics' units."""
    return f"difference in {'; '.join(with_unit(metric) for metric in sorted(set(metrics)))}"


def with_unit(metric: str) -> str:
    """Return a metric's name with its unit."""
    name = unit(metric)
    return f"{metric}, {name}" if name else metric


def short(x: float, _: int = 0) -> str:
    """Return 60000000 as 60M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(x) >= size:
            return f"{x / size:.3g}{letter}"
    return f"{x:.4g}"
