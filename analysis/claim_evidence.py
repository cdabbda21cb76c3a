"""What a claim's figures say: a test for each way to read them, or why there is none."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

from .claim import Claim
from .claim_boxes import Method, Recomputed
from .claim_kinds import counts, recomputed
from .compare import compare
from .degenerate import NoTestError
from .nearest import nearest
from .resample import permutation_floor
from .rounding import Printed
from .spread import SpreadKind
from .student import Alternative
from .study import load_study
from .table import load_runs

SPREADS: dict[SpreadKind, str] = {
    "sd": "the standard deviation",
    "se": "the standard error",
    "sd0": "the standard deviation with divisor n",
    "ci95_t": "half a 95 % interval by t",
    "ci95_z": "half a 95 % interval by the normal quantile",
}
SIDES: dict[Alternative, str] = {
    "two-sided": "two-sided",
    "less": "one-sided towards less",
    "greater": "one-sided towards greater",
}
_MOST_RUNS = 1000  # of so many the floor is near 1e-300


@dataclass(frozen=True)
class Reading:
    """One way to read what was printed, and the test that it gives."""

    name: str
    alternative: Alternative
    recomputed: Recomputed


@dataclass(frozen=True)
class Evidence:
    """What a claim's figures say: its readings, or why no test exists for them.

    ``floor`` is the smallest p that an exact test of so many runs can give; ``contradiction``
    says what no reading can mend. A results folder brings its own side, alpha and family size.
    """

    readings: tuple[Reading, ...] = ()
    refusal: str = ""
    floor: float = math.nan
    percent: float = math.nan
    percent_range: tuple[float, float] = (math.nan, math.nan)
    alternative: str = ""
    alpha: float | None = None
    family_size: int | None = None
    contradiction: str = ""


def evidence(claim: Claim, folder: Path) -> Evidence:
    """Return the evidence of a claim; ``folder`` is where the paths in it start.

    Raises:
        ValueError: A results folder is missing or does not hold the comparison.
    """
    if claim.kind == "results":
        return _results(claim, folder)
    if claim.kind == "percent":
        return _percent(claim)
    if claim.kind == "p_only":
        return Evidence(floor=exact_floor(claim, sides_of(claim)))
    missing = _missing(claim)
    if missing:
        return Evidence(refusal=missing)
    try:
        found = tuple(readings(claim, spreads_of(claim), sides_of(claim), claim.test))
    except NoTestError as error:
        return Evidence(refusal=str(error))
    return Evidence(
        found, floor=exact_floor(claim, sides_of(claim)), contradiction=_contradiction(claim)
    )


def readings(
    claim: Claim, spreads: list[SpreadKind], sides: list[Alternative], method: Method
) -> Iterator[Reading]:
    """Yield the test of every combination of spread kind and side; names tell several apart."""
    for spread, side in itertools.product(spreads, sides):
        parts = [f"± is {SPREADS[spread]}"] if len(spreads) > 1 else []
        parts += [SIDES[side]] if len(sides) > 1 else []
        yield Reading(", ".join(parts), side, recomputed(claim, spread, side, method))


def exact_floor(claim: Claim, sides: list[Alternative]) -> float:
    """Return the smallest exact p for the runs of a claim.

    NaN where their number is not stated, or so large that nothing rests on the floor.
    """
    n_x, n_y = counts(claim)
    if n_x is None or n_x < 1:
        return math.nan
    if claim.kind in ("one_sample", "paired"):
        side_count = 1 if any(side != "two-sided" for side in sides) else 2
        return side_count / 2**n_x if n_x <= _MOST_RUNS else math.nan
    if n_y is None or n_y < 1 or n_x + n_y > _MOST_RUNS:
        return math.nan
    return min(permutation_floor(n_x, n_y, side) for side in sides)


def spreads_of(claim: Claim) -> list[SpreadKind]:
    """Return the kinds of spread that the claim leaves open; raw values have none."""
    if claim.kind == "summary" or (claim.kind == "one_sample" and not claim.treatment):
        return [claim.spread_kind] if claim.spread_kind != "unknown" else list(SPREADS)
    return ["sd"]


def sides_of(claim: Claim) -> list[Alternative]:
    """Return the sides that the claim leaves open."""
    return [claim.alternative] if claim.alternative != "unknown" else list(get_args(Alternative))


def _missing(claim: Claim) -> str:
    """Return why the printed figures admit no test, if they do not."""
    n_x, n_y = counts(claim)
    if claim.kind == "t_df":
        known = claim.df is not None or (n_x is not None and n_x > 1)
        return "" if known else "neither degrees of freedom nor numbers of runs are printed"
    arms = [("treatment", n_x, claim.spread_treatment, bool(claim.treatment))]
    if claim.kind in ("summary", "values"):
        arms.append(("baseline", n_y, claim.spread_baseline, bool(claim.baseline)))
    for arm, n, spread, listed in arms:
        if n is None:
            return f"the number of runs of the {arm} is not printed"
        if n < 2:
            return f"the {arm} has {'one run' if n == 1 else 'no run'} and so no spread"
        if spread is None and not listed:
            return f"no spread of the {arm} is printed"
        if claim.kind == "one_sample" and not listed and claim.mean_treatment is None:
            return "neither a mean nor values are printed"
    return ""


def _percent(claim: Claim) -> Evidence:
    """Return the change from baseline to treatment in percent, and its range by rounding."""
    if claim.mean_treatment is None or claim.mean_baseline is None:
        return Evidence()
    new, old = Printed(claim.mean_treatment), Printed(claim.mean_baseline)
    if abs(old.value) <= old.half_unit:
        return Evidence(refusal="the baseline may be 0, of which nothing is a percentage")
    ends = [
        100 * ((new.value + i * new.half_unit) / (old.value + j * old.half_unit) - 1)
        for i, j in itertools.product((-1, 1), repeat=2)
    ]
    percent = 100 * (new.value / old.value - 1)
    return Evidence(percent=percent, percent_range=(min(ends), max(ends)))


def _results(claim: Claim, folder: Path) -> Evidence:
    """Return the comparison as the study frozen in the results folder judges it."""
    assert claim.results is not None
    place = folder / claim.results
    study = load_study(place / "study.toml")
    rows = compare(load_runs(place), study, split=study.family.split)
    names = rows["comparison"].tolist()
    if claim.comparison not in names:
        known = nearest(str(claim.comparison), names)
        raise ValueError(f"{place}: has no comparison {claim.comparison!r}; {known}")
    row = rows.iloc[names.index(claim.comparison)]
    side = study.family.alternative
    if claim.alternative not in ("unknown", side):
        raise ValueError(
            f"claim {claim.id!r}: is {claim.alternative}, but {place} declares {side}; a side is "
            "declared before the runs"
        )
    about = Evidence(
        alternative=side,
        alpha=study.family.alpha,
        family_size=study.family_size,
        floor=float(row["permutation_floor"]),
    )
    if math.isnan(row["p"]):
        return replace(about, refusal=f"the comparison is {row['verdict']} ({row['flags']})")
    p = float(row["p"])
    reading = Reading("", side, Recomputed(float(row["t"]), float(row["df"]), p, p, p))
    return replace(about, readings=(reading,))


def _contradiction(claim: Claim) -> str:
    """Return what is wrong with the printed degrees of freedom for so many runs."""
    n_x, n_y = counts(claim)
    if claim.kind != "t_df" or claim.df is None or n_x is None:
        return ""
    df = Printed(claim.df)
    low, high = (n_x - 1, n_x - 1) if n_y is None else (min(n_x, n_y) - 1, n_x + n_y - 2)
    if low - df.half_unit <= df.value <= high + df.half_unit:
        return ""
    expected = f"{high}" if low == high else f"{low} to {high}"
    runs = f"{n_x} runs" if n_y is None else f"{n_x} and {n_y} runs"
    return f"df {expected} is expected of {runs}, and df {claim.df} is printed"
