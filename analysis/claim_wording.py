"""One sentence on each claim: why the verdict is what it is, and what would explain a misfit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import get_args

from scipy.optimize import brentq

from .claim import Claim
from .claim_boxes import Method, Recomputed
from .claim_evidence import (
    SIDES,
    SPREADS,
    Evidence,
    Reading,
    readings,
    sides_of,
    spreads_of,
)
from .claim_rule import (
    CONSISTENT,
    INCONSISTENT,
    REFUSED,
    Judgement,
    alpha_of,
    fits_p,
    largest_family,
)
from .claimed import claimed_p
from .degenerate import NoTestError
from .rounding import Printed
from .spread import SpreadKind
from .student import Alternative, p_value


def why(claim: Claim, found: Evidence, judged: Judgement) -> str:
    """Return the reason for a verdict as one sentence without a full stop."""
    if judged.verdict == REFUSED:
        return f"no test exists: {found.refusal.rstrip('.')}"
    if claim.kind == "percent":
        return _percent(claim, found)
    if not found.readings:
        return _p_alone(claim, found)
    if found.contradiction:
        return found.contradiction
    if judged.verdict == INCONSISTENT:
        return _misfit(claim, found, judged)
    if judged.verdict == CONSISTENT:
        return _fit(claim, found, judged)
    return _open(claim, found, judged)


def _range(found: Recomputed) -> str:
    low, high = _short(found.p_min), _short(found.p_max)
    return low if low == high else f"{low} to {high}"


def _short(value: float) -> str:
    return f"{value:.4g}"


def _printed(claim: Claim) -> str:
    """Return the printed p as `p = 0.003` or `p < 0.05`."""
    text = (claim.claimed_p or "").strip().removeprefix("p").strip()
    if text[0] in "nN":
        return f"p > {claim.alpha}"
    return f"p = {text.lstrip('= ')}" if text[0] in "=.0123456789" else f"p {text}"


def _share(claim: Claim, found: Evidence) -> tuple[int | None, float]:
    size = claim.family_size or found.family_size
    return size, alpha_of(claim, found) / (size or 1)


def _fit(claim: Claim, found: Evidence, judged: Judgement) -> str:
    assert judged.shown is not None
    parts = []
    if claim.claimed_p is not None:
        parts.append(f"{_printed(claim)} agrees with {_range(judged.shown)}")
    if claim.claimed_survives is not None:
        size, share = _share(claim, found)
        verb = "survives" if claim.claimed_survives else "does not survive"
        parts.append(f"p {verb} a family of {size} (p <= {_short(share)} needed)")
    every = ", however it is read" if len(found.readings) > 1 else ""
    return " and ".join(parts) + every


def _misfit(claim: Claim, found: Evidence, judged: Judgement) -> str:
    assert judged.shown is not None
    if any(p != "fails" for _, p, _ in judged.outcomes):
        return _wrong_survival(claim, found, judged.shown)
    said = f"{_printed(claim)} does not lie in {_range(judged.shown)}"
    explained = list(dict.fromkeys(_explanations(claim, found)))
    return f"{said}; it fits only {' or '.join(explained)}" if explained else said


def _wrong_survival(claim: Claim, found: Evidence, shown: Recomputed) -> str:
    size, share = _share(claim, found)
    best, needed = largest_family(shown.p_min, alpha_of(claim, found)), _short(share)
    if claim.claimed_survives:
        return (
            f"a family of {size} needs p <= {needed}, and p is {_range(shown)}: it survives a "
            f"family of {best} at most"
        )
    return f"p is {_range(shown)}, which survives a family of {size} (p <= {needed})"


def _open(claim: Claim, found: Evidence, judged: Judgement) -> str:
    assert judged.shown is not None
    if claim.claimed_p is None and claim.claimed_survives is None:
        return f"neither a p nor a survival is claimed; p is {_range(judged.shown)}"
    size, share = _share(claim, found)
    if claim.claimed_survives is not None and size is None:
        low, high = (
            largest_family(p, alpha_of(claim, found))
            for p in (judged.shown.p_max, judged.shown.p_min)
        )
        reach = f"{low}" if low == high else f"{low} to {high}"
        return f"the size of the family is not stated; p survives a family of at most {reach}"
    if len(judged.outcomes) > 1:
        return _by_reading(judged)
    edge = claim.claimed_p if judged.outcomes[0][1] == "open" else _short(share)
    return f"rounding leaves p anywhere in {_range(judged.shown)}, on both sides of {edge}"


def _by_reading(judged: Judgement) -> str:
    groups: dict[str, list[str]] = {"fits": [], "open": [], "fails": []}
    for reading, p, survival in judged.outcomes:
        worst = max((p, survival), key=["fits", "open", "fails"].index)
        groups[worst].append(reading.name)
    words = {"fits": "it holds if", "open": "rounding decides if", "fails": "it fails if"}
    said = (f"{words[key]} {' or '.join(names)}" for key, names in groups.items() if names)
    return "; ".join(said).replace(" or ± is ", " or ")


def _explanations(claim: Claim, found: Evidence) -> Iterator[str]:
    """Yield the mistakes that would make the printed p right."""
    if claim.kind != "results":
        yield from _misreadings(claim, found)
    if _cut(claim, found.readings):
        yield "if its digits were cut off, not rounded"
    if claim.kind == "t_df" and (df := _needed_df(claim, found.readings[0])) is not None:
        yield f"with a df of about {df:.3g}"


def _misreadings(claim: Claim, found: Evidence) -> Iterator[str]:
    spreads, sides = spreads_of(claim), sides_of(claim)
    for side in get_args(Alternative):
        if side not in sides and _any_fits(claim, readings(claim, spreads, [side], claim.test)):
            yield _other_side(claim, side, found.readings[0])
    if len(spreads) == 1 and claim.kind in ("summary", "one_sample") and not claim.treatment:
        for spread, words in SPREADS.items():
            if spread not in spreads and _any_fits(
                claim, readings(claim, [spread], sides, claim.test)
            ):
                yield f"if ± is {words}"
    if _any_fits(claim, readings(claim, spreads, sides, "normal")):
        true_df = found.readings[0].recomputed.df
        yield f"by the normal quantile in place of t with df {true_df:.3g}"
    yield from _other_test(claim, spreads, sides)


def _any_fits(claim: Claim, found: Iterator[Reading]) -> bool:
    try:
        return any(fits_p(claim, reading.recomputed) == "fits" for reading in found)
    except NoTestError:
        return False


def _other_side(claim: Claim, side: Alternative, reading: Reading) -> str:
    if "two-sided" in (side, claim.alternative):
        return f"as a p that is {SIDES[side]}"
    return (
        f"as the p of the other side: t is {reading.recomputed.t:.3g}, and a two-sided p was "
        "halved in the wrong tail"
    )


def _other_test(claim: Claim, spreads: list[SpreadKind], sides: list[Alternative]) -> Iterator[str]:
    if claim.kind in ("summary", "values"):
        other: Method = "welch" if claim.test == "student" else "student"
        if _any_fits(claim, readings(claim, spreads, sides, other)):
            yield (
                "by Welch's test" if other == "welch" else "by Student's test with pooled variance"
            )
    pairable = claim.kind in ("values", "paired") and len(claim.treatment) == len(claim.baseline)
    if pairable:
        kind = "paired" if claim.kind == "values" else "values"
        turned = claim.model_copy(update={"kind": kind})
        if _any_fits(turned, readings(turned, spreads, sides, claim.test)):
            yield "as paired values" if kind == "paired" else "as unpaired values"


def _cut(claim: Claim, found: Sequence[Reading]) -> bool:
    allowed = claimed_p(claim.claimed_p or "", claim.alpha)
    if not allowed.exact:
        return False
    centre, unit = (allowed.low + allowed.high) / 2, allowed.high - allowed.low
    return any(r.recomputed.p_min < centre + unit and r.recomputed.p_max >= centre for r in found)


def _needed_df(claim: Claim, reading: Reading) -> float | None:
    allowed = claimed_p(claim.claimed_p or "", claim.alpha)
    assert claim.t is not None
    if not allowed.exact:
        return None
    goal, t = (allowed.low + allowed.high) / 2, Printed(claim.t).value

    def excess(log_df: float) -> float:
        return float(p_value(t, math.exp(log_df), reading.alternative)) - goal

    ends = math.log(0.5), math.log(1e6)
    if excess(ends[0]) * excess(ends[1]) >= 0:
        return None
    return math.exp(brentq(excess, *ends))


def _p_alone(claim: Claim, found: Evidence) -> str:
    """Say what a p without any statistic still tells: its family, and its floor."""
    allowed, alpha = claimed_p(claim.claimed_p or "", claim.alpha), alpha_of(claim, found)
    parts = ["no statistic is printed from which p could be recomputed"]
    if allowed.exact:
        low, centre, high = (
            largest_family(p, alpha)
            for p in (allowed.high, (allowed.low + allowed.high) / 2, allowed.low)
        )
        parts.append(
            f"as printed it survives a family of at most {centre} ({low} to {high} by rounding)"
        )
    size, share = _share(claim, found)
    if claim.claimed_survives is not None and size is not None:
        parts.append(f"a family of {size} needs p <= {_short(share)}")
    if math.isfinite(found.floor):
        runs = f"{claim.n_treatment} v {claim.n_baseline} runs"
        parts.append(f"an exact test of {runs} cannot go below {_short(found.floor)}")
        if not allowed.meets(found.floor, 1.0):
            parts.append("so it rests on normality")
    return "; ".join(parts)


def _percent(claim: Claim, found: Evidence) -> str:
    low, high = found.percent_range
    stated = f"{claim.claimed_percent} % is printed" if claim.claimed_percent is not None else ""
    if math.isnan(low):
        return f"{stated or 'nothing is printed'}, and no pair of means to recompute it from"
    means = f"{claim.mean_baseline} to {claim.mean_treatment} is {found.percent:+.2f} %"
    rounding = f"{means} ({low:+.2f} to {high:+.2f} by rounding)"
    return f"{stated}; {rounding}" if stated else rounding
