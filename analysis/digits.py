"""Values as text: digits that suit the spread, a dash for what is missing, and never p = 0."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

DASH = "–"
Row = Mapping[str, Any]
"""One row of comparisons.csv: column name -> value."""


def missing(value: object) -> bool:
    """Tell whether a cell of a table holds no value (None, NaN, NA or an empty text)."""
    if value is None or value == "" or type(value).__name__ == "NAType":
        return True
    return isinstance(value, float) and math.isnan(value)


def number(value: Any) -> float:
    """Return a cell as a float, a missing one as NaN."""
    return math.nan if missing(value) else float(value)


def count(value: object) -> str:
    """Return a whole number as text, a missing one as a dash."""
    return DASH if missing(value) else f"{number(value):.0f}"


def plural(value: object, noun: str) -> str:
    """Return a count with its noun.

    >>> plural(1, "seed"), plural(3, "seed")
    ('1 seed', '3 seeds')
    """
    return f"{count(value)} {noun}" + ("" if number(value) == 1 else "s")


def decimals(spread: float) -> int:
    """Return how many decimals show two significant digits of a positive, finite spread.

    >>> decimals(0.0031), decimals(0.25), decimals(140.0)
    (4, 2, 0)
    """
    # The exponent is read off the rounded text, so that 0.0996 counts as 0.10.
    return max(0, 1 - int(f"{spread:.1e}".split("e")[1]))


def format_number(value: object, spread: float = math.nan) -> str:
    """Return a value with the decimals its spread deserves, with six digits when it has none.

    >>> format_number(-0.012345, spread=0.0031), format_number(26.61234567)
    ('-0.0123', '26.6123')
    """
    x = number(value)
    if math.isnan(x):
        return DASH
    ordinary = math.isfinite(x) and math.isfinite(spread) and spread > 0
    if not ordinary or decimals(spread) > 9 or abs(x) >= 1e9:
        return f"{x:.6g}"
    text = f"{x:.{decimals(spread)}f}"
    return text.lstrip("-") if float(text) == 0 else text


def format_p(p: object, threshold: float = math.nan) -> str:
    """Return a p value: four decimals below 0.1, three above, never 0.

    A rounding that would carry the value across `threshold` gets more digits.

    >>> format_p(0.00312), format_p(3e-9), format_p(0.4567), format_p(0.050004, threshold=0.05)
    ('0.0031', '< 0.0001', '0.457', '0.050004')
    """
    x = number(p)
    if math.isnan(x):
        return DASH
    if x < 1e-4 and not x > threshold:
        return "< 0.0001"
    fewest = 3 if x >= 0.1 else 4 if x >= 1e-4 else 5
    for places in range(fewest, 17):
        text = f"{x:.{places}f}"
        if float(text) > 0 and (float(text) <= threshold) == (x <= threshold):
            return text
    return f"{x:.6g}"


def p_is(p: object, threshold: float = math.nan) -> str:
    """Return a p value as part of a sentence.

    >>> p_is(0.00312), p_is(3e-9)
    ('p = 0.0031', 'p < 0.0001')
    """
    text = format_p(p, threshold)
    return f"p {text}" if text.startswith("<") else f"p = {text}"


def half_width(row: Row) -> float:
    """Return half the length of a comparison's two-sided interval."""
    return (number(row["ci_high"]) - number(row["ci_low"])) / 2


def format_difference(row: Row) -> str:
    """Return the difference of one comparison with digits that suit its interval."""
    return format_number(row["difference"], half_width(row))


def format_interval(row: Row, low: str = "ci_low", high: str = "ci_high") -> str:
    """Return an interval of one comparison, `[low, high]`, or a dash."""
    if missing(row[low]) or missing(row[high]):
        return DASH
    spread = half_width(row)
    return f"[{format_number(row[low], spread)}, {format_number(row[high], spread)}]"


def format_mean(mean: object, sd: object, n: object) -> str:
    """Return `mean ± sd (n)` with two significant digits of the spread.

    One run has no spread, so it gets a dash rather than a zero.

    >>> format_mean(3.279391, 0.00185, 5), format_mean(3.279391, float("nan"), 1)
    ('3.2794 ± 0.0019 (5)', '3.27939 ± – (1)')
    """
    if missing(mean):
        return f"{DASH} ({count(n)})"
    spread = number(sd)
    return f"{format_number(mean, spread)} ± {format_number(sd, spread)} ({count(n)})"
