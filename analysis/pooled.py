"""Evidence over grid cells, such as sizes and lengths: secondary, declared, never a verdict."""

import math
import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, special, stats
from statsmodels.regression.mixed_linear_model import MixedLM, VCSpec

from .arms import FloatArray
from .student import Alternative, check_alternative, check_confidence, p_value, quantile


@dataclass(frozen=True)
class SignConsistency:
    """How many cells lie on the declared side, and the chance of as many with no effect."""

    on_side: int
    cells: int
    p: float


@dataclass(frozen=True)
class RandomEffects:
    """Mean difference over cells; `tau` is the standard deviation of the cells' true ones."""

    difference: float
    se: float
    df: float
    p: float
    ci_low: float
    ci_high: float
    tau: float
    cells: int


@dataclass(frozen=True)
class MixedModel:
    """Treatment effect with cell and seed as crossed random effects; `notes` are the fit's own."""

    difference: float
    se: float
    p: float
    ci_low: float
    ci_high: float
    sd_cell: float
    sd_seed: float
    sd_residual: float
    converged: bool
    notes: tuple[str, ...]


def sign_consistency(differences: ArrayLike, alternative: Alternative = "less") -> SignConsistency:
    """Count the cells whose difference lies on the declared side, with the exact binomial p.

    Cells count as independent; a difference of exactly 0 counts against. Two-sided takes the
    more frequent side. Raises ValueError for no cells, or a difference that is missing.
    Source: J. Arbuthnott, "An Argument for Divine Providence", 1710,
    https://doi.org/10.1098/rstl.1710.0011.

    >>> sign_consistency([-0.1, -0.3, -0.2, -0.1, 0.05])
    SignConsistency(on_side=4, cells=5, p=0.1875)
    """
    check_alternative(alternative)
    cells = _cells(differences, "differences")
    below, above = int((cells < 0).sum()), int((cells > 0).sum())
    on_side = {"less": below, "greater": above, "two-sided": max(below, above)}[alternative]
    p = float(stats.binom.sf(on_side - 1, len(cells), 0.5))
    if alternative == "two-sided":
        p = min(1.0, 2 * p)
    return SignConsistency(on_side, len(cells), p)


def random_effects(
    differences: ArrayLike,
    standard_errors: ArrayLike,
    alternative: Alternative = "two-sided",
    confidence: float = 0.95,
) -> RandomEffects:
    """Pool the cells' differences, with their own spread between cells, and a t interval.

    tau by Paule and Mandel, the variance by Hartung and Knapp; the interval is two-sided.
    Raises ValueError for fewer than two cells or a standard error that is not positive.
    Sources: J. Hartung and G. Knapp, "A Refined Method for the Meta-Analysis of Controlled
    Clinical Trials with Binary Outcome", 2001, https://doi.org/10.1002/sim.1009; R. C. Paule
    and J. Mandel, "Consensus Values and Weighting Factors", 1982,
    https://doi.org/10.6028/jres.087.022.

    >>> pooled = random_effects([-0.10, -0.12, -0.08], [0.02, 0.03, 0.02])
    >>> round(pooled.difference, 4), round(pooled.ci_low, 4), round(pooled.ci_high, 4)
    (-0.0955, -0.1401, -0.0508)
    """
    check_alternative(alternative)
    check_confidence(confidence)
    effect, se = _cells(differences, "differences"), _cells(standard_errors, "standard_errors")
    if len(effect) != len(se) or len(effect) < 2:
        raise ValueError(
            "Pooling needs two or more cells, each with a difference and a standard error; "
            f"got {len(effect)} and {len(se)}."
        )
    if (se <= 0).any():
        raise ValueError("A standard error must be positive; a constant cell cannot be pooled.")
    tau_squared = _paule_mandel(effect, se**2)
    weight = 1 / (se**2 + tau_squared)
    mean, squares = _weighted(effect, weight)
    df = len(effect) - 1.0
    spread = math.sqrt(squares / (df * math.fsum(weight)))
    if spread == 0:
        raise ValueError("Every cell has the same difference, so the cells have no spread to pool.")
    reach = -float(quantile((1 - confidence) / 2, df)) * spread
    return RandomEffects(
        difference=mean,
        se=spread,
        df=df,
        p=float(p_value(mean / spread, df, alternative)),
        ci_low=mean - reach,
        ci_high=mean + reach,
        tau=math.sqrt(tau_squared),
        cells=len(effect),
    )


