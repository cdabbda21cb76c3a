"""How a paper may word a comparison: one sentence, no stronger than its verdict allows.

Plain text; escaping for Markdown, LaTeX or HTML is the business of whoever writes the file.
"""

from __future__ import annotations

from .digits import Row, count, format_interval, number, p_is, plural
from .phrases import amount, flags, level, on_other_side, quantity, rests_on_normality, test_name
from .verdict import FLAGS


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
        f"({amount(held_out)}, {level(held_out)} CI {format_interval(held_out)}, "
        f"{p_is(held_out['p'], number(held_out['alpha']))})."
    )


def _seeds(row: Row) -> str:
    x, y = row["n_treatment"], row["n_baseline"]
    return f"{plural(x, 'seed')} per arm" if x == y else f"{count(x)} against {plural(y, 'seed')}"


def _evidence(row: Row, correction: str) -> str:
    return (
        f"mean difference {amount(row)}, {level(row)} CI "
        f"{format_interval(row)}; {test_name(row)}, t({number(row['df']):.1f}) = "
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
    basis = "; this assumes normally distributed seeds" if rests_on_normality(row) else ""
    return (
        f"The mean {quantity(row)} of {row['treatment']} was {relation[str(row['alternative'])]} "
        f"that of {row['baseline']} ({_evidence(row, correction)}{basis})."
    )


def _suggestive(row: Row, correction: str) -> str:
    against = [name for name in flags(row) if name in FLAGS and FLAGS[name].effect == "blocks"]
    but = f"cannot count as support ({', '.join(against)})" if against else ""
    return (
        f"The mean {quantity(row)} of {row['treatment']} was {_observed(row)} that of "
        f"{row['baseline']}, but this {but or 'does not survive the declared correction'} "
        f"({_evidence(row, correction)}); we take it as a lead to be tested on new seeds."
    )


def _observed(row: Row) -> str:
    return "lower than" if number(row["difference"]) < 0 else "higher than"


def _not_supported(row: Row, correction: str) -> str:
    relation = {"less": "lower for", "greater": "higher for", "two-sided": "different for"}
    limit = "the interval does not show that the two are equal"
    if on_other_side(row):
        limit = "the interval lies on the other side, for which no test was declared"
    return (
        f"We found no support for the mean {quantity(row)} being "
        f"{relation[str(row['alternative'])]} {row['treatment']} than for {row['baseline']} "
        f"({_evidence(row, correction)}); {limit}."
    )


def _equivalent(row: Row, _: str) -> str:
    return (
        f"The mean {quantity(row)} of {row['treatment']} and of {row['baseline']} differed by "
        f"less than the margin declared beforehand (two one-sided tests; mean difference "
        f"{amount(row)}, {level(row)} CI "
        f"{format_interval(row)}; {_seeds(row)})."
    )


def _incomplete(row: Row, _: str) -> str:
    return (
        f"No claim can be made yet about {row['treatment']} against {row['baseline']}: of the "
        f"declared runs only {count(row['n_treatment'])} and {count(row['n_baseline'])} have a "
        f"value of {quantity(row)}."
    )


def _refused(row: Row, _: str) -> str:
    reason = f" ({', '.join(flags(row))})" if flags(row) else ""
    return (
        f"No claim can be made about {row['treatment']} against {row['baseline']}: their "
        f"{quantity(row)} does not allow a test{reason}."
    )
