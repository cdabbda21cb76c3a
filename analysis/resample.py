"""Relabelling and resampling: exact permutation tests and the bootstrap interval."""

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .arms import FloatArray, seed_values, summarise_pair
from .degenerate import require_test
from .exact import centred, integers
from .student import Alternative, check_alternative, check_confidence

Statistic = Literal["mean", "welch"]
IndexArray = NDArray[np.intp]
# Doubles for speed, or Python integers to settle what doubles cannot.
Numbers = NDArray[Any]

# Eleven runs against eleven have 705,432 labellings: half a second.
MOST_LABELLINGS = 1_000_000
# Floating-point comparisons of values centred in [-1, 1] are trusted outside this band only.
_NEAR_TIE = 1e-10


@dataclass(frozen=True)
class PermutationResult:
    """`floor` is the smallest p that data of these sizes can give."""

    p: float
    floor: float
    count: int
    labellings: int
    exact: bool


@dataclass(frozen=True)
class BootstrapInterval:
    """Percentile interval of the difference of means."""

    difference: float
    ci_low: float
    ci_high: float
    resamples: int


def permutation_test(
    x: ArrayLike,
    y: ArrayLike,
    alternative: Alternative = "less",
    statistic: Statistic = "mean",
    rng: np.random.Generator | int | None = None,
    resamples: int = 99_999,
) -> PermutationResult:
    """Compare the labelling that was run with every other one; ties count as at least as extreme.

    The statistic is the difference of means or Welch's t. Two-sided is the share of labellings
    whose statistic is at least as large in magnitude. Beyond a million labellings a random sample
    is drawn, which needs a seed or generator. Raises ValueError without one, NoTestError for
    degenerate data. Source: B. Phipson and G. K. Smyth, "Permutation P-values Should Never Be
    Zero", 2010, https://doi.org/10.2202/1544-6115.1585.

    >>> permutation_test([20.1, 20.2, 20.0], [20.5, 20.6, 20.4])
    PermutationResult(p=0.05, floor=0.05, count=1, labellings=20, exact=True)
    """
    check_alternative(alternative)
    if statistic not in ("mean", "welch"):
        raise ValueError(f"statistic must be 'mean' or 'welch'; got {statistic!r}.")
    x, y = seed_values(x, "x"), seed_values(y, "y")
    pair = summarise_pair(x, y)
    require_test(pair.x, pair.y, math.ldexp(pair.difference, pair.exponent))
    n, total = len(x), len(x) + len(y)
    possible = math.comb(total, n)
    exact = possible <= MOST_LABELLINGS
    if not exact and rng is None:
        raise ValueError(
            f"{possible} labellings are too many to list; give rng a seed to sample them."
        )
    labels = _all_labels(total, n) if exact else _random_labels(total, n, resamples, rng)
    count = _count_extreme(np.concatenate([x, y]), n, labels, alternative, statistic)
    if not exact:  # the labelling that was run is one of the sample
        count, possible = count + 1, resamples + 1
    return PermutationResult(
        p=count / possible,
        floor=_floor(n, total - n, alternative) if exact else 1 / possible,
        count=count,
        labellings=possible,
        exact=exact,
    )


def permutation_floor(n_x: int, n_y: int, alternative: Alternative = "less") -> float:
    """Return the smallest p that an exact test of these sizes can give.

    >>> permutation_floor(3, 3)
    0.05
    """
    check_alternative(alternative)
    return _floor(n_x, n_y, alternative)


def bootstrap_interval(
    x: ArrayLike,
    y: ArrayLike,
    rng: np.random.Generator | int,
    confidence: float = 0.95,
    resamples: int = 9_999,
) -> BootstrapInterval:
    """Return the percentile bootstrap interval of mean(x) - mean(y).

    It is too narrow for few seeds: with normal data and a nominal 95 % it covers 80 % at three
    seeds an arm, 88 % at five and 91 % at ten. Raises NoTestError for degenerate data.
    Source: B. Efron and R. J. Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 13.

    >>> bootstrap_interval([1.0, 2.0], [5.0, 6.0], rng=0).difference
    -4.0
    """
    check_confidence(confidence)
    x, y = seed_values(x, "x"), seed_values(y, "y")
    pair = summarise_pair(x, y)
    require_test(pair.x, pair.y, math.ldexp(pair.difference, pair.exponent))
    generator = np.random.default_rng(rng)
    mean_x = x[generator.integers(len(x), size=(resamples, len(x)))].mean(axis=1)
    mean_y = y[generator.integers(len(y), size=(resamples, len(y)))].mean(axis=1)
    tail = (1 - confidence) / 2
    low, high = np.quantile(mean_x - mean_y, [tail, 1 - tail])
    difference = math.ldexp(pair.difference, pair.exponent)
    return BootstrapInterval(difference, float(low), float(high), resamples)


