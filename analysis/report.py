"""Write what a study found: report.md, report.html, tables and figures.

The files are the same byte for byte for the same inputs: no clock, no path, no random order.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
import pandas as pd

from . import anatomy, cost, diagnostics, points, tables
from .phrases import flags
from .report_context import FamilyDeclaration, Record, ReportContext
from .suggest import suggest
from .wording import describe, replicate

if TYPE_CHECKING:
    from .gallery import Drawn


def write_report(
    out: Path,
    runs: pd.DataFrame,
    comparisons: pd.DataFrame,
    context: ReportContext,
    *,
    figures: bool = True,
) -> Path:
    """Write report.md, report.html, tables/ and figures/ into `out`; return report.md's path.

    `runs` and `comparisons` have the columns of runs.csv and comparisons.csv; these two files are
    the caller's and are linked when they lie in `out`.
    """
    out.mkdir(parents=True, exist_ok=True)
    runs, comparisons = (points.completed(f, context.family.split) for f in (runs, comparisons))
    family = _analysed(comparisons, context.family)
    runs = points.with_cell(runs, points.cell_axes(runs, family.where))
    summary = points.arm_summary(runs)
    arms = tables.arm_means(points.whole(summary), points.beaten(runs, comparisons, family.where))
    rows = split_rows(comparisons, family)
    written = _write_tables(out / "tables", arms, summary, *rows, family)
    heads = anatomy.per_run(context.diagnostics, runs)
    of_heads, more = _heads(out / "tables", heads)
    written += more
    costs, more = _costs(out / "tables", context.costs, runs, family)
    written += more
    folder = out / "figures"
    drawn = _draw(folder, runs, comparisons, summary, family, context, heads) if figures else []
    view = {
        **_view(runs, comparisons, family, context),
        "arms": arms,
        "heads": of_heads,
        "heads_introduction": anatomy.INTRODUCTION,
        "costs": costs,
        "costs_introduction": cost.INTRODUCTION,
        "figures": [_figure(figure) for figure in drawn],
        "files": _links(out, written, drawn),
        "context": context,
    }
    for name in ("report.html", "report.md"):
        text = _environment().get_template(f"{name}.j2").render(view)
        (out / name).write_text(text, encoding="utf-8", newline="\n")
    return out / "report.md"


def split_rows(
    comparisons: pd.DataFrame, family: FamilyDeclaration
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the rows of the declared metric on the declared split and on the held-out one."""
    rows = comparisons[comparisons["metric"] == family.metric]
    return rows[rows["split"] == family.split], rows[rows["split"] == family.replicate_on]


def _analysed(comparisons: pd.DataFrame, family: FamilyDeclaration) -> FamilyDeclaration:
    """Return the family with the metric and split of the rows, if none is of the declared ones."""
    declared, _ = split_rows(comparisons, family)
    if comparisons.empty or not declared.empty:
        return family
    metric, split = comparisons[["metric", "split"]].iloc[0]
    held_out = family.replicate_on if split == family.split else None
    return replace(family, metric=metric, split=split, replicate_on=held_out)


def _notices(family: FamilyDeclaration, context: ReportContext) -> list[str]:
    declared, analysed = (tables.place_label(f.metric, f.split) for f in (context.family, family))
    if declared == analysed:
        return list(context.notices)
    undeclared = (
        f"Analysed here is {analysed}, but {declared} was declared: these results are exploratory, "
        "whatever their verdicts say."
    )
    return [undeclared, *context.notices]


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=lambda name: bool(name) and str(name).endswith(".html.j2"),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["md"] = lambda value: tables.escape_markdown(str(value))
    environment.filters["table"] = tables.markdown
    return environment


def _view(
    runs: pd.DataFrame, comparisons: pd.DataFrame, family: FamilyDeclaration, context: ReportContext
) -> dict[str, Any]:
    """Pick and word what the templates place."""
    declared, held_out = split_rows(comparisons, family)
    both = tables.side_by_side(declared, held_out, family.splits) if family.replicate_on else None
    broken = points.unfinished(runs)
    return {
        "verdicts": tables.verdicts(declared, family.correction),
        "replication": both,
        "everything": tables.full(comparisons),
        "paragraphs": _paragraphs(declared, held_out, family),
        "notices": _notices(family, context),
        "flags": _flags(comparisons, context.flag_explanations),
        "unfinished": None if broken.empty else tables.full(broken),
        "provenance": _records_table(context.provenance),
        "pooled": _records_table(context.pooled),
    }


