"""What a report says of a comparison: measured, tested, decided, replicated.

Every function takes rows of comparisons.csv (a mapping from column to value) and returns plain
text; escaping for Markdown, LaTeX or HTML is the business of whoever writes the file.
"""

from __future__ import annotations

import math

from .digits import (
    Row,
    count,
    decimals,
    format_difference,
    format_interval,
    format_mean,
    format_number,
    half_width,
    missing,
    number,
    p_is,
    plural,
)
from .phrases import amount, flags, level, on_other_side, quantity, rests_on_normality, test_name

_SIDES = {"less": "lower", "greater": "higher", "two-sided": "different"}


def describe(row: Row) -> str:
    """Return one comparison in full: what was measured, tested and decided, and its caution."""
    sentences = (_measured(row), _tested(row), _effect(row), _decided(row), _caution(row))
    return " ".join(sentence for sentence in sentences if sentence)


def replicate(row: Row, held_out: Row | None, split: str) -> str:
    """Return the declared comparison and its replication on the held-out split, side by side."""
    if held_out is None:
        return f"Replication on {split}: this comparison has no values on that split."
    results = [
        f"{name} {format_difference(r)} {format_interval(r)}, "
        f"{p_is(r['p'], number(r['alpha']))}, {r['verdict']}"
        for name, r in ((f"declared split {row['split']}:", row), (f"held-out {split}:", held_out))
    ]
    return f"Side by side, {'; '.join(results)}."


def _measured(row: Row) -> str:
    if missing(row["difference"]):
        return (
            f"No difference in mean {quantity(row)} can be stated: "
            f"{plural(row['n_treatment'], 'run')} of {row['treatment']} and "
            f"{count(row['n_baseline'])} of {row['baseline']} with a value."
        )
    percent = number(row["difference_percent"])
    relative = "" if math.isnan(percent) else f" ({_percent(percent)} of the baseline)"
    return (
        f"Mean {quantity(row)}: {row['treatment']} "
        f"{format_mean(row['mean_treatment'], row['sd_treatment'], row['n_treatment'])}, "
        f"{row['baseline']} "
        f"{format_mean(row['mean_baseline'], row['sd_baseline'], row['n_baseline'])}. Difference "
        f"{amount(row)}{relative}, two-sided {level(row)} "
        f"interval {format_interval(row)}."
    )


def _percent(percent: float) -> str:
    places = decimals(percent) if percent and math.isfinite(percent) else 0
    return f"{percent:+.{min(places, 9)}f}%"


def _tested(row: Row) -> str:
    if missing(row["p"]):
        return "There is no p value."
    alpha = number(row["alpha"])
    bound = ""
    if not missing(row["ci_one_sided"]):
        most = "at most" if row["alternative"] == "less" else "at least"
        bound = f", one-sided bound {most} {format_number(row['ci_one_sided'], half_width(row))}"
    test = test_name(row)
    return (
        f"{test[:1].upper()}{test[1:]}, for a {_SIDES[str(row['alternative'])]} value: "
        f"t = {number(row['t']):.2f}, df = {number(row['df']):.1f}, "
        f"{p_is(row['p'], alpha)}{bound}. "
        f"Adjusted for {plural(row['family_size'], 'declared comparison')}: "
        f"{p_is(row['p_bonferroni'], alpha)} by Bonferroni, {p_is(row['p_holm'], alpha)} by Holm."
    )


def _effect(row: Row) -> str:
    g = number(row["hedges_g"])
    if math.isnan(g):
        return ""
    low, high = number(row["g_low"]), number(row["g_high"])
    interval = "" if math.isnan(low) or math.isnan(high) else f" [{low:.2f}, {high:.2f}]"
    return f"Hedges g {g:.2f}{interval}."


def _decided(row: Row) -> str:
    raised = flags(row)
    because = f" (flags: {', '.join(raised)})" if raised else ""
    return f"Verdict: {row['verdict']}{because}."


def _caution(row: Row) -> str:
    if row["verdict"] == "supported":
        return _normality(row)
    if row["verdict"] == "not supported":
        return _still_possible(row)
    if row["verdict"] == "incomplete" and not missing(row["p"]):
        return "The figures above leave out declared runs and decide nothing."
    return ""


def _normality(row: Row) -> str:
    if not rests_on_normality(row) or missing(row["permutation_floor"]):
        return ""
    floor = number(row["permutation_floor"])
    threshold = number(row["alpha"]) / number(row["family_size"])
    return (
        f"With {count(row['n_treatment'])} against {plural(row['n_baseline'], 'seed')} this rests "
        f"on normally distributed seeds: the smallest p that the exact permutation test can give "
        f"here is {floor:.4g} (1 in {1 / floor:.0f}), against a threshold of {threshold:.4g}."
    )


def _still_possible(row: Row) -> str:
    if missing(row["ci_low"]):
        return "This is not evidence that the two are equal."
    if on_other_side(row):
        return "The interval lies wholly on the other side, for which no test was declared."
    spread = half_width(row)
    text = (
        "This is not evidence that the two are equal: the interval allows differences from "
        f"{format_number(row['ci_low'], spread)} to {format_number(row['ci_high'], spread)}"
    )
    smallest = number(row["minimum_detectable"])
    if math.isnan(smallest):
        return f"{text}."
    return f"{text}, and the minimum detectable difference was {format_number(smallest, spread)}."
