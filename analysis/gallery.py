"""Which figures a study gets, from which rows, and the caption that says what is not drawn."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from . import anatomy_plates, curve_plates, figures, points, tables
from .plate import Plate

_OWN_FILE = re.compile(
    r"(differences|grid|seeds|p_ladder|gain_by_size|gain_by_length|by_distance|family"
    r"|curves|curve_differences|(coupling|participation|rank|entropy)_(by_layer|over_training))(-\d+)?\.(pdf|png|csv)"
)


@dataclass(frozen=True)
class Drawn:
    """One figure of a report: the name of its files, what it shows, and its SVG text.

    ``section`` is as the plate's; ``kinds`` are the endings of its files.
    """

    name: str
    title: str
    caption: str
    svg: bytes
    section: str = ""
    kinds: tuple[str, ...] = ("pdf", "png")


@dataclass(frozen=True, kw_only=True)
class Material:
    """The rows that figures are drawn from; `declared` are the family's own among `comparisons`.

    `runs` has the column `cell`, `summary` comes from points.arm_summary, `splits` are the
    declared and the held-out one, and `curves` and `heads`, of anatomy.per_run, may be None.
    """

    runs: pd.DataFrame
    comparisons: pd.DataFrame
    declared: pd.DataFrame
    summary: pd.DataFrame
    where: points.Where
    splits: tuple[str, ...]
    curves: pd.DataFrame | None
    heads: pd.DataFrame | None = None

    @property
    def metric(self) -> str:
        """Return the family's metric."""
        return str(self.declared["metric"].iloc[0])

    @property
    def logged(self) -> pd.DataFrame:
        """Return the curves of the family's metric with the cell of each run, empty without any."""
        if self.curves is None:
            return pd.DataFrame(columns=["run_id"])
        return curve_plates.logged_curves(self.runs, self.curves, self.metric)


def draw(folder: Path, material: Material) -> list[Drawn]:
    """Draw every figure that the material allows and write it as PDF and PNG into `folder`.

    Figures that an earlier report left there are removed, so that none contradicts this one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        if _OWN_FILE.fullmatch(old.name):
            old.unlink()
    drawn: list[Drawn] = []
    for planned in _plan(material):
        for number, figure in enumerate(planned.pages, start=1):
            stem = planned.name if number == 1 else f"{planned.name}-{number}"
            part = f" ({number} of {len(planned.pages)})" if len(planned.pages) > 1 else ""
            svg = figures.save(figure, folder / stem)
            kinds: tuple[str, ...] = ("pdf", "png")
            if planned.data is not None and number == 1:
                _write_data(folder / f"{stem}.csv", planned.data)
                kinds = (*kinds, "csv")
            title = planned.title + part
            drawn.append(Drawn(stem, title, planned.caption, svg, planned.section, kinds))
    return drawn


def _write_data(path: Path, rows: pd.DataFrame) -> None:
    """Write the rows of a figure to six digits, which is more than a figure shows."""
    text = rows.to_csv(index=False, lineterminator="\n", float_format="%.6g")
    path.write_text(text, encoding="utf-8", newline="\n")


def _plan(material: Material) -> list[Plate]:
    if material.declared.empty:
        return []
    makers = (
        *(_differences, _grid, _seeds, _p_ladder, _gain_by_size, _gain_by_length),
        *(_by_distance, _curves, _curve_differences, _family),
    )
    planned = [plate for maker in makers if (plate := maker(material))]
    return planned + ([] if material.heads is None else anatomy_plates.plates(material.heads))


def _differences(material: Material) -> Plate:
    declared = material.declared
    thin = ""
    if "ci_simultaneous_low" in declared:
        thin = "Thin lines: intervals that hold for the whole family at once. "
    return Plate(
        "differences",
        "Differences",
        f"Difference of means with its two-sided {100 * declared['ci_level'].iloc[0]:g}% interval; "
        f"small points: the treatment's seeds minus the baseline's mean. {thin}{_absent(material)}",
        figures.differences(
            tables.records(declared), points.seed_points(material.runs, declared, material.where)
        ),
    )


def _grid(material: Material) -> Plate | None:
    rows, axes = points.grid_points(material.declared, material.where)
    if len(axes) < 2:
        return None
    return Plate(
        "grid",
        "Differences over the grid",
        "Difference of means in each cell of the grid, with its verdict; a thick frame marks a "
        "supported one, the sign says on which side. One colour scale for all panels.",
        figures.grid_map(tables.records(rows), axes),
    )


def _by_distance(material: Material) -> Plate | None:
    split = material.splits[0]
    rows = points.by_distance(material.summary, material.metric, split)
    if rows.empty:
        return None
    chance = points.of_metric(material.summary, f"{material.metric}_chance_in_row", split)
    return Plate(
        "by_distance",
        f"{material.metric.capitalize()} against distance",
        "Mean over seeds; a point is of the answers that stood so far back, up to twice as far. "
        "Dotted: guessing among what the row itself holds.",
        figures.by_distance(rows, chance, material.metric),
    )


def _seeds(material: Material) -> Plate:
    runs, summary = (
        frame[(frame["metric"] == material.metric) & frame["split"].isin(material.splits)]
        for frame in (material.runs, material.summary)
    )
    return Plate(
        "seeds",
        "Seeds per arm",
        "Small points: runs; diamond and line: their mean and its two-sided 95% t interval. Every "
        f"panel has an axis of its own. {_absent(material)}",
        figures.seeds(runs, summary, material.metric),
    )


def _p_ladder(material: Material) -> Plate | None:
    if material.declared["p"].isna().all():
        return None
    return Plate(
        "p_ladder",
        "p values against the corrected levels",
        "Sorted p values and the levels they had to reach. The levels count every declared "
        "comparison, also one without a p.",
        figures.p_ladder(tables.records(material.declared)),
    )


def _gain_by_size(material: Material) -> Plate | None:
    return _gain(material, "params", "size", "parameters of the baseline")


def _gain_by_length(material: Material) -> Plate | None:
    return _gain(material, "seq_len", "length", "sequence length in tokens")


def _gain(material: Material, column: str, against: str, label: str) -> Plate | None:
    rows = points.gain_points(material.runs, material.declared, material.where, column)
    if rows.empty:
        return None
    return Plate(
        f"gain_by_{against}",
        f"Difference against {against}",
        "Difference of means with its two-sided interval; lines are set apart sideways by a hair.",
        figures.gain(rows, label),
    )


def _curves(material: Material) -> Plate | None:
    return curve_plates.of_arms(material.logged, material.metric)


def _curve_differences(material: Material) -> Plate | None:
    return curve_plates.of_pairs(
        material.logged, material.runs, material.declared, material.where, material.metric
    )


def _family(material: Material) -> Plate:
    rest = material.comparisons.drop(index=material.declared.index)
    return Plate(
        "family",
        "The family at a glance",
        "Verdicts on every metric and split; the first column is the declared one, which decides.",
        figures.family(pd.concat([material.declared, rest])),
    )


def _absent(material: Material) -> str:
    """Say how many runs have no value on the declared metric and split, and so no point."""
    summary = material.summary
    here = (summary["metric"] == material.metric) & (summary["split"] == material.splits[0])
    absent = int((summary["runs"] - summary["n"])[here].sum())
    if not absent:
        return "Every run is drawn."
    return f"{absent} run{'s' if absent > 1 else ''} without a value cannot be drawn."
