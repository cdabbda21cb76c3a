"""What sentences on a comparison are made of: quantity, difference, test, and what it rests on.

Every function takes a row of comparisons.csv (a mapping from column to value).
"""

from __future__ import annotations

from .digits import Row, format_difference, missing, number

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


def quantity(row: Row) -> str:
    """Return what was measured, and on which split.

    >>> quantity({"metric": "loss", "split": "valid"})
    'loss on the valid split'
    """
    split = "" if missing(row["split"]) else f" on the {row['split']} split"
    return f"{row['metric']}{split}"


def amount(row: Row) -> str:
    """Return the difference with its unit."""
    return f"{format_difference(row)} {unit(str(row['metric']))}".rstrip()


def level(row: Row) -> str:
    """Return the level of the interval in percent.

    >>> level({"ci_level": 0.95})
    '95%'
    """
    return f"{100 * number(row['ci_level']):g}%"


def test_name(row: Row) -> str:
    """Return the name and the side of the test.

    >>> test_name({"test": "paired_t", "alternative": "less"})
    'paired_t test, one-sided'
    """
    sided = "two-sided" if row["alternative"] == "two-sided" else "one-sided"
    return f"{row.get('test', 'Welch')} test, {sided}"


def rests_on_normality(row: Row) -> bool:
    """Tell whether an exact permutation test could not have passed with so few seeds."""
    floor = number(row["permutation_floor"])
    few = min(number(row["n_treatment"]), number(row["n_baseline"])) <= 3
    return few or floor > number(row["alpha"]) / number(row["family_size"])


def on_other_side(row: Row) -> bool:
    """Tell whether the interval lies wholly on the side that was not declared."""
    if row["alternative"] == "less":
        return number(row["ci_low"]) > 0
    return row["alternative"] == "greater" and number(row["ci_high"]) < 0
