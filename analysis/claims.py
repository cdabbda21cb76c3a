"""Published claims: read from TOML or CSV, recomputed, and judged against what was printed.

Each claim has one kind of evidence (see ``claim.Claim``) and states a p, a survival or a change.
"""

from __future__ import annotations

import csv
import json
import math
import tomllib
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from . import tables
from .claim import Claim
from .claim_evidence import evidence
from .claim_rule import INCONSISTENT, VERDICTS, judge
from .claim_wording import why
from .digits import missing, plural
from .nearest import nearest
from .study_errors import sentences

__all__ = ["COLUMNS", "INCONSISTENT", "Claim", "as_json", "as_text", "check_claims", "load_claims"]

COLUMNS = [
    *("id", "text", "source", "kind", "alternative", "claimed_p", "claimed_percent"),
    *("alpha", "family_size", "claimed_survives", "t", "df", "p", "p_min", "p_max"),
    *("percent", "largest_family", "exact_floor", "reading", "verdict", "why"),
]
# Columns of a CSV file that say nothing about the claim itself.
_NOTES = ("expected_verdict", "notes")


class _ClaimFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    claims: Annotated[list[Claim], Field(min_length=1)]


def check_claims(path: str | Path) -> pd.DataFrame:
    """Return one row per claim: recomputed figures, verdict, and why in one sentence.

    Raises:
        ValueError: The file, or a results folder it names, is missing or broken; the message names
            the line or row and the remedy.

    The idea is statcheck's: M. B. Nuijten et al., "The Prevalence of Statistical Reporting Errors
    in Psychology", 2016, https://doi.org/10.3758/s13428-015-0664-2.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "claims.csv")
    ...     _ = file.write_text("id,kind,t,df,claimed_p\\na,t_df,1.85,8,0.102\\n")
    ...     checked = check_claims(file)
    >>> checked.loc[0, "why"]
    'it holds if two-sided; it fails if one-sided towards less or one-sided towards greater'
    """
    path = Path(path)
    rows = [_checked(claim, path.parent) for claim in load_claims(path)]
    whole = {"family_size": "Int64", "largest_family": "Int64"}
    return pd.DataFrame(rows, columns=COLUMNS).astype(whole)


def load_claims(path: str | Path) -> list[Claim]:
    """Read and validate a file of claims, TOML (``[[claims]]``) or CSV.

    Raises:
        ValueError: One sentence for each fault, with its line or row.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror}); give a claims file") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path}: is not UTF-8 text") from None
    claims = _from_csv(text, path) if path.suffix.lower() == ".csv" else _from_toml(text, path)
    twice = [name for name, times in Counter(claim.id for claim in claims).items() if times > 1]
    if twice:
        raise ValueError(f"{path}: the id {twice[0]!r} is there twice; ids tell claims apart")
    return claims


def _from_toml(text: str, path: Path) -> list[Claim]:
    try:
        document = tomllib.loads(text, parse_float=str)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ValueError(f"{path}: is no valid TOML: {error}") from None
    try:
        return _ClaimFile.model_validate(document).claims
    except ValidationError as error:
        raise ValueError(
            "\n".join(sentences(error, _ClaimFile, document, text, str(path)))
        ) from None


def _from_csv(text: str, path: Path) -> list[Claim]:
    reader = csv.DictReader(text.splitlines(keepends=True), strict=True)
    claims, faults = [], []
    try:
        for column in map(str.strip, reader.fieldnames or ()):
            if column not in (*Claim.model_fields, *_NOTES):
                known = nearest(column, list(Claim.model_fields))
                raise ValueError(f"{path}: unknown column {column!r}; {known}")
        for row in reader:
            if None in row or None in row.values():
                raise ValueError(f"{path}: row {reader.line_num} is not as long as the header")
            stated = {k.strip(): v for k, v in row.items() if v.strip() and k not in _NOTES}
            try:
                claims.append(Claim.model_validate(stated))
            except ValidationError as error:
                faults += sentences(error, Claim, stated, "", f"{path}: row {reader.line_num}")
    except csv.Error as error:
        raise ValueError(f"{path}: row {reader.line_num}: is no CSV: {error}") from None
    if faults:
        raise ValueError("\n".join(faults))
    if not claims:
        raise ValueError(f"{path}: holds no claim; a CSV file has a header and a row for each")
    return claims


def _checked(claim: Claim, folder: Path) -> dict[str, Any]:
    found = evidence(claim, folder)
    judgement = judge(claim, found)
    stated = claim.model_dump(include=set(COLUMNS))
    shown = judgement.shown
    figures = {name: getattr(shown, name, math.nan) for name in ("t", "df", "p", "p_min", "p_max")}
    return {
        **stated,
        "alternative": found.alternative or claim.alternative,
        "family_size": found.family_size or claim.family_size,
        "alpha": found.alpha or claim.alpha,
        **figures,
        "percent": found.percent,
        "largest_family": judgement.largest_family,
        "exact_floor": found.floor,
        "reading": "; ".join(reading.name for reading in judgement.fitting if reading.name),
        "verdict": judgement.verdict,
        "why": why(claim, found, judgement),
    }


def as_json(checked: pd.DataFrame) -> str:
    """Return the one JSON document that `cqk check --json` prints; missing figures are null."""
    rows = checked.astype(object).where(checked.notna(), None)
    return json.dumps({"claims": tables.records(rows)}, indent=1, allow_nan=False)


def as_text(checked: pd.DataFrame) -> str:
    """Return the verdicts as an aligned table, the reason under each, and their count."""
    header = ("claim", "verdict", "claimed", "recomputed p", "largest family")
    lines = tables.plain(
        tables.Table(header, tuple(_cells(row) for row in tables.records(checked)))
    ).splitlines()
    for place, reason in reversed(list(enumerate(checked["why"]))):
        lines.insert(place + 3, f"    {reason}")
    counts = checked["verdict"].value_counts()
    said = ", ".join(f"{counts[name]} {name}" for name in VERDICTS if name in counts)
    return "\n".join([*lines, f"\n{plural(len(checked), 'claim')}: {said}"])


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    claimed = row["claimed_p"]
    if missing(claimed) and not missing(row["claimed_percent"]):
        claimed = f"{row['claimed_percent']} %"
    low, high = (f"{row[name]:.3g}" for name in ("p_min", "p_max"))
    known = not math.isnan(row["p_min"])
    return (
        row["id"],
        row["verdict"],
        tables.cell(claimed),
        (low if low == high else f"{low} to {high}") if known else tables.cell(None),
        tables.cell(row["largest_family"]),
    )
