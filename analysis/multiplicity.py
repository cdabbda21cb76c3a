"""Many comparisons, one declared family: adjusted p values and which comparisons survive."""

from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .arms import FloatArray

BoolArray = NDArray[np.bool_]
Method = Literal["bonferroni", "holm", "hochberg", "hommel", "bh", "by"]


def adjust(
    p: ArrayLike, method: Method = "bonferroni", family_size: int | None = None
) -> FloatArray:
    """Return adjusted p values in the order given; NaN stays NaN and counts as a member.

    The family size is the declared number of comparisons, by default the number given.
    Raises ValueError for a p outside [0, 1], an unknown method or too small a family.
    Sources: S. Holm, "A Simple Sequentially Rejective Multiple Test Procedure", 1979,
    https://www.jstor.org/stable/4615733; Y. Benjamini and Y. Hochberg, "Controlling the False
    Discovery Rate", 1995, https://doi.org/10.1111/j.2517-6161.1995.tb02031.x; G. Hommel, "A
    Stagewise Rejective Multiple Test Procedure", 1988, https://doi.org/10.1093/biomet/75.2.383.

    >>> adjust([0.01, float("nan"), 0.03]).round(10).tolist()
    [0.03, nan, 0.09]
    """
    p, m = _family(p, family_size)
    if method not in get_args(Method):
        raise ValueError(f"method must be one of {', '.join(get_args(Method))}; got {method!r}.")
    present = np.flatnonzero(~np.isnan(p))
    order = present[np.argsort(p[present], kind="stable")]
    adjusted = np.full_like(p, np.nan)
    adjusted[order] = _adjust_sorted(p[order], m, method)
    return adjusted


def survives(
    p: ArrayLike,
    alpha: float = 0.05,
    family_size: int | None = None,
    method: Literal["bonferroni", "holm", "bh"] = "bonferroni",
) -> BoolArray:
    """Return which comparisons survive, each p compared once with its own share of alpha.

    The adjusted p values are for display: in doubles m * (alpha / m) can exceed alpha, so a p
    on the edge would be judged twice and differently. NaN never survives. Raises ValueError.

    >>> survives([0.05 / 11] + [0.5] * 10).sum()
    np.int64(1)
    """
    _check_alpha(alpha)
    p, m = _family(p, family_size)
    if method == "bonferroni":
        return np.asarray(p <= alpha / m)
    if method not in ("holm", "bh"):
        raise ValueError(f"method must be bonferroni, holm or bh; got {method!r}.")
    order = np.argsort(p, kind="stable")  # NaN sorts last
    rank = np.arange(len(p))
    if method == "holm":
        kept = np.logical_and.accumulate(p[order] <= alpha / (m - rank))
    else:
        kept = np.logical_or.accumulate((p[order] <= (rank + 1) * alpha / m)[::-1])[::-1]
    result = np.zeros(len(p), dtype=np.bool_)
    result[order] = kept
    return result


def simultaneous_confidence(alpha: float, family_size: int) -> float:
    """Return the level at which each of m intervals leaves alpha / m outside.

    Raises ValueError for an alpha outside (0, 1) or an empty family.

    >>> simultaneous_confidence(0.05, 8)
    0.99375
    """
    _check_alpha(alpha)
    if family_size < 1:
        raise ValueError(f"A family holds at least one comparison; got {family_size}.")
    return 1 - alpha / family_size


def fixed_sequence(p: ArrayLike, alpha: float = 0.05) -> BoolArray:
    """Test in the declared order, each at the full alpha, and stop at the first that fails.

    Raises ValueError for a p outside [0, 1]. Source: W. Maurer, L. A. Hothorn, W. Lehmacher,
    "Multiple Comparisons in Drug Clinical Trials and Preclinical Assays", 1995.

    >>> fixed_sequence([0.01, 0.20, 0.001]).tolist()
    [True, False, False]
    """
    _check_alpha(alpha)
    p, _ = _family(p, None)
    return np.asarray(np.logical_and.accumulate(p <= alpha))


def _check_alpha(alpha: float) -> None:
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must lie between 0 and 1, such as 0.05; got {alpha}.")


def _family(p: ArrayLike, family_size: int | None) -> tuple[FloatArray, int]:
    p = np.asarray(p, dtype=np.float64)
    if p.ndim != 1:
        raise ValueError(f"p must be one row of p values; it has shape {p.shape}.")
    if ((p < 0) | (p > 1)).any():
        raise ValueError("A p value lies outside 0 to 1.")
    m = len(p) if family_size is None else family_size
    if m < len(p):
        raise ValueError(
            f"The family was declared with {m} comparisons but {len(p)} p values came; "
            "the family is every comparison made."
        )
    return p, m


def _adjust_sorted(p: FloatArray, m: int, method: Method) -> FloatArray:
    """Adjust ascending p values that belong to a family of m."""
    if method == "hommel":
        return _hommel_sorted(p, m)
    rank = np.arange(1, len(p) + 1)
    if method == "bonferroni":
        raw = m * p
    elif method == "holm":
        raw = np.maximum.accumulate((m - rank + 1) * p)
    else:
        weight = {
            "hochberg": m - rank + 1,
            "bh": m / rank,
            "by": m / rank * (1 / np.arange(1, m + 1)).sum(),
        }[method]
        raw = np.minimum.accumulate((weight * p)[::-1])[::-1]
    return np.asarray(np.minimum(raw, 1.0))


def _hommel_sorted(p: FloatArray, m: int) -> FloatArray:
    """Hommel's closed test with Simes' inequality; absent members count as p = 1."""
    full = np.concatenate([p, np.ones(m - len(p))])
    rank = np.arange(1, m + 1)
    adjusted = np.full(m, (m * full / rank).min(initial=1.0))
    floor = adjusted.copy()
    for size in range(m - 1, 1, -1):
        split = m - size + 1
        simes = (size * full[split:] / np.arange(2, size + 1)).min()
        floor[:split] = np.minimum(size * full[:split], simes)
        floor[split:] = floor[split - 1]
        adjusted = np.maximum(adjusted, floor)
    return np.asarray(np.maximum(adjusted, full)[: len(p)])
