"""The verdict rule, over every combination of what it looks at."""

import itertools

import pytest

from analysis.verdict import FLAGS, verdict

EFFECTS = {"refuses", "incomplete", "blocks", "notes"}


@pytest.mark.parametrize(
    ("survives", "p", "flags"),
    list(
        itertools.product(
            [True, False], [0.001, 0.03, 0.7, float("nan")], [[], *([flag] for flag in FLAGS)]
        )
    ),
)
def test_a_verdict_is_never_better_than_its_flags_allow(survives, p, flags):
    found = verdict(survives=survives, p=p, alpha=0.05, flags=flags)
    effects = {FLAGS[flag].effect for flag in flags}
    if "refuses" in effects:
        assert found == "refused"
    elif "incomplete" in effects:
        assert found == "incomplete"
    elif survives and "blocks" not in effects:
        assert found == "supported"
    else:
        assert found == ("suggestive" if p <= 0.05 else "not supported")


def test_a_refusal_outranks_missing_runs():
    flags = ["runs_missing", "both_constant", "equal_values"]
    assert verdict(survives=True, p=0.001, alpha=0.05, flags=flags) == "refused"


def test_equivalence_is_said_only_where_the_test_found_nothing():
    common = {"alpha": 0.05, "equivalent": True}
    assert verdict(survives=False, p=0.4, flags=[], **common) == "equivalent"
    assert verdict(survives=False, p=0.4, flags=["constant_arm"], **common) == "not supported"
    assert verdict(survives=True, p=0.001, flags=[], **common) == "supported"


def test_an_unknown_flag_is_our_own_mistake():
    with pytest.raises(KeyError):
        verdict(survives=True, p=0.001, alpha=0.05, flags=["no_such_flag"])


@pytest.mark.parametrize("name", FLAGS)
def test_every_flag_says_what_it_does_to_the_verdict(name):
    flag = FLAGS[name]
    assert flag.effect in EFFECTS
    assert flag.sentence.startswith(flag.cause)
    assert len(flag.sentence) > len(flag.cause)
    assert "no effect" not in flag.sentence
