"""Write what a study found: report.md, the tables and the figures, from rows that are complete.

Files are the same byte for byte for the same inputs: no clock, no host name, no random order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd

from . import tables, wording

Record = Mapping[str, object]


@dataclass(frozen=True, kw_only=True)
class DeclaredComparison:
    """One comparison of the family, as declared; `where` fixes grid axes (columns of runs.csv)."""

    name: str
    treatment: str
    baseline: str
    where: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class FamilyDeclaration:
    """The declared family: what is tested, on which side, at which level, over how many."""

    metric: str
    split: str
    alternative: str
    alpha: float
    correction: str
    family_size: int
    replicate_on: str | None
    failed_runs: str
    comparisons: tuple[DeclaredComparison, ...]


@dataclass(frozen=True, kw_only=True)
class ReportContext:
    """What a report says beside its rows: the declaration, its hashes, the runs and their origin.

    `run_counts` maps a status (done, diverged, failed, missing) to a number of runs;
    `flag_explanations` maps a flag to a sentence that ends in what it does to the verdict;
    `curves`, when given, has the columns run_id, arm, seed, step, tokens, split, metric, value.
    """

    study: str
    question: str
    family: FamilyDeclaration
    study_sha256: str
    family_sha256: str
    version: str
    run_counts: Mapping[str, int]
    flag_explanations: Mapping[str, str]
    amendments: Sequence[Record] = ()
    provenance: Sequence[Record] = ()
    notices: Sequence[str] = ()
    curves: pd.DataFrame | None = None


def write_report(
    out: Path,
    runs: pd.DataFrame,
    comparisons: pd.DataFrame,
    context: ReportContext,
    *,
    figures: bool = True,
) -> Path:
    """Write report.md with its figures into `out` and return the path of report.md."""
    out.mkdir(parents=True, exist_ok=True)
    files = _write_figures(out, runs, comparisons, context) if figures else []
    text = (
        _environment()
        .get_template("report.md.j2")
        .render(context=context, files=files, **_view(runs, comparisons, context))
    )
    target = out / "report.md"
    target.write_text(text, encoding="utf-8", newline="\n")
    return target


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
    return environment


def _view(runs: pd.DataFrame, comparisons: pd.DataFrame, context: ReportContext) -> dict[str, Any]:
    """Pick and word what the templates print; they only place it."""
    primary, replication = split_rows(comparisons, context.family)
    shown = pd.concat([primary, replication])
    return {
        "verdicts": tables.markdown(tables.VERDICT_HEADER, tables.verdict_rows(shown)),
        "paragraphs": _paragraphs(primary, replication, context.family.replicate_on),
        "flags": _flags(comparisons, context.flag_explanations),
        "unfinished": _unfinished(runs),
        "provenance": _provenance(context.provenance),
    }


def split_rows(
    comparisons: pd.DataFrame, family: FamilyDeclaration
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the rows of the declared metric on the declared split and on the held-out one."""
    metric = comparisons[comparisons["metric"] == family.metric]
    declared = metric["split"] == family.split
    if not family.split:
        declared = pd.Series(True, index=metric.index)
    return metric[declared], metric[metric["split"] == family.replicate_on]


def _paragraphs(
    primary: pd.DataFrame, replication: pd.DataFrame, held_out: str | None
) -> list[dict[str, str]]:
    replicated = {row["comparison"]: row for row in tables.records(replication)}
    return [
        {
            "name": str(row["comparison"]),
            "verdict": str(row["verdict"]),
            "text": wording.describe(row),
            "replication": wording.describe_replication(
                row, replicated.get(row["comparison"]), held_out
            )
            if held_out
            else "",
            "suggestion": wording.suggest(row),
        }
        for row in tables.records(primary)
    ]


def _flags(comparisons: pd.DataFrame, explanations: Mapping[str, str]) -> list[dict[str, str]]:
    found: dict[str, list[str]] = {}
    for row in tables.records(comparisons):
        for flag in wording.flags(row):
            place = f"{row['comparison']} ({row['metric']}, {row['split']})"
            found.setdefault(flag, []).append(place)
    return [
        {
            "name": flag,
            "text": explanations.get(flag, "no explanation is on file for this flag"),
            "places": "; ".join(places),
        }
        for flag, places in sorted(found.items())
    ]


def _unfinished(runs: pd.DataFrame) -> str:
    rows = runs[runs["status"] != "done"].drop_duplicates(["run_id", "arm", "seed"])
    columns = ["run_id", "arm", "preset", "seq_len", "seed", "status"]
    return _table(columns, tables.records(rows[columns].sort_values(["arm", "seed", "run_id"])))


def _provenance(rows: Sequence[Record]) -> str:
    columns = list(dict.fromkeys(key for row in rows for key in row))
    return _table(columns, rows)


def _table(columns: Sequence[str], rows: Sequence[Record]) -> str:
    if not rows:
        return ""
    cells = [[_cell(row.get(column)) for column in columns] for row in rows]
    return tables.markdown(columns, cells)


def _cell(value: object) -> str:
    if wording.missing(value):
        return wording.DASH
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _write_figures(
    out: Path, runs: pd.DataFrame, comparisons: pd.DataFrame, context: ReportContext
) -> list[str]:
    # Drawing is optional, and importing it costs more than everything else in a report.
    from . import figures

    (out / "figures").mkdir(exist_ok=True)
    primary, _ = split_rows(comparisons, context.family)
    where = {c.name: c.where for c in context.family.comparisons}
    if primary.empty:
        return []
    figure = figures.differences(runs, tables.records(primary), where)
    written = figures.save(figure, out / "figures" / "differences")
    return [path.relative_to(out).as_posix() for path in written]