def _floor(n_x: int, n_y: int, alternative: Alternative) -> float:
    # With equal sizes every labelling has a mirror image of the same magnitude.
    mirrored = alternative == "two-sided" and n_x == n_y
    return (2 if mirrored else 1) / math.comb(n_x + n_y, n_x)


@lru_cache(maxsize=2)
def _all_labels(total: int, n: int) -> IndexArray:
    """Every choice of n positions out of total, one a row."""
    flat = chain.from_iterable(combinations(range(total), n))
    return np.fromiter(flat, dtype=np.intp).reshape(-1, n)


def _random_labels(
    total: int, n: int, resamples: int, rng: np.random.Generator | int | None
) -> IndexArray:
    order = np.random.default_rng(rng).random((resamples, total)).argsort(axis=1)
    return order[:, :n]


def _count_extreme(
    values: FloatArray,
    n: int,
    labels: IndexArray,
    alternative: Alternative,
    statistic: Statistic,
) -> int:
    """Count labellings at least as extreme as the first n; near ties are settled in integers."""
    score = _mean_excess if statistic == "mean" else _welch_excess
    exact = integers(values)
    observed = np.arange(n)[None, :]
    excess, scale = score(centred(exact), observed, labels, alternative)
    near = np.abs(excess) <= _NEAR_TIE * scale
    settled, _ = score(exact, observed, labels[near], alternative)
    return int((excess[~near] > 0).sum()) + int((settled >= 0).sum())


def _mean_excess(
    values: Numbers, observed: IndexArray, labels: IndexArray, alternative: Alternative
) -> tuple[Numbers, float]:
    """How far each labelling's difference exceeds the observed one, and the scale of both.

    The difference of means grows with the first arm's sum, and keeps its sign when multiplied
    by both counts, so integers stay integers.
    """
    total, count = values.sum(), len(values)
    ours = count * values[labels].sum(axis=1) - labels.shape[1] * total
    theirs = count * values[observed].sum(axis=1) - labels.shape[1] * total
    return _towards(ours, alternative) - _towards(theirs, alternative), float(count) ** 2


def _welch_excess(
    values: Numbers, observed: IndexArray, labels: IndexArray, alternative: Alternative
) -> tuple[Numbers, float]:
    """The same for Welch's t, by the signs of d |d| V_observed - d_observed |d_observed| V.

    No quotient is formed, so that a labelling with V = 0 and d != 0 is the most extreme.
    """
    d, v = _difference_and_variance(values, labels)
    d_observed, v_observed = _difference_and_variance(values, observed)
    ours = _towards(d, alternative) * abs(d) * v_observed
    theirs = _towards(d_observed, alternative) * abs(d_observed) * v
    scale = len(values) ** 4 * (abs(v_observed[0]) + d_observed[0] ** 2)
    return ours - theirs, scale


def _difference_and_variance(values: Numbers, labels: IndexArray) -> tuple[Numbers, Numbers]:
    """Difference of means and its squared standard error, both times constants of the design."""
    n = labels.shape[1]
    m = len(values) - n
    chosen = values[labels]
    sum_x, square_x = chosen.sum(axis=1), (chosen * chosen).sum(axis=1)
    sum_y, square_y = values.sum() - sum_x, (values * values).sum() - square_x
    spread_x, spread_y = n * square_x - sum_x * sum_x, m * square_y - sum_y * sum_y
    difference = m * sum_x - n * sum_y
    return difference, m * m * (m - 1) * spread_x + n * n * (n - 1) * spread_y


def _towards(value: Numbers, alternative: Alternative) -> Numbers:
    """Turn a statistic so that larger is more extreme."""
    if alternative == "two-sided":
        return abs(value)
    return -value if alternative == "less" else value
