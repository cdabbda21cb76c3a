"""Arms that share their seeds: aligned by seed, then tested on the differences."""

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from .arms import FloatArray, seed_values, summarise, summarise_pair
from .degenerate import RESOLUTION, NoTestError, Reason, require_test
from .exact import integers
from .student import Alternative, check_alternative, check_confidence, p_value, quantile

# 2**20 sign patterns: a second.
MOST_PAIRS = 20


class BySeed(Protocol):
    """A mapping, or a pandas Series, from seed to value."""

    def items(self) -> Iterable[tuple[Hashable, float]]:
        """Yield (seed, value) pairs."""


@dataclass(frozen=True)
class PairedResult:
    """One paired t test; `ci_low` and `ci_high` bound the test's own side."""

    alternative: Alternative
    confidence: float
    n: int
    difference: float
    sd: float
    se: float
    t: float
    df: float
    p: float
    ci_low: float
    ci_high: float
    ci_two_sided: tuple[float, float]


@dataclass(frozen=True)
class SignFlipResult:
    """`floor` is the smallest p that this many pairs can give."""

    p: float
    floor: float
    count: int
    patterns: int


def align(x: BySeed, y: BySeed) -> tuple[FloatArray, FloatArray]:
    """Return both arms' values in the order of x's seeds.

    Raises ValueError for a seed that comes twice, or that only one arm has.

    >>> align({0: 8.0, 1: 7.0}, {1: 7.5, 0: 8.5})[1].tolist()
    [8.5, 7.5]
    """
    left, right = _by_seed(x, "x"), _by_seed(y, "y")
    unmatched = sorted(map(str, left.keys() ^ right.keys()))
    if unmatched:
        raise ValueError(
            f"A paired test needs the same seeds in both arms; unmatched: {', '.join(unmatched)}."
        )
    return (
        seed_values([left[seed] for seed in left], "x"),
        seed_values([right[seed] for seed in left], "y"),
    )


def paired_t(
    x: BySeed, y: BySeed, alternative: Alternative = "less", confidence: float = 0.95
) -> PairedResult:
    """Test the mean of the differences x - y, aligned by seed.

    Raises ValueError for seeds that do not match, NoTestError for degenerate data. Source:
    Student, "The Probable Error of a Mean", 1908, https://doi.org/10.1093/biomet/6.1.1.

    >>> result = paired_t({0: 1.0, 1: 2.0, 2: 3.0}, {2: 3.5, 0: 1.2, 1: 2.3})
    >>> round(result.t, 3), round(result.p, 4)
    (-3.78, 0.0317)
    """
    check_alternative(alternative)
    check_confidence(confidence)
    difference, resolution, unit = _differences(*align(x, y))
    summary = summarise(difference)
    se = summary.sd / math.sqrt(summary.n)
    if summary.sd == 0 or se < resolution:
        raise NoTestError(Reason.CONSTANT_DIFFERENCE, summary.mean * unit)
    df = summary.n - 1.0
    t = summary.mean / se
    two_sided = -float(quantile((1 - confidence) / 2, df)) * se
    reach = two_sided if alternative == "two-sided" else -float(quantile(1 - confidence, df)) * se
    mean = summary.mean
    return PairedResult(
        alternative=alternative,
        confidence=confidence,
        n=summary.n,
        difference=mean * unit,
        sd=summary.sd * unit,
        se=se * unit,
        t=t,
        df=df,
        p=float(p_value(t, df, alternative)),
        ci_low=-math.inf if alternative == "less" else (mean - reach) * unit,
        ci_high=math.inf if alternative == "greater" else (mean + reach) * unit,
        ci_two_sided=((mean - two_sided) * unit, (mean + two_sided) * unit),
    )


def sign_flip_test(x: BySeed, y: BySeed, alternative: Alternative = "less") -> SignFlipResult:
    """Compare the sum of the differences with its value under every pattern of signs; exact.

    Raises ValueError for seeds that do not match or more than 20 pairs, NoTestError for
    degenerate data. Source: R. A. Fisher, "The Design of Experiments", 1935, section 21.

    >>> sign_flip_test({0: 1.0, 1: 2.0, 2: 3.0}, {0: 1.2, 1: 2.3, 2: 3.5})
    SignFlipResult(p=0.125, floor=0.125, count=1, patterns=8)
    """
    check_alternative(alternative)
    left, right = align(x, y)
    _differences(left, right)
    if len(left) > MOST_PAIRS:
        raise ValueError(
            f"{len(left)} pairs have too many sign patterns to list; at most {MOST_PAIRS}."
        )
    exact = integers(np.concatenate([left, right]))
    sums = [0]
    for change in exact[: len(left)] - exact[len(left) :]:
        sums = [total + sign for total in sums for sign in (change, -change)]
    observed = sums[0]
    if alternative == "two-sided":
        count = sum(abs(total) >= abs(observed) for total in sums)
    elif alternative == "less":
        count = sum(total <= observed for total in sums)
    else:
        count = sum(total >= observed for total in sums)
    floor = (2 if alternative == "two-sided" else 1) / len(sums)
    return SignFlipResult(count / len(sums), floor, count, len(sums))


def _by_seed(arm: BySeed, name: str) -> dict[Hashable, float]:
    pairs = list(arm.items())
    values = dict(pairs)
    if len(values) < len(pairs):
        seeds = [seed for seed, _ in pairs]
        twice = sorted({str(seed) for seed in seeds if seeds.count(seed) > 1})
        raise ValueError(f"{name} has a seed more than once: {', '.join(twice)}.")
    return values


def _differences(x: FloatArray, y: FloatArray) -> tuple[FloatArray, float, float]:
    """Return x - y, the smallest standard error that is not rounding, and the unit of both."""
    pair = summarise_pair(x, y)
    unit = math.ldexp(1.0, pair.exponent)
    if min(pair.x.n, pair.y.n) < 2 or not math.isfinite(pair.difference):
        require_test(pair.x, pair.y, pair.difference * unit)
    resolution = RESOLUTION * max(abs(pair.x.mean), abs(pair.y.mean))
    return np.ldexp(x, -pair.exponent) - np.ldexp(y, -pair.exponent), resolution, unit
