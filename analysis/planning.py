"""What a design can detect: power, seeds needed, smallest difference; from numbers or a pilot."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from .power import (
    SMALL_PILOT,
    exact_power,
    minimum_detectable,
    plan_from_pilot,
    power,
    seeds_needed,
)
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
    folder: Path, *, delta: float | None = None, target_power: float = 0.8
) -> tuple[pd.DataFrame, list[str]]:
    """Return one row per comparison of a pilot's results folder, and warnings.

    Each row holds the arms' deviations, the smallest difference that the pilot itself could
    detect, and, for ``delta``, the seeds needed by the pilot's deviations and by their upper 80 %
    limits. The pilot's own difference is never used: planning by it overstates the power.

    Raises:
        ValueError: The folder is no results folder, or a comparison lacks two runs per arm.
    """
    study = load_study(folder / "study.toml")
    family = study.family
    share = family.alpha / study.family_size
    rows, smallest = [], np.inf
    for sample in samples(load_runs(folder), study, family.metric, family.split):
        n = min(len(sample.treatment), len(sample.baseline))
        if n < 2:
            raise ValueError(
                f"{folder}: {sample.comparison.name!r} has an arm with fewer than two finished "
                "runs; a pilot needs two to show a spread"
            )
        sd_x, sd_y = (float(np.std(a, ddof=1)) for a in (sample.treatment, sample.baseline))
        sizes = (sd_x, len(sample.treatment), sd_y, len(sample.baseline))
        row: dict[str, Any] = {
            "comparison": sample.comparison.name,
            "sd_treatment": sd_x,
            "sd_baseline": sd_y,
            "minimum_detectable": minimum_detectable(
                *sizes, target_power, share, family.alternative
            ),
        }
        if delta is not None:
            plan = plan_from_pilot(delta, *sizes, target_power, share, family.alternative)
            row |= {
                "seeds_needed": plan.seeds,
                "exact_power": plan.exact_power,
                "seeds_cautious": plan.seeds_cautious,
            }
        rows.append(row)
        smallest = min(smallest, n)
    return pd.DataFrame(rows), _warnings(smallest, delta)


def as_text(rows: pd.DataFrame) -> str:
    """Return the rows as an aligned table with four significant digits."""
    return rows.to_string(index=False, float_format=lambda value: f"{value:.4g}")


def _warnings(smallest: float, delta: float | None) -> list[str]:
    found = []
    if smallest < SMALL_PILOT:
        found.append(
            f"the pilot has arms of {smallest:.0f} runs, so its deviations are known only roughly; "
            "plan by seeds_cautious, which takes their upper 80 % limits"
        )
    if delta is None:
        found.append("give --delta, the difference that would matter to you, for the seeds needed")
    return found
