"""A results folder or tidy tables in; rows, verdicts, tables, figures and a report out."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pandas as pd

from . import archive, cost, diagnostics, tables
from .compare import compare, simultaneous_intervals
from .freeze import Amendment, amendments
from .hygiene import known_flags, provenance
from .records import RunRecord, read_lines, read_plan, read_runs, write_atomically
from .report import write_report
from .report_context import DeclaredComparison, FamilyDeclaration, ReportContext
from .secondary import pooled_evidence
from .study import Study, load_study
from .table import from_records, load_runs, tidy
from .tuning import candidates, edge_notices, judged, tuning_notices
from .verdict import FLAGS, INCOMPLETE


@dataclass(frozen=True)
class Source:
    """What is analysed: the table, its study, and what is known of how the runs were made."""

    table: pd.DataFrame
    study: Study
    records: list[RunRecord]
    amendments: list[Amendment]
    run_counts: dict[str, int]
    notices: list[str]
    diagnostics: pd.DataFrame | None = None
    curves: pd.DataFrame | None = None


@dataclass(frozen=True)
class Analysis:
    """What an analysis found and where it lies."""

    comparisons: pd.DataFrame
    correction: str
    run_counts: dict[str, int]
    report: Path
    notices: list[str]

    @property
    def complete(self) -> bool:
        """Return whether every declared comparison has all its runs."""
        return not (self.comparisons["verdict"] == INCOMPLETE).any()

    def verdict_table(self) -> str:
        """Return the verdicts as an aligned table for a terminal."""
        return tables.verdict_table(self.comparisons, self.correction)


def analyze(
    paths: Sequence[Path],
    *,
    family: Path | None = None,
    out: Path | None = None,
    metric: str | None = None,
    split: str | None = None,
    figures: bool = True,
) -> Analysis:
    """Analyse a results folder, or tables with a declared family, and write what was found.

    A results folder is judged by the study frozen in it and receives runs.csv, comparisons.csv and
    the report, unless ``out`` names another folder; the files read are never changed.

    Raises:
        ValueError: An input is missing, broken or contradictory; the message names file and remedy.
    """
    source, home = _source(paths, family, metric or None)
    if len(source.table) == 0:
        raise ValueError(f"{paths[0]}: no run is over yet; start `cqk run`, or see `cqk status`")
    flags = known_flags(source.study, source.table, source.records, source.amendments)
    rows = compare(source.table, source.study, metric=metric, split=split, flags=flags)
    shown_runs = judged(source.table, source.table, source.study)
    target = out or home
    target.mkdir(parents=True, exist_ok=True)
    write_atomically(target / "runs.csv", source.table.to_csv(index=False))
    write_atomically(target / "comparisons.csv", rows.to_csv(index=False))
    if target == home and (home / "runs").is_dir():
        archive.pack(home, source.records)
    if source.diagnostics is not None:
        diagnostics.write(target / diagnostics.FILE, source.diagnostics)
    source.notices.extend(tuning_notices(source.study))
    if source.study.tuned:
        chosen = candidates(source.table, source.study)
        source.notices.extend(edge_notices(chosen, source.study))
        write_atomically(target / "tuning.csv", chosen.to_csv(index=False))
    pooled = pooled_evidence(shown_runs, rows, source.study)
    if pooled is not None:
        write_atomically(target / "pooled.csv", pooled.to_csv(index=False))
    shown = pd.concat([rows, simultaneous_intervals(rows)], axis="columns")
    named = {"welch": "Welch", "paired_t": "paired"}
    tests = {c.name: named[c.test] for c in source.study.declared_comparisons() if c.test}
    shown["test"] = shown["comparison"].map(tests)
    context = _context(source, pooled)
    report = write_report(target, shown_runs, shown, context, figures=figures)
    correction = source.study.family.correction
    return Analysis(rows, correction, source.run_counts, report, source.notices)


def _source(paths: Sequence[Path], family: Path | None, metric: str | None) -> tuple[Source, Path]:
    first = paths[0]
    for path in paths:
        if not path.exists():
            raise ValueError(f"{path}: does not exist; give a results folder or tidy tables")
    if not first.is_dir():
        return _tables(paths, family, metric), Path(f"{first.stem}-report")
    if len(paths) > 1:
        raise ValueError(f"{first}: give one results folder at a time, or tables only")
    if family is not None:
        raise ValueError(
            f"{first}: is judged by the family frozen in its study.toml; --family is for tables"
        )
    with archive.unpacked(first) as archived:
        return _results(first, archived), first


def _tables(paths: Sequence[Path], family: Path | None, metric: str | None) -> Source:
    if family is None:
        raise ValueError(
            f"{paths[0]}: a table declares no comparisons; give --family FILE, a study file with "
            "[family] and, for a verdict of more than suggestive, [seeds]"
        )
    study = load_study(family)
    wanted = metric or study.family.metric
    axes = list(study.grid)
    parts = [load_runs(path, wanted, axes) for path in paths]
    notices = [notice for part in parts for notice in part.attrs.pop("notices", [])]
    table = pd.concat(parts, ignore_index=True)
    if len(paths) > 1:
        table = tidy(table, ", ".join(map(str, paths)), wanted, axes)
    runs = table.drop_duplicates([c for c in ("arm", "seed", *study.grid) if c in table])
    if "split" not in table:
        notices.append("The table names no split; its rows are taken as one.")
    return Source(table, study, [], [], _counts(runs["status"]), notices)


def _results(folder: Path, archived: Path | None) -> Source:
    runs = archived or folder / "runs"
    if not (folder / "study.toml").exists() or not runs.is_dir():
        table = load_runs(folder)  # says what is wrong with the folder, or reads its runs.csv
        study = load_study(folder / "study.toml")
        rows = table.drop_duplicates("run_id") if "run_id" in table else table
        notice = "The runs' own folders are not here; the table runs.csv was read instead."
        counts = _counts(rows["status"])
        heads = diagnostics.load(folder / diagnostics.FILE, list(study.grid))
        return Source(table, study, [], amendments(folder), counts, [notice], heads)
    study = load_study(folder / "study.toml")
    records = read_runs(folder, study.study.name, archived)
    plan = read_plan(folder)
    notices = []
    if plan:
        present = sum((p / "spec.json").exists() for p in runs.iterdir())
        if present > len(records):
            notices.append(
                f"{present - len(records)} run folders belong to an earlier plan and are set aside."
            )
    statuses = pd.Series([record.status for record in records], dtype=object)
    counts = _counts(statuses.where(statuses.isin(["done", "diverged", "failed"]), "missing"))
    if plan:
        counts["missing"] += len(plan.runs) - len(records)
    table = from_records(records, study)
    heads = diagnostics.from_records(records, list(study.grid))
    if study.train is not None and study.train.diagnostics:
        notices.extend(diagnostics.silent(records, heads))
    curves = _curves(records)
    return Source(table, study, records, amendments(folder), counts, notices, heads, curves)


def _counts(statuses: pd.Series[Any]) -> dict[str, int]:
    names = ("done", "diverged", "failed", "missing")
    return {name: int((statuses == name).sum()) for name in names}


def _context(source: Source, pooled: pd.DataFrame | None) -> ReportContext:
    study, declared = source.study, source.study.family
    return ReportContext(
        study=study.study.name,
        question=study.study.question,
        family=FamilyDeclaration(
            metric=declared.metric,
            split=declared.split,
            alternative=declared.alternative,
            alpha=declared.alpha,
            correction=declared.correction,
            family_size=study.family_size,
            replicate_on=declared.replicate_on,
            failed_runs=declared.failed_runs,
            comparisons=tuple(
                DeclaredComparison(**c.model_dump(exclude={"test"}))
                for c in study.declared_comparisons()
            ),
        ),
        study_sha256=study.sha256,
        family_sha256=study.family_sha256,
        version=_version(),
        run_counts=source.run_counts,
        flag_explanations={name: flag.sentence for name, flag in FLAGS.items()},
        amendments=[
            {"time": a.time, "reason": a.reason, "changed": "; ".join(a.changed)}
            for a in source.amendments
        ],
        provenance=provenance(source.records),
        notices=source.notices,
        pooled=[] if pooled is None else tables.records(pooled),
        curves=source.curves,
        diagnostics=source.diagnostics,
        costs=cost.from_records(source.records),
    )


def _curves(records: Sequence[RunRecord]) -> pd.DataFrame | None:
    rows = [
        {"run_id": r.spec.run_id, "arm": r.spec.arm, "seed": r.spec.seed, **line}
        for r in records
        for line in read_lines(r.folder / "metrics.jsonl")
    ]
    columns = ["run_id", "arm", "seed", "step", "tokens", "split", "metric", "value"]
    return pd.DataFrame(rows)[columns].astype({"value": float}) if rows else None


def _version() -> str:
    try:
        return version("cqk")
    except PackageNotFoundError:
        return "unreleased"


def as_json(analysis: Analysis) -> str:
    """Return the one JSON document that `cqk analyze --json` prints; missing numbers are null."""
    rows = [
        {name: _plain(value) for name, value in row.items()}
        for row in analysis.comparisons.astype(object).to_dict(orient="records")
    ]
    document = {"comparisons": rows, "runs": analysis.run_counts}
    return json.dumps(document, indent=1, allow_nan=False)


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