def mixed_model(
    value: ArrayLike,
    treated: ArrayLike,
    cell: ArrayLike,
    seed: ArrayLike,
    confidence: float = 0.95,
) -> MixedModel:
    """Fit value ~ treated with cell and seed as crossed random intercepts, by REML.

    One element per run. The p and interval are normal approximations, two-sided, and so too
    small with few cells and seeds. Raises ValueError for fewer than two cells or seeds, or
    runs of one arm only. Source: S. Seabold and J. Perktold, "Statsmodels", 2010,
    https://doi.org/10.25080/Majora-92bf1922-011.

    >>> fit = mixed_model([1.0, 1.2, 2.1, 2.0, 0.5, 0.8, 1.4, 1.7], [1, 1, 1, 1, 0, 0, 0, 0],
    ...                   list("aabbaabb"), [1, 2, 1, 2, 1, 2, 1, 2])
    >>> round(fit.difference, 3)
    0.475
    """
    check_confidence(confidence)
    value = _cells(value, "value")
    treatment = np.asarray(treated, dtype=np.float64)
    cells, seeds = pd.factorize(np.asarray(cell))[0], pd.factorize(np.asarray(seed))[0]
    if min(cells.max(), seeds.max()) < 1 or set(treatment) != {0.0, 1.0}:
        raise ValueError("A mixed model needs both arms, two or more cells and two or more seeds.")
    design = np.column_stack([np.ones(len(value)), treatment])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit = _crossed(value, design, cells, seeds).fit(reml=True)
    difference, se = float(fit.fe_params[1]), float(fit.bse_fe[1])
    reach = float(special.ndtri((1 + confidence) / 2)) * se
    sd_cell, sd_seed = np.sqrt(fit.vcomp)
    return MixedModel(
        difference=difference,
        se=se,
        p=float(2 * special.ndtr(-abs(difference / se))),
        ci_low=difference - reach,
        ci_high=difference + reach,
        sd_cell=float(sd_cell),
        sd_seed=float(sd_seed),
        sd_residual=math.sqrt(fit.scale),
        converged=bool(fit.converged),
        notes=tuple(dict.fromkeys(str(warning.message) for warning in caught)),
    )


def _cells(values: ArrayLike, name: str) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not len(array) or not np.isfinite(array).all():
        raise ValueError(f"{name} must be one row of finite numbers, one or more.")
    return array


def _weighted(effect: FloatArray, weight: FloatArray) -> tuple[float, float]:
    """Return the weighted mean and the weighted squares about it.

    Summed exactly: otherwise the last digits depend on how many numbers a processor adds at once.
    """
    mean = math.fsum(weight * effect) / math.fsum(weight)
    return mean, math.fsum(weight * (effect - mean) ** 2)


def _paule_mandel(effect: FloatArray, variance: FloatArray) -> float:
    """Variance between cells at which the weighted squares equal their expectation."""

    def excess(tau_squared: float) -> float:
        return _weighted(effect, 1 / (variance + tau_squared))[1] - (len(effect) - 1)

    if excess(0.0) <= 0:
        return 0.0
    high = float(np.ptp(effect)) ** 2
    while excess(high) > 0:
        high *= 2
    return float(optimize.brentq(excess, 0.0, high, xtol=high * 1e-15))


def _crossed(
    value: FloatArray, design: FloatArray, cells: NDArray[np.intp], seeds: NDArray[np.intp]
) -> MixedLM:
    """Crossed effects are variance components of one group that holds every run."""
    matrices = [np.eye(codes.max() + 1)[codes] for codes in (cells, seeds)]
    names = [
        [f"{kind}{level}" for level in range(matrix.shape[1])]
        for kind, matrix in zip(("cell", "seed"), matrices, strict=True)
    ]
    components = VCSpec(
        ["cell", "seed"], [[name] for name in names], [[matrix] for matrix in matrices]
    )
    return MixedLM(value, design, np.zeros(len(value)), exog_vc=components)
