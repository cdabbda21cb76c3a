"""What a design can detect: power, seeds needed, smallest difference; from numbers or a pilot."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from .pilot import SMALL_PILOT, plan_from_pilot, upper_sd
from .power import exact_power, minimum_detectable, power, seeds_needed
from .samples import samples
from .study import load_study
from .table import load_runs

Alternative = Literal["less", "greater", "two-sided"]
SEEDS_SHOWN = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 30)


def from_numbers(
    sd: float,
    sd_baseline: float | None = None,
    *,
    n: int | None = None,
    delta: float | None = None,
    target_power: float = 0.8,
    alpha: float = 0.05,
    family_size: int = 1,
    alternative: Alternative = "less",
) -> pd.DataFrame:
    """Return one row per number of seeds: smallest detectable difference, and power for ``delta``.

    ``power`` is the field's noncentral-t formula, optimistic for few seeds at a small alpha;
    ``exact_power`` integrates over the variances that will be seen.

    ``sd`` and ``sd_baseline`` are standard deviations over seeds, ``delta`` the true difference's
    size. Without ``n`` the rows are usual numbers of seeds, and those needed for ``delta``.

    >>> from_numbers(0.01, n=3, delta=0.03).round(3).to_dict("records")
    [{'seeds': 3, 'minimum_detectable': 0.025, 'power': 0.91, 'exact_power': 0.866}]
    """
    if family_size < 1:
        raise ValueError(f"a family holds at least one comparison; got {family_size}")
    share = alpha / family_size
    counts = [n] if n is not None else list(SEEDS_SHOWN)
    if n is None and delta is not None:
        needed = seeds_needed(delta, sd, sd_baseline, target_power, share, alternative)
        counts = sorted({*counts, needed})
    rows: list[dict[str, Any]] = []
    for count in counts:
        found = minimum_detectable(
            sd, count, sd_baseline, target_power=target_power, alpha=share, alternative=alternative
        )
        row: dict[str, Any] = {"seeds": count, "minimum_detectable": found}
        if delta is not None:
            sizes = (delta, sd, count, sd_baseline, None, share, alternative)
            row |= {"power": power(*sizes), "exact_power": exact_power(*sizes)}
        rows.append(row)
    return pd.DataFrame(rows)


def from_pilot(
    folder: Path,
    *,
    n: int | None = None,
    delta: float | None = None,
    target_power: float = 0.8,
    alpha: float | None = None,
    family_size: int | None = None,
    alternative: Alternative | None = None,
) -> tuple[pd.DataFrame, list[str]]:
    """Return one row per comparison of a pilot's results folder, and warnings.

    Each row holds the arms' deviations and the smallest difference that ``n`` seeds of each arm
    could detect, without ``n`` the pilot's own; with ``n`` that by the deviations' upper 80 %
    limits, too; for ``delta``, the seeds needed by both. Level, size and side of the family are
    the pilot's unless the planned study's are given. The pilot's own difference is never used:
    planning by it overstates the power.

    Raises:
        ValueError: The folder is no results folder, or a comparison lacks two runs per arm.
    """
    study = load_study(folder / "study.toml")
    family = study.family
    share = (family.alpha if alpha is None else alpha) / (family_size or study.family_size)
    side = alternative or family.alternative
    rows, smallest = [], np.inf
    for sample in samples(load_runs(folder), study, family.metric, family.split):
        arms = sample.treatment, sample.baseline
        own = min(map(len, arms))
        if own < 2:
            raise ValueError(
                f"{folder}: {sample.comparison.name!r} has an arm with fewer than two finished "
                "runs; a pilot needs two to show a spread"
            )
        spreads = [(float(np.std(arm, ddof=1)), len(arm)) for arm in arms]
        row = {
            "comparison": sample.comparison.name,
            **_detected(spreads, n, target_power, share, side),
        }
        if delta is not None:
            row |= _needed(spreads, delta, target_power, share, side)
        rows.append(row)
        smallest = min(smallest, own)
    return pd.DataFrame(rows), _warnings(smallest, delta, n)


def _detected(
    spreads: list[tuple[float, int]], n: int | None, target: float, share: float, side: Alternative
) -> dict[str, float]:
    """Return both deviations and what ``n`` seeds detect, or as many as there are."""
    (sd_x, n_x), (sd_y, n_y) = spreads
    row = {"sd_treatment": sd_x, "sd_baseline": sd_y}
    if n is None:
        return row | {
            "minimum_detectable": minimum_detectable(sd_x, n_x, sd_y, n_y, target, share, side)
        }
    upper_x, upper_y = (upper_sd(sd, count) for sd, count in spreads)
    return row | {
        "seeds": n,
        "minimum_detectable": minimum_detectable(sd_x, n, sd_y, n, target, share, side),
        "detectable_cautious": minimum_detectable(upper_x, n, upper_y, n, target, share, side),
    }


def _needed(
    spreads: list[tuple[float, int]], delta: float, target: float, share: float, side: Alternative
) -> dict[str, float]:
    (sd_x, n_x), (sd_y, n_y) = spreads
    plan = plan_from_pilot(delta, sd_x, n_x, sd_y, n_y, target, share, side)
    return {
        "seeds_needed": plan.seeds,
        "exact_power": plan.exact_power,
        "seeds_cautious": plan.seeds_cautious,
    }


def as_text(rows: pd.DataFrame) -> str:
    """Return the rows as an aligned table with four significant digits."""
    return rows.to_string(index=False, float_format=lambda value: f"{value:.4g}")


def _warnings(smallest: float, delta: float | None, n: int | None) -> list[str]:
    found = []
    if smallest < SMALL_PILOT:
        found.append(
            f"the pilot has arms of {smallest:.0f} runs, so its deviations are known only roughly; "
            "plan by the cautious columns, which take their upper 80 % limits"
        )
    if delta is None and n is None:
        found.append(
            "give --delta, the difference that would matter to you, for the seeds needed, or "
            "--seeds for what so many can detect"
        )
    return found
