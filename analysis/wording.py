"""Numbers and verdicts in words: what a report prints and how a paper may say it.

Every function takes one row of comparisons.csv (a mapping from column to value) and returns plain
text; escaping for Markdown, LaTeX or HTML is the business of whoever writes the file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

DASH = "–"
Row = Mapping[str, Any]

_UNITS = {
    "loss": "nats per token",
    "ppl": "perplexity",
    "word_ppl": "perplexity per word",
    "bits_per_byte": "bits per byte",
    "accuracy": "accuracy (fraction correct)",
}
_COMPARATIVES = {"less": "lower", "greater": "higher", "two-sided": "different"}


def unit(metric: str) -> str:
    """Return the unit of a metric, or the metric's own name when it is not one of ours.

    >>> unit("loss"), unit("bleu")
    ('nats per token', 'bleu')
    """
    return _UNITS.get(metric, metric)


def missing(value: object) -> bool:
    """Tell whether a cell of a table holds no value (None, NaN, NA or an empty text)."""
    if value is None or value == "":
        return True
    return value != value if isinstance(value, float) else type(value).__name__ == "NAType"


def number(value: object) -> float:
    """Return a cell as a float, a missing one as NaN."""
    return math.nan if missing(value) else float(value)  # type: ignore[arg-type]


def decimals_for(spread: float) -> int:
    """Return the decimals that show two significant digits of a spread (at least 0, at most 12).

    >>> decimals_for(0.0031), decimals_for(0.25), decimals_for(140.0)
    (4, 2, 0)
    """
    if not math.isfinite(spread) or spread <= 0:
        return 4
    # Formatting first lets 0.0996 count as 0.10, so that no third digit is shown.
    exponent = int(f"{spread:.1e}".split("e")[1])
    return min(12, max(0, 1 - exponent))


def format_number(value: object, spread: float = math.nan) -> str:
    """Return a value with the decimals its spread deserves; a missing one as a dash.

    >>> format_number(-0.012345, spread=0.0031), format_number(float("nan"))
    ('-0.0123', '–')
    """
    x = number(value)
    if math.isnan(x):
        return DASH
    if math.isinf(x):
        return "inf" if x > 0 else "-inf"
    text = f"{x:.{decimals_for(spread)}f}"
    return text.lstrip("-") if float(text) == 0 else text


def format_p(p: object, threshold: float = math.nan) -> str:
    """Return a p value for print: four decimals below 0.1, three above, and never 0.

    A rounding that would carry the value across `threshold` gets more digits.

    >>> format_p(0.00312), format_p(3e-9), format_p(0.4567), format_p(0.050004, threshold=0.05)
    ('0.0031', '< 0.0001', '0.457', '0.050004')
    """
    x = number(p)
    if math.isnan(x):
        return DASH
    if x < 1e-4 and not 1e-5 < threshold < 1e-4:
        return "< 0.0001"
    for decimals in range(3 if x >= 0.1 else 4, 16):
        text = f"{x:.{decimals}f}"
        same_side = math.isnan(threshold) or (float(text) <= threshold) == (x <= threshold)
        if float(text) > 0 and same_side:
            return text
    return repr(x)


def format_difference(row: Row) -> str:
    """Return the difference of one comparison with digits that suit its interval."""
    return format_number(row["difference"], _half_width(row))


def format_interval(row: Row) -> str:
    """Return the two-sided interval of one comparison, `[low, high]`, or a dash."""
    low, high, spread = number(row["ci_low"]), number(row["ci_high"]), _half_width(row)
    if math.isnan(low) or math.isnan(high):
        return DASH
    return f"[{format_number(low, spread)}, {format_number(high, spread)}]"


def format_mean(mean: object, sd: object, n: object) -> str:
    """Return `mean ± sd (n)` with two significant digits of the spread.

    One run has no spread, so it gets a dash rather than a zero.

    >>> format_mean(3.279391, 0.00185, 5), format_mean(3.279391, float("nan"), 1)
    ('3.2794 ± 0.0019 (5)', '3.2794 ± – (1)')
    """
    spread = number(sd)
    if math.isnan(number(mean)):
        return f"{DASH} (0)"
    return f"{format_number(mean, spread)} ± {format_number(sd, spread)} ({int(number(n))})"


def flags(row: Row) -> tuple[str, ...]:
    """Return the flag names of one comparison, in the order in which they were raised."""
    text = "" if missing(row["flags"]) else str(row["flags"])
    return tuple(name.strip() for name in text.split(";") if name.strip())


def describe(row: Row) -> str:
    """Return one comparison in full sentences: what was measured, tested and decided."""
    sentences = [_measured(row), _tested(row), _decided(row), _caution(row)]
    return " ".join(sentence for sentence in sentences if sentence)


def describe_replication(row: Row, replication: Row | None, split: str) -> str:
    """Return how the comparison came out on the held-out split, beside the declared one."""
    if replication is None:
        return f"Replication on {split}: no values of this comparison on that split."
    return (
        f"Side by side: {row['split']} {format_difference(row)} {format_interval(row)}, "
        f"p = {format_p(row['p'])}, {row['verdict']}; held-out {replication['split']} "
        f"{format_difference(replication)} {format_interval(replication)}, "
        f"p = {format_p(replication['p'])}, {replication['verdict']}."
    ).replace("p = <", "p <")


def suggest(row: Row) -> str:
    """Return a sentence that a paper can use, no stronger than the verdict allows."""
    return _SUGGESTIONS[str(row["verdict"])](row)


def _half_width(row: Row) -> float:
    return (number(row["ci_high"]) - number(row["ci_low"])) / 2


def _level(row: Row) -> str:
    return f"{100 * number(row['ci_level']):g}%"


def _p_is(row: Row, column: str = "p") -> str:
    text = format_p(row[column], threshold=number(row["alpha"]))
    return f"p {text}" if text.startswith("<") else f"p = {text}"


def _where(row: Row) -> str:
    split = "" if missing(row["split"]) else f" on the {row['split']} split"
    return f"{row['metric']}{split}"


def _side(row: Row) -> str:
    """Say which way the observed difference points."""
    difference = number(row["difference"])
    if difference == 0:
        return "equal to"
    return "below" if difference < 0 else "above"


def _measured(row: Row) -> str:
    n = f"{_count(row['n_treatment'])} and {_count(row['n_baseline'])}"
    if math.isnan(number(row["difference"])):
        return (
            f"Mean {_where(row)} of {row['treatment']} against {row['baseline']}: "
            f"no difference can be stated ({n} runs)."
        )
    percent = number(row["difference_percent"])
    relative = "" if math.isnan(percent) else f", {percent:+.2g}% of the baseline"
    return (
        f"Mean {_where(row)}: {row['treatment']} "
        f"{format_mean(row['mean_treatment'], row['sd_treatment'], row['n_treatment'])}, "
        f"{row['baseline']} "
        f"{format_mean(row['mean_baseline'], row['sd_baseline'], row['n_baseline'])}; difference "
        f"{format_difference(row)} {unit(str(row['metric']))}{relative}, two-sided {_level(row)} "
        f"interval {format_interval(row)}."
    )


def _tested(row: Row) -> str:
    if math.isnan(number(row["p"])):
        return "No p value."
    kind = "Two-sided" if row["alternative"] == "two-sided" else "One-sided"
    return (
        f"{kind} Welch test for a {_COMPARATIVES[str(row['alternative'])]} value: "
        f"t = {number(row['t']):.2f}, df = {number(row['df']):.1f}, {_p_is(row)}; "
        f"Bonferroni over the {_count(row['family_size'])} declared comparison(s): "
        f"{_p_is(row, 'p_bonferroni')}, Holm: {_p_is(row, 'p_holm')}."
    )


def _decided(row: Row) -> str:
    return f"Verdict: {row['verdict']}."


def _caution(row: Row) -> str:
    if row["verdict"] == "supported":
        return _normality(row)
    if row["verdict"] == "not supported":
        return _still_possible(row)
    return ""


def _normality(row: Row) -> str:
    """Say what a survivor of a tiny sample rests on (it is never the exact test)."""
    floor, n = number(row["permutation_floor"]), min(row["n_treatment"], row["n_baseline"])
    threshold = number(row["alpha"]) / number(row["family_size"])
    if math.isnan(floor) or (n > 3 and floor <= threshold):
        return ""
    return (
        f"With {_count(row['n_treatment'])} against {_count(row['n_baseline'])} seeds this rests "
        f"on the seeds' values being normally distributed: the exact permutation test cannot go "
        f"below 1/{round(1 / floor)} = {format_p(floor)} (the threshold here is "
        f"{threshold:.4g})."
    )


def _still_possible(row: Row) -> str:
    text = (
        f"This is not evidence that the two are equal: the interval allows differences from "
        f"{format_number(row['ci_low'], _half_width(row))} to "
        f"{format_number(row['ci_high'], _half_width(row))}"
    )
    smallest = number(row["minimum_detectable"])
    if math.isnan(smallest):
        return f"{text}."
    return f"{text}; the minimum detectable difference is {format_number(smallest, smallest)}."


def _count(value: object) -> str:
    x = number(value)
    return DASH if math.isnan(x) else f"{x:.0f}"


def _test_brackets(row: Row) -> str:
    kind = "two-sided" if row["alternative"] == "two-sided" else "one-sided"
    return (
        f"mean difference {format_difference(row)} {unit(str(row['metric']))}, {_level(row)} CI "
        f"{format_interval(row)}; {kind} Welch t({number(row['df']):.1f}) = "
        f"{number(row['t']):.2f}, {_p_is(row)}; Bonferroni over {_count(row['family_size'])}: "
        f"{_p_is(row, 'p_bonferroni')}"
    )


def _seeds(row: Row) -> str:
    x, y = _count(row["n_treatment"]), _count(row["n_baseline"])
    return f"Over {x} seeds per arm" if x == y else f"Over {x} and {y} seeds"


def _supported(row: Row) -> str:
    relation = {"less": "lower than", "greater": "higher than", "two-sided": "different from"}
    return (
        f"{_seeds(row)}, the mean {_where(row)} of {row['treatment']} was "
        f"{relation[str(row['alternative'])]} that of {row['baseline']} ({_test_brackets(row)})."
    )


def _suggestive(row: Row) -> str:
    return (
        f"{_seeds(row)}, the mean {_where(row)} of {row['treatment']} was {_side(row)} that of "
        f"{row['baseline']}, but the difference does not survive the declared correction "
        f"({_test_brackets(row)}); we treat it as a lead to be tested on new seeds."
    )


def _not_supported(row: Row) -> str:
    return (
        f"{_seeds(row)}, we found no support for a {_COMPARATIVES[str(row['alternative'])]} mean "
        f"{_where(row)} of {row['treatment']} than of {row['baseline']} ({_test_brackets(row)}); "
        f"the interval does not establish that the two are equal."
    )


def _equivalent(row: Row) -> str:
    return (
        f"{_seeds(row)}, the mean {_where(row)} of {row['treatment']} and of {row['baseline']} "
        f"differed by less than the margin declared beforehand (two one-sided tests; mean "
        f"difference {format_difference(row)} {unit(str(row['metric']))}, {_level(row)} CI "
        f"{format_interval(row)})."
    )


def _incomplete(row: Row) -> str:
    return (
        f"The declared runs of {row['treatment']} against {row['baseline']} are not all there "
        f"({_count(row['n_treatment'])} and {_count(row['n_baseline'])} with a value of "
        f"{_where(row)}); no claim can be made yet."
    )


def _refused(row: Row) -> str:
    reason = ", ".join(flags(row)) or "see the flags"
    return (
        f"No test was made of {row['treatment']} against {row['baseline']} on {_where(row)} "
        f"because the data do not allow one ({reason}); no claim can be made."
    )


_SUGGESTIONS = {
    "supported": _supported,
    "suggestive": _suggestive,
    "not supported": _not_supported,
    "equivalent": _equivalent,
    "incomplete": _incomplete,
    "refused": _refused,
}
