"""Figures of a report: each draws rows that were computed elsewhere and returns a Figure.

The only file that knows matplotlib and seaborn. No pyplot: figures are objects, so nothing is left
open and the caller's own plotting state is not touched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from . import wording

WIDTH_INCHES = 5.6

# Okabe and Ito's colour-blind-safe palette; shape and text repeat what the colour says.
MARKERS = {
    "supported": ("o", "#009E73"),
    "suggestive": ("D", "#E69F00"),
    "not supported": ("s", "#56606B"),
    "equivalent": ("P", "#0072B2"),
    "incomplete": ("X", "#CC79A7"),
    "refused": ("X", "#D55E00"),
}
_SEED_COLOUR = "#8A939C"
_STYLE: Any = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#E4E7EA",
    "axes.axisbelow": True,
    "pdf.fonttype": 42,
    "svg.hashsalt": "cqk",
    "savefig.dpi": 160,
}
Where = Mapping[str, Mapping[str, object]]


def differences(runs: pd.DataFrame, rows: Sequence[Mapping[str, Any]], where: Where) -> Figure:
    """Draw a forest: one line per comparison with its two-sided interval, seeds and verdict.

    The small points are the treatment's runs minus the baseline's mean. A comparison without a
    difference keeps its line and says so; nothing is drawn at 0 in its place.
    """
    with matplotlib.rc_context(_STYLE):
        figure, axes = _canvas(height=1.1 + 0.55 * len(rows))
        axes.axvline(0, color="black", linewidth=1, zorder=1)
        for position, row in enumerate(rows):
            _forest_line(axes, position, row, _treatment_values(runs, row, where))
        axes.set_yticks(range(len(rows)), [str(row["comparison"]) for row in rows])
        axes.set_ylim(len(rows) - 0.4, -0.75)
        axes.set_xlabel(_difference_label(rows))
    return figure


def save(figure: Figure, stem: Path) -> list[Path]:
    """Write `stem`.pdf and `stem`.png, byte for byte the same for the same figure."""
    targets = [stem.with_suffix(".pdf"), stem.with_suffix(".png")]
    with matplotlib.rc_context(_STYLE):
        figure.savefig(
            targets[0], metadata={"CreationDate": None, "Creator": None, "Producer": None}
        )
        figure.savefig(targets[1], metadata={"Software": None})
    return targets


def _canvas(height: float) -> tuple[Figure, Any]:
    figure = Figure(figsize=(WIDTH_INCHES, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.add_subplot()


def _forest_line(axes: Any, position: int, row: Mapping[str, Any], values: Any) -> None:
    marker, colour = MARKERS[str(row["verdict"])]
    difference = wording.number(row["difference"])
    text = str(row["verdict"])
    if difference != difference:
        text += " (no difference to show)"
    else:
        seeds = [value - row["mean_baseline"] for value in values]
        axes.plot(seeds, [position + 0.22] * len(seeds), ".", color=_SEED_COLOUR, markersize=5)
        if not wording.missing(row["ci_low"]):
            axes.plot([row["ci_low"], row["ci_high"]], [position] * 2, color=colour, linewidth=2)
        axes.plot(difference, position, marker, color=colour, markersize=7)
    axes.annotate(
        text, (1, position), xycoords=("axes fraction", "data"), xytext=(-2, 9),
        textcoords="offset points", ha="right", va="center", color=colour, fontsize=8,
    )  # fmt: skip


def _treatment_values(runs: pd.DataFrame, row: Mapping[str, Any], where: Where) -> list[float]:
    chosen = (runs["arm"] == row["treatment"]) & (runs["metric"] == row["metric"])
    if not wording.missing(row["split"]):
        chosen &= runs["split"] == row["split"]
    for axis, value in where.get(str(row["comparison"]), {}).items():
        chosen &= runs[axis] == value
    return [float(value) for value in runs.loc[chosen, "value"].dropna()]


def _difference_label(rows: Sequence[Mapping[str, Any]]) -> str:
    metrics = sorted({str(row["metric"]) for row in rows})
    side = {str(row["alternative"]) for row in rows}
    better = {"less": "  (left of 0: lower)", "greater": "  (right of 0: higher)"}
    suffix = better.get(side.pop(), "") if len(side) == 1 else ""
    return f"difference in {', '.join(f'{m} ({wording.unit(m)})' for m in metrics)}{suffix}"
