"""Verdicts in words: what a report says of a comparison, and how a paper may word it.

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
from .verdict import FLAGS

_UNITS = {
    "loss": "nats per token",
    "ppl": "perplexity",
    "word_ppl": "perplexity per word",
    "bits_per_byte": "bits per byte",
    "accuracy": "fraction correct",
    "attention_relevant": "share of a head's attention",
    "attention_sink": "share of a head's attention",
    "entropy": "nats",
    "entropy_content": "nats",
    "entropy_sink": "nats",
}
_SIDES = {"less": "lower", "greater": "higher", "two-sided": "different"}


def unit(metric: str) -> str:
    """Return the unit of a metric, nothing when the metric is not one of ours.

    >>> unit("loss"), unit("bleu")
    ('nats per token', '')
    """
    return _UNITS.get(metric, "")


def flags(row: Row) -> tuple[str, ...]:
    """Return the flag names of one comparison, in the order in which they were raised.

    >>> flags({"flags": "normality;constant_arm"})
    ('normality', 'constant_arm')
    """
    text = "" if missing(row["flags"]) else str(row["flags"])
    return tuple(name.strip() for name in text.split(";") if name.strip())


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


def suggest(row: Row, correction: str = "bonferroni", held_out: Row | None = None) -> str:
    """Return a sentence that a paper can use, no stronger than the verdict allows.

    A supported comparison that was to be replicated says how the held-out split came out.
    """
    makers = {
        "supported": _supported,
        "suggestive": _suggestive,
        "not supported": _not_supported,
        "equivalent": _equivalent,
        "incomplete": _incomplete,
        "refused": _refused,
    }
    sentence = makers[str(row["verdict"])](row, correction)
    if row["verdict"] != "supported" or held_out is None:
        return sentence
    same = "also supported" if held_out["verdict"] == "supported" else str(held_out["verdict"])
    return (
        f"{sentence} On the held-out {held_out['split']} split it was {same} "
        f"({_amount(held_out)}, {_level(held_out)} CI {format_interval(held_out)}, "
        f"{p_is(held_out['p'], number(held_out['alpha']))})."
    )


def _quantity(row: Row) -> str:
    split = "" if missing(row["split"]) else f" on the {row['split']} split"
    return f"{row['metric']}{split}"


def _amount(row: Row) -> str:
    """Return the difference with its unit."""
    return f"{format_difference(row)} {unit(str(row['metric']))}".rstrip()


def _level(row: Row) -> str:
    return f"{100 * number(row['ci_level']):g}%"


def _measured(row: Row) -> str:
    if missing(row["difference"]):
        return (
            f"No difference in mean {_quantity(row)} can be stated: "
            f"{plural(row['n_treatment'], 'run')} of {row['treatment']} and "
            f"{count(row['n_baseline'])} of {row['baseline']} with a value."
        )
    percent = number(row["difference_percent"])
    relative = "" if math.isnan(percent) else f" ({_percent(percent)} of the baseline)"
    return (
        f"Mean {_quantity(row)}: {row['treatment']} "
        f"{format_mean(row['mean_treatment'], row['sd_treatment'], row['n_treatment'])}, "
        f"{row['baseline']} "
        f"{format_mean(row['mean_baseline'], row['sd_baseline'], row['n_baseline'])}. Difference "
        f"{_amount(row)}{relative}, two-sided {_level(row)} "
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
    test = _test(row)
    return (
        f"{test[:1].upper()}{test[1:]}, for a {_SIDES[str(row['alternative'])]} value: "
        f"t = {number(row['t']):.2f}, df = {number(row['df']):.1f}, "
        f"{p_is(row['p'], alpha)}{bound}. "
        f"Adjusted for {plural(row['family_size'], 'declared comparison')}: "
        f"{p_is(row['p_bonferroni'], alpha)} by Bonferroni, {p_is(row['p_holm'], alpha)} by Holm."
    )


def _test(row: Row) -> str:
    sided = "two-sided" if row["alternative"] == "two-sided" else "one-sided"
    return f"{row.get('test', 'Welch')} test, {sided}"


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


def _rests_on_normality(row: Row) -> bool:
    """Tell whether an exact permutation test could not have passed with so few seeds."""
    floor = number(row["permutation_floor"])
    few = min(number(row["n_treatment"]), number(row["n_baseline"])) <= 3
    return few or floor > number(row["alpha"]) / number(row["family_size"])


def _normality(row: Row) -> str:
    if not _rests_on_normality(row) or missing(row["permutation_floor"]):
        return ""
    floor = number(row["permutation_floor"])
    threshold = number(row["alpha"]) / number(row["family_size"])
    return (
        f"With {count(row['n_treatment'])} against {plural(row['n_baseline'], 'seed')} this rests "
        f"on normally distributed seeds: the smallest p that the exact permutation test can give "
        f"here is {floor:.4g} (1 in {1 / floor:.0f}), against a threshold of {threshold:.4g}."
    )


def _other_side(row: Row) -> bool:
    """Tell whether the interval lies wholly on the side that was not declared."""
    if row["alternative"] == "less":
        return number(row["ci_low"]) > 0
    return row["alternative"] == "greater" and number(row["ci_high"]) < 0


def _still_possible(row: Row) -> str:
    if missing(row["ci_low"]):
        return "This is not evidence that the two are equal."
    if _other_side(row):
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


def _seeds(row: Row) -> str:
    x, y = row["n_treatment"], row["n_baseline"]
    return f"{plural(x, 'seed')} per arm" if x == y else f"{count(x)} against {plural(y, 'seed')}"


def _evidence(row: Row, correction: str) -> str:
    return (
        f"mean difference {_amount(row)}, {_level(row)} CI "
        f"{format_interval(row)}; {_test(row)}, t({number(row['df']):.1f}) = "
        f"{number(row['t']):.2f}, {p_is(row['p'], number(row['alpha']))}; "
        f"{_corrected(row, correction)}; {_seeds(row)}"
    )


def _corrected(row: Row, correction: str) -> str:
    alpha, m = number(row["alpha"]), plural(row["family_size"], "declared comparison")
    if correction == "fixed_sequence":
        return f"{m} tested in the declared order until one fails"
    if correction == "dunnett":
        return f"judged by Dunnett's procedure over {m}"
    adjusted = p_is(row[f"p_{correction}"], alpha)
    return f"{adjusted} after {correction.capitalize()}'s correction for {m}"


def _supported(row: Row, correction: str) -> str:
    relation = {"less": "lower than", "greater": "higher than", "two-sided": "different from"}
    basis = "; this assumes normally distributed seeds" if _rests_on_normality(row) else ""
    return (
        f"The mean {_quantity(row)} of {row['treatment']} was {relation[str(row['alternative'])]} "
        f"that of {row['baseline']} ({_evidence(row, correction)}{basis})."
    )


def _suggestive(row: Row, correction: str) -> str:
    against = [name for name in flags(row) if name in FLAGS and FLAGS[name].effect == "blocks"]
    but = f"cannot count as support ({', '.join(against)})" if against else ""
    return (
        f"The mean {_quantity(row)} of {row['treatment']} was {_observed(row)} that of "
        f"{row['baseline']}, but this {but or 'does not survive the declared correction'} "
        f"({_evidence(row, correction)}); we take it as a lead to be tested on new seeds."
    )


def _observed(row: Row) -> str:
    return "lower than" if number(row["difference"]) < 0 else "higher than"


def _not_supported(row: Row, correction: str) -> str:
    relation = {"less": "lower for", "greater": "higher for", "two-sided": "different for"}
    limit = "the interval does not show that the two are equal"
    if _other_side(row):
        limit = "the interval lies on the other side, for which no test was declared"
    return (
        f"We found no support for the mean {_quantity(row)} being "
        f"{relation[str(row['alternative'])]} {row['treatment']} than for {row['baseline']} "
        f"({_evidence(row, correction)}); {limit}."
    )


def _equivalent(row: Row, _: str) -> str:
    return (
        f"The mean {_quantity(row)} of {row['treatment']} and of {row['baseline']} differed by "
        f"less than the margin declared beforehand (two one-sided tests; mean difference "
        f"{_amount(row)}, {_level(row)} CI "
        f"{format_interval(row)}; {_seeds(row)})."
    )


def _incomplete(row: Row, _: str) -> str:
    return (
        f"No claim can be made yet about {row['treatment']} against {row['baseline']}: of the "
        f"declared runs only {count(row['n_treatment'])} and {count(row['n_baseline'])} have a "
        f"value of {_quantity(row)}."
    )


def _refused(row: Row, _: str) -> str:
    reason = f" ({', '.join(flags(row))})" if flags(row) else ""
    return (
        f"No claim can be made about {row['treatment']} against {row['baseline']}: their "
        f"{_quantity(row)} does not allow a test{reason}."
    )