def _paragraphs(
    declared: pd.DataFrame, held_out: pd.DataFrame, family: FamilyDeclaration
) -> list[dict[str, str]]:
    replicated = {row["comparison"]: row for row in tables.records(held_out)}
    return [
        {
            "name": str(row["comparison"]),
            "verdict": str(row["verdict"]),
            "text": describe(row),
            "replication": replicate(row, replicated.get(row["comparison"]), family.replicate_on)
            if family.replicate_on
            else "",
            "suggestion": suggest(row, family.correction, replicated.get(row["comparison"])),
        }
        for row in tables.records(declared)
    ]


def _flags(comparisons: pd.DataFrame, explanations: Mapping[str, str]) -> list[dict[str, str]]:
    """Return each raised flag with its explanation and the comparisons that raised it."""
    found: dict[str, dict[str, list[str]]] = {}
    for row in tables.records(comparisons):
        for flag in flags(row):
            place = f"{row['metric']} on {row['split']}" if row["split"] else str(row["metric"])
            found.setdefault(flag, {}).setdefault(str(row["comparison"]), []).append(place)
    return [
        {
            "name": flag,
            "text": explanations.get(flag, "This flag has no explanation on file."),
            "places": "; ".join(f"{name} ({', '.join(where)})" for name, where in places.items()),
        }
        for flag, places in sorted(found.items())
    ]


def _records_table(rows: Sequence[Record]) -> tables.Table | None:
    return tables.full(pd.DataFrame(list(rows), dtype=object)) if rows else None


def _write_tables(
    folder: Path,
    arms: tables.Table,
    summary: pd.DataFrame,
    declared: pd.DataFrame,
    held_out: pd.DataFrame,
    family: FamilyDeclaration,
) -> list[Path]:
    folder.mkdir(exist_ok=True)
    verdicts = tables.verdicts(declared, family.correction)
    written = tables.write(folder / "verdicts", verdicts, declared)
    written += tables.write(folder / "arms", arms, summary)
    if family.replicate_on:
        both = pd.concat([declared, held_out])
        table = tables.side_by_side(declared, held_out, family.splits)
        written += tables.write(folder / "replication", table, both)
    return written


def _heads(folder: Path, heads: pd.DataFrame | None) -> tuple[tables.Table | None, list[Path]]:
    """Write the table of what the heads do; return it with its files, or nothing at all."""
    if heads is None:
        return None, []
    rows = anatomy.summary(heads)
    table = anatomy.table(rows)
    return table, tables.write(folder / "heads", table, rows)


def _costs(
    folder: Path, costs: pd.DataFrame | None, runs: pd.DataFrame, family: FamilyDeclaration
) -> tuple[tables.Table | None, list[Path]]:
    """Write the table of what treatments cost; return it with its files, or nothing at all."""
    if costs is None:
        return None, []
    rows = cost.ratios(costs, runs, [(c.treatment, c.baseline) for c in family.comparisons])
    if rows.empty:
        return None, []
    table = cost.table(rows)
    return table, tables.write(folder / "cost", table, rows)


def _draw(
    folder: Path,
    runs: pd.DataFrame,
    comparisons: pd.DataFrame,
    summary: pd.DataFrame,
    family: FamilyDeclaration,
    context: ReportContext,
    heads: pd.DataFrame | None,
) -> list[Drawn]:
    # Importing what draws costs more than the rest of a report, so only a drawn report pays.
    from . import gallery

    material = gallery.Material(
        runs=runs,
        comparisons=comparisons,
        declared=split_rows(comparisons, family)[0],
        summary=summary,
        where=family.where,
        splits=family.splits,
        curves=context.curves,
        heads=heads,
    )
    return gallery.draw(folder, material)


def _figure(drawn: Drawn) -> dict[str, str]:
    data = base64.b64encode(drawn.svg).decode("ascii")
    return {
        "name": drawn.name,
        "title": drawn.title,
        "caption": drawn.caption,
        "section": drawn.section,
        "source": f"data:image/svg+xml;base64,{data}",
    }


def _links(out: Path, written: Sequence[Path], drawn: Sequence[Drawn]) -> list[str]:
    """Return the report's files, relative to its folder and without naming absent ones."""
    names = ("runs.csv", "comparisons.csv", diagnostics.FILE)
    own = [name for name in names if (out / name).exists()]
    figures = [f"figures/{figure.name}.{kind}" for figure in drawn for kind in figure.kinds]
    return [*own, "report.html", *(path.relative_to(out).as_posix() for path in written), *figures]
