"""Published claims: every known verdict, no false accusation, and a sentence for each misfit."""

import csv
import json
import math
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from analysis.claim import Claim
from analysis.claim_boxes import two_arms, value_box
from analysis.claim_evidence import evidence
from analysis.claim_rule import judge, largest_family
from analysis.claim_wording import why
from analysis.claimed import claimed_p
from analysis.claims import as_json, as_text, check_claims, load_claims
from analysis.rounding import rounding_range
from analysis.single import crawford_howell
from analysis.spread import sd_from_spread
from analysis.student import p_value
from analysis.welch import welch, welch_many

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = [Path(__file__).parent / "reference"]
if os.environ.get("CQK_REFERENCE_DIR"):
    FOLDERS.append(Path(os.environ["CQK_REFERENCE_DIR"]))
PUBLIC = Path(os.environ.get("CQK_PUBLIC_DIR", "absent"))
CQK = Path(sys.executable).with_name("cqk")


def rows_of(name, folders=FOLDERS):
    rows = []
    for folder in folders:
        if (folder / name).exists():
            with (folder / name).open(newline="") as file:
                rows += csv.DictReader(file)
    return rows


def judged(**stated):
    """Verdict, reason, and the recomputed figures of one claim."""
    claim = Claim(id="c", **stated)
    found = evidence(claim, Path())
    judgement = judge(claim, found)
    return judgement.verdict, why(claim, found, judgement), judgement.shown


def summary(mean_x, spread_x, n_x, mean_y, spread_y, n_y, **stated):
    return judged(
        kind="summary", mean_treatment=mean_x, spread_treatment=spread_x, n_treatment=n_x,
        mean_baseline=mean_y, spread_baseline=spread_y, n_baseline=n_y, **stated,
    )  # fmt: skip


# Known claims


@pytest.mark.parametrize("folder", FOLDERS, ids=str)
def test_every_known_claim_gets_its_verdict(folder):
    path = folder / "claims.csv"
    wanted = {row["id"]: row["expected_verdict"] for row in rows_of("claims.csv", [folder])}
    checked = check_claims(path)
    assert dict(zip(checked["id"], checked["verdict"], strict=True)) == wanted
    assert checked["why"].str.len().gt(0).all()


@pytest.mark.parametrize("row", rows_of("summary_reference.csv"), ids=lambda r: r["case"])
def test_printed_summaries_are_recomputed_as_r_and_sixty_digits_do(row):
    side = row["alternative"].replace(".", "-")
    figures = [row[name] for name in ("mean_x", "spread_x", "n_x", "mean_y", "spread_y", "n_y")]
    _, _, shown = summary(*figures, spread_kind=row["spread_kind"], alternative=side)
    for name in ("t", "df", "p"):
        assert getattr(shown, name) == pytest.approx(float(row[name]), rel=1e-10)
    numbers = [int(f) if i % 3 == 2 else f for i, f in enumerate(figures)]
    box = rounding_range(*numbers, row["spread_kind"], side)
    assert shown.p_min == pytest.approx(box.p_min, rel=1e-9)
    assert shown.p_max == pytest.approx(box.p_max, rel=1e-9)


@pytest.mark.skipif(not PUBLIC.exists(), reason="CQK_PUBLIC_DIR names no folder")
@pytest.mark.parametrize("row", rows_of("claims_nanogpt.csv", [PUBLIC]), ids=lambda r: r["case"])
def test_public_one_sample_claims(row):
    verdict, _, shown = judged(
        kind="one_sample", treatment=row["values"], target=row["target"],
        alternative=row["alternative"], claimed_p=row["claimed_p"] or None,
    )  # fmt: skip
    assert shown.p == pytest.approx(float(row["p_one_sample"]), rel=1e-9)
    assert shown.t == pytest.approx(float(row["t"]), rel=1e-9)
    assert verdict == ("consistent" if row["claimed_p"] else "undecidable")


def test_the_papers_own_claims_contradict_nothing_that_it_prints():
    checked = check_claims(ROOT / "results" / "paper" / "claims.toml").set_index("id")
    assert set(checked["verdict"]) == {"consistent", "undecidable"}
    assert checked.loc["diff-455m-512", "largest_family"] == 16
    assert checked.loc["diff-455m-512", "exact_floor"] == pytest.approx(1 / 924)
    assert checked.loc["alone-60m", "exact_floor"] == 0.05
    assert "rests on normality" in checked.loc["alone-60m", "why"]
    assert checked.loc["v1-60m", "percent"] == pytest.approx(100 * (22.55 / 24.22 - 1))


# The rule: no false accusation, and no acquittal either


def printed(value, digits):
    return f"{value:.{digits}f}"


sides = st.sampled_from(["less", "greater", "two-sided"])


@st.composite
def studies(draw):
    """Two arms of true summaries, a side, and the digits with which they are printed."""
    arm = st.tuples(st.floats(10, 11), st.floats(0.02, 1), st.integers(2, 8))
    return draw(arm), draw(arm), draw(sides), draw(st.integers(1, 3))


@settings(max_examples=50)
@given(studies(), st.integers(2, 4), st.sampled_from(["sd", "se", "sd0", "ci95_t", "ci95_z"]))
def test_what_was_printed_from_the_truth_is_never_called_inconsistent(study, p_digits, kind):
    (mean_x, spread_x, n_x), (mean_y, spread_y, n_y), side, digits = study
    figures = [printed(v, digits) for v in (mean_x, spread_x, mean_y, spread_y)]
    sd_x, sd_y = sd_from_spread([spread_x, spread_y], [n_x, n_y], kind)
    p = float(welch_many(mean_x, sd_x, n_x, mean_y, sd_y, n_y, side).p)
    for stated in (kind, "unknown"):
        verdict, reason, _ = summary(
            *figures[:2], n_x, *figures[2:], n_y, spread_kind=stated, alternative=side,
            claimed_p=printed(p, p_digits),
        )  # fmt: skip
        assert verdict != "inconsistent", reason


@given(
    st.lists(st.floats(3, 4), min_size=2, max_size=6),
    st.lists(st.floats(3, 4), min_size=2, max_size=6),
    sides,
    st.integers(1, 3),
)
def test_values_that_were_rounded_are_never_called_inconsistent(x, y, side, digits):
    assume(np.ptp(x) > 1e-6 or np.ptp(y) > 1e-6)
    rounded = [[printed(value, digits) for value in arm] for arm in (x, y)]
    p = welch(x, y, side).p
    verdict, reason, shown = judged(
        kind="values", treatment=rounded[0], baseline=rounded[1], alternative=side,
        claimed_p=printed(p, 3),
    )  # fmt: skip
    if shown is None:  # all values of both arms became the same number
        assert verdict == "refused"
    else:
        assert verdict != "inconsistent", reason
        assert shown.p_min <= p * (1 + 1e-9)
        assert shown.p_max >= p * (1 - 1e-9)


def test_the_box_of_values_holds_every_choice_within_it():
    rng = np.random.default_rng(7)
    for n_x, n_y in ((2, 3), (3, 3), (5, 2)):
        x, y = rng.normal(3, 0.1, n_x).round(1), rng.normal(3.1, 0.1, n_y).round(1)
        half = [np.full(n, 0.05) for n in (n_x, n_y)]
        box_x, box_y = value_box(x, half[0]), value_box(y, half[1])
        difference = float(x.mean() - y.mean())
        for side in ("less", "greater", "two-sided"):
            found = two_arms(box_x, box_y, side, "welch", difference)
            choices = rng.choice([-1, 0, 1], (4000, n_x + n_y)) * rng.choice([1, 0.5], (4000, 1))
            moved_x = x + 0.05 * choices[:, :n_x]
            moved_y = y + 0.05 * choices[:, n_x:]
            p = welch_many(
                moved_x.mean(1), moved_x.std(1, ddof=1), n_x,
                moved_y.mean(1), moved_y.std(1, ddof=1), n_y, side,
            ).p  # fmt: skip
            assert found.p_min <= np.nanmin(p) * (1 + 1e-9)
            assert found.p_max >= np.nanmax(p) * (1 - 1e-9)
            assert found.p_min > 0.2 * np.nanmin(p) or found.p_min < 1e-3


@settings(max_examples=50)
@given(studies(), st.floats(0.1, 0.9), st.booleans())
def test_a_p_outside_the_range_is_called_inconsistent(study, share, above):
    (mean_x, spread_x, n_x), (mean_y, spread_y, n_y), side, digits = study
    figures = [printed(v, digits) for v in (mean_x, spread_x, mean_y, spread_y)]
    known = {"spread_kind": "sd", "alternative": side}
    _, _, shown = summary(*figures[:2], n_x, *figures[2:], n_y, **known)
    wrong = shown.p_max + share * (1 - shown.p_max) if above else share * shown.p_min
    text = f"{wrong:.6f}"
    verdict, reason, _ = summary(*figures[:2], n_x, *figures[2:], n_y, **known, claimed_p=text)
    outside = not shown.p_min - 1e-6 <= float(text) <= shown.p_max + 1e-6
    assert (verdict == "inconsistent") == outside, reason


@pytest.mark.parametrize(
    ("claimed", "verdict"),
    [("<0.08", "consistent"), ("<0.05", "undecidable"), ("<0.0001", "inconsistent"),
     (">0.05", "undecidable"), (">0.0001", "consistent"), ("0.008", "consistent"),
     ("p = 0.0003", "consistent"), ("0.0001", "inconsistent")],
)  # fmt: skip
def test_a_bound_must_hold_throughout_and_a_number_be_reached(claimed, verdict):
    # p of these figures is 0.00026 to 0.070 by rounding
    found, reason, _ = summary(
        "20.1", "0.1", 3, "20.5", "0.1", 3, spread_kind="sd", alternative="two-sided",
        claimed_p=claimed,
    )  # fmt: skip
    assert found == verdict, reason
    assert verdict != "undecidable" or "rounding leaves p anywhere in" in reason


@pytest.mark.parametrize(
    ("survives", "size", "verdict"),
    [(True, 3, "consistent"), (True, 30, "inconsistent"), (True, 14, "undecidable"),
     (False, 30, "consistent"), (False, 3, "inconsistent"), (True, None, "undecidable")],
)  # fmt: skip
def test_survival_is_judged_with_the_printed_p(survives, size, verdict):
    # p lies in 0.003498 to 0.003578; 0.05 / 14 = 0.003571
    found, reason, _ = judged(
        kind="t_df", t="3.00", df="20", alternative="greater", claimed_p="0.004",
        claimed_survives=survives, family_size=size,
    )  # fmt: skip
    assert found == verdict, reason


def test_every_reading_of_an_unstated_spread_is_tried_and_named():
    figures = ("5579", "354", 5, "4198", "606", 5)
    verdict, reason, _ = summary(*figures, alternative="two-sided", claimed_p="<0.05")
    assert verdict == "undecidable"
    assert "it fails if ± is the standard error" in reason
    assert reason.startswith("it holds if ± is the standard deviation or ")
    verdict, reason, _ = summary(*figures, alternative="two-sided", claimed_p="<0.2")
    assert verdict == "consistent"
    assert reason.endswith("however it is read")


def test_a_side_that_is_not_stated_is_tried_every_way():
    verdict, reason, _ = judged(kind="t_df", t="2.00", df="4", claimed_p="0.058")
    assert verdict == "undecidable"
    assert (
        reason
        == "it holds if one-sided towards greater; it fails if one-sided towards less or two-sided"
    )


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ({"kind": "t_df", "t": "2.00", "df": "4", "alternative": "less", "claimed_p": "0.058"},
         "as the p of the other side: t is 2, and a two-sided p was halved in the wrong tail"),
        ({"kind": "t_df", "t": "2.78", "df": "8", "alternative": "two-sided",
          "claimed_p": "0.012"},
         "as a p that is one-sided towards greater"),
        ({"kind": "t_df", "t": "2.00", "df": "4", "alternative": "two-sided",
          "claimed_p": "0.0455"},
         "by the normal quantile in place of t with df 4"),
        ({"kind": "t_df", "t": "-9.0916", "df": "8", "alternative": "two-sided",
          "claimed_p": "0.0016"}, "with a df of about 3.44"),
        ({"kind": "t_df", "t": "2.000", "df": "4", "alternative": "two-sided",
          "claimed_p": "0.11"}, "if its digits were cut off, not rounded"),
        ({"kind": "values", "treatment": "1.00;2.00;3.00;4.00", "alternative": "less",
          "baseline": "1.20;2.30;3.50;4.10", "claimed_p": "0.024"}, "as paired values"),
        ({"kind": "paired", "treatment": "1.00;2.00;3.00;4.00", "alternative": "less",
          "baseline": "1.20;2.30;3.50;4.10", "claimed_p": "0.39"}, "as unpaired values"),
        ({"kind": "values", "treatment": "1.00;2.00;3.00", "alternative": "less",
          "baseline": "2.00;3.00;4.00", "claimed_p": "0.001"}, "p = 0.001 does not lie in"),
    ],
)  # fmt: skip
def test_a_misfit_is_explained(stated, said):
    verdict, reason, _ = judged(**stated)
    assert verdict == "inconsistent"
    assert said in reason


def test_a_standard_error_read_as_a_deviation_and_a_pooled_test_are_recognised():
    arms = ("2201", "323", 5, "-1180", "444", 5)
    verdict, reason, _ = summary(*arms, spread_kind="sd", alternative="two-sided",
                                 claimed_p="0.00039")  # fmt: skip
    assert verdict == "inconsistent"
    assert reason.endswith("it fits only if ± is the standard error")
    arms = ("10.00", "1.00", 3, "12.00", "3.00", 12)
    pooled = p_value(-2 / math.sqrt((2 + 99) / 13 * (1 / 3 + 1 / 12)), 13, "two-sided")
    text = f"{float(pooled):.3f}"
    verdict, reason, _ = summary(*arms, spread_kind="sd", alternative="two-sided", claimed_p=text)
    assert verdict == "inconsistent"
    assert "by Student's test with pooled variance" in reason
    verdict, _, shown = summary(*arms, spread_kind="sd", alternative="two-sided", claimed_p=text,
                                test="student")  # fmt: skip
    assert verdict == "consistent"
    assert shown.p == pytest.approx(float(pooled), rel=1e-12)


def test_degrees_of_freedom_that_so_many_runs_cannot_have():
    verdict, reason, _ = judged(kind="t_df", t="2.00", df="8", n_treatment=3, n_baseline=3,
                                alternative="two-sided", claimed_p="0.08")  # fmt: skip
    assert (verdict, reason) == (
        "inconsistent", "df 2 to 4 is expected of 3 and 3 runs, and df 8 is printed",
    )  # fmt: skip
    verdict, _, shown = judged(kind="t_df", t="2.00", n_treatment=3, n_baseline=3,
                               alternative="two-sided", claimed_p="0.16")  # fmt: skip
    assert verdict == "consistent"
    assert shown.p_min == pytest.approx(float(p_value(2.005, 4, "two-sided")), rel=1e-12)
    assert shown.p_max == pytest.approx(float(p_value(1.995, 2, "two-sided")), rel=1e-12)


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ({"n_treatment": 1}, "the treatment has one run and so no spread"),
        ({"n_baseline": None}, "the number of runs of the baseline is not printed"),
        ({"spread_treatment": None}, "no spread of the treatment is printed"),
        ({"kind": "values", "treatment": ["1.0"], "baseline": ["2.0", "3.0"]}, "has one run"),
        ({"kind": "values", "treatment": ["1.0", "nan"], "baseline": ["2.0", "3.0"]}, "not finite"),
        ({"kind": "values", "treatment": ["1.0"] * 3, "baseline": ["2.0"] * 3}, "spread of both"),
        ({"kind": "paired", "treatment": ["1.0", "2.0"], "baseline": ["1.5", "2.5"]}, "are equal"),
        ({"kind": "paired", "treatment": ["inf", "2.0"], "baseline": ["inf", "2.5"]}, "not finite"),
        ({"kind": "one_sample", "target": "3.0"}, "neither a mean nor values"),
        ({"kind": "t_df", "t": "2.0"}, "neither degrees of freedom nor numbers of runs"),
    ],
)
def test_data_without_a_test_are_refused(stated, said):
    base = {"kind": "summary", "mean_treatment": "43.30", "spread_treatment": "0.00",
            "n_treatment": 5, "mean_baseline": "43.1", "spread_baseline": "0.1",
            "n_baseline": 5, "claimed_p": "<0.05"}  # fmt: skip
    if "kind" in stated:
        base = {"claimed_p": "<0.05", "n_treatment": 5, "spread_treatment": "0.1"}
        if stated["kind"] == "t_df":
            base = {"claimed_p": "<0.05"}
    verdict, reason, _ = judged(**base | stated)
    assert verdict == "refused"
    assert said in reason


def test_a_printed_spread_of_zero_is_anything_up_to_half_a_unit():
    verdict, _, shown = summary("20.1", "0.0", 3, "20.5", "0.0", 3, spread_kind="sd",
                                alternative="two-sided", claimed_p="<0.05")  # fmt: skip
    assert verdict == "consistent"
    assert math.isnan(shown.p)
    assert shown.p_min == 0.0
    assert 0 < shown.p_max < 0.05


def test_a_p_without_a_statistic_can_still_contradict_itself():
    own = {"kind": "p_only", "claimed_p": "0.003", "claimed_survives": True}
    assert judged(**own, family_size=40)[0] == "inconsistent"
    verdict, reason, _ = judged(**own, family_size=16, n_treatment=6, n_baseline=6)
    assert verdict == "undecidable"
    assert "at most 16 (14 to 20 by rounding)" in reason
    assert "cannot go below 0.001082" in reason


@pytest.mark.parametrize(
    ("stated", "verdict"),
    [
        ({"mean_treatment": "22.55", "mean_baseline": "24.22", "claimed_percent": "-6.9"},
         "consistent"),
        ({"mean_treatment": "22.55", "mean_baseline": "24.22", "claimed_percent": "-7.4"},
         "inconsistent"),
        ({"mean_treatment": "22.55", "mean_baseline": "24.22", "alternative": "greater"},
         "inconsistent"),
        ({"mean_treatment": "24.2", "mean_baseline": "24.2", "alternative": "less"},
         "undecidable"),
        ({"mean_treatment": "19.35", "claimed_percent": "-1.0"}, "undecidable"),
        ({"mean_treatment": "1.0", "mean_baseline": "0.0"}, "refused"),
    ],
)  # fmt: skip
def test_percentages(stated, verdict):
    assert judged(kind="percent", **stated)[0] == verdict


def test_one_run_against_a_constant_is_no_crawford_howell():
    values = ["20.4", "20.5", "20.6"]
    verdict, _, shown = judged(kind="one_sample", treatment=values, target="20.7", rounded=False,
                               alternative="less", claimed_p="0.0371")  # fmt: skip
    assert verdict == "consistent"
    assert shown.p_min == shown.p == shown.p_max
    assert crawford_howell(20.7, [20.4, 20.5, 20.6], "greater").p > 2 * shown.p


@pytest.mark.parametrize("kind", ["one_sample", "paired"])
@pytest.mark.parametrize(("side", "floor"), [("less", 1 / 8), ("two-sided", 2 / 8)])
def test_the_exact_floor_of_three_signs(kind, side, floor):
    claim = Claim(id="c", kind=kind, treatment=["1.0", "2.0", "3.5"], target="0",
                  baseline=["0.5", "1.0", "3.0"], alternative=side)  # fmt: skip
    assert evidence(claim, Path()).floor == floor


def test_what_is_printed_as_not_significant_lies_above_alpha():
    known = {"kind": "t_df", "t": "1.85", "df": "8", "alternative": "two-sided"}  # p = 0.101
    assert judged(**known, claimed_p="n.s.")[:2] == (
        "consistent", "p > 0.05 agrees with 0.1007 to 0.1023",
    )  # fmt: skip
    assert judged(**known, claimed_p="ns", alpha=0.2)[0] == "inconsistent"


def test_of_many_runs_no_floor_is_stated():
    known = {"kind": "p_only", "claimed_p": "0.04", "alternative": "less"}
    for n, stated in ((500, True), (501, False), (10**9, False)):
        claim = Claim(id="c", **known, n_treatment=n, n_baseline=n)
        assert math.isfinite(evidence(claim, Path()).floor) == stated


@given(st.floats(1e-7, 0.9), st.floats(0.001, 0.2))
def test_the_largest_family_survives_and_the_next_does_not(p, alpha):
    size = largest_family(p, alpha)
    assert size == 0 or p <= alpha / size
    assert size == 1_000_000 or p > alpha / (size + 1)


# A printed p


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [("0.003", 0.0025, 0.0035), (".05", 0.045, 0.055), ("1.1e-07", 1.05e-7, 1.15e-7),
     ("0.000", 0.0, 0.0005), ("1.0", 0.95, 1.0), ("<0.05", 0.0, 0.05), ("p<=.001", 0.0, 0.001),
     ("P > 0.05", 0.05, 1.0), ("n.s.", 0.05, 1.0), ("8e-06", 7.5e-6, 8.5e-6)],
)  # fmt: skip
def test_what_a_printed_p_allows(text, low, high):
    allowed = claimed_p(text)
    assert (allowed.low, allowed.high) == (low, high)


@pytest.mark.parametrize("text", ["", "0", "1", "-0.1", "1.5", "0,05", "5%", "0.05*"])
def test_what_is_no_p(text):
    with pytest.raises(ValueError, match="is no p value"):
        claimed_p(text)


def test_an_open_end_is_excluded_and_a_closed_one_is_not():
    assert not claimed_p("<0.05").meets(0.05, 0.06)
    assert claimed_p("<=0.05").meets(0.05, 0.06)
    assert claimed_p("<0.05").holds(0.0, 0.0499999)
    assert not claimed_p(">0.05").holds(0.05, 1.0)


# Files


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


RESULTS = """
[study]
name = "borrowed"
[seeds]
values = [0, 1, 2]
[family]
size = 4
[[family.comparisons]]
name = "coupling"
treatment = "b"
baseline = "a"
"""


def results_folder(folder):
    folder.mkdir()
    values = {"a": (2.5, 2.6, 2.55), "b": (2.1, 2.2, 2.4)}
    rows = [f"{arm},{s},loss,valid,{v}" for arm, vs in values.items() for s, v in enumerate(vs)]
    write(folder / "study.toml", RESULTS)
    write(folder / "runs.csv", "\n".join(["arm,seed,metric,split,value", *rows]) + "\n")
    return welch(values["b"], values["a"]).p


def test_a_comparison_of_a_results_folder_is_recomputed_from_its_runs(tmp_path):
    p = results_folder(tmp_path / "borrowed")
    path = write(
        tmp_path / "claims.toml",
        f"""
[[claims]]
id = "ours"
kind = "results"
results = "borrowed"
comparison = "coupling"
claimed_p = "{p:.4f}"
claimed_survives = true
""",
    )
    wrong = write(tmp_path / "wrong.toml", path.read_text().replace(f"{p:.4f}", "0.4"))
    assert "p = 0.4 does not lie in" in check_claims(wrong).iloc[0]["why"]
    row = check_claims(path).iloc[0]
    assert row["verdict"] == ("consistent" if p <= 0.05 / 4 else "inconsistent")
    assert row["p"] == row["p_min"] == row["p_max"] == pytest.approx(p, rel=1e-12)
    assert (row["family_size"], row["alternative"], row["exact_floor"]) == (4, "less", 0.05)
    for old, new, said in (
        ('"coupling"', '"cuopling"', "no comparison 'cuopling'; did you mean \"coupling\""),
        ('"borrowed"', '"absent"', "absent"),
        ("claimed_survives", 'alternative = "greater"\nclaimed_survives', "declares less"),
    ):
        write(path, path.read_text().replace(old, new))
        with pytest.raises(ValueError, match=said):
            check_claims(path)
        write(path, path.read_text().replace(new, old))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "claims: is required and missing"),
        ("claims = []", "claims"),
        ("[[claims]]\nid = 1", "is no valid TOML|kind"),
        ('[[claims]]\nid = "a"\nkind = "t_dff"\nt = 1.0', r"claims\.toml:3: claims\[1\]\.kind"),
        ('[[claims]]\nid = "a"\nkind = "t_df"\nt = 1.0\nalhpa = 0.1', 'did you mean "alpha"?'),
        ('[[claims]]\nid = "a"\nkind = "t_df"', "a claim of kind 't_df' needs t"),
        ('[[claims]]\nid = "a"\nkind = "t_df"\nt = "big"', "'big' is no number"),
        ('[[claims]]\nid = "a"\nkind = "t_df"\nt = inf', "'inf' is not finite"),
        ('[[claims]]\nid = "a"\nkind = "t_df"\nt = 0e400', "'0e400' is no number"),
        ('[[claims]]\nid = "a"\nkind = "t_df"\nt = 1.0\ndf = 0', "freedom are positive; got 0"),
        ('[[claims]]\nid = "a"\nkind = "t_df"\nt = 1.0\nclaimed_p = "small"', "is no p value"),
        ('[[claims]]\nid = "a"\nkind = "one_sample"\ntarget = 1\nspread_treatment = -0.5',
         "a spread cannot be negative"),
        ('[[claims]]\nid = "a"\nkind = "paired"\ntreatment = [1.5]\nbaseline = [1.0, 2.0]',
         "come in pairs; got 1 and 2"),
        ('[[claims]]\nid = "a"\nkind = "p_only"\nclaimed_p = "0.01"\n' * 2, "is there twice"),
        ("[[claims]\n", "is no valid TOML"),
    ],
)  # fmt: skip
def test_a_broken_file_is_refused_with_its_line_and_remedy(tmp_path, text, said):
    path = write(tmp_path / "claims.toml", text)
    with pytest.raises(ValueError, match=said) as caught:
        load_claims(path)
    assert "claims.toml" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no claim"),
        ("id,kind\na,t_df\n", "row 2: a claim of kind 't_df' needs t"),
        ("id,kind,tt\na,t_df,1.0\n", "unknown column 'tt'; "),
        ("id,kind,t\na,t_df\n", "row 2 is not as long as the header"),
        ('id,kind,t\na,"t_df,1.0\n', "is no CSV"),
        ("id,kind,t,n_baseline\na,t_df,1.0,three\n", "n_baseline"),
    ],
)
def test_a_broken_table_of_claims_is_refused_with_its_row(tmp_path, text, said):
    with pytest.raises(ValueError, match=said):
        load_claims(write(tmp_path / "claims.csv", text))


def test_figures_keep_the_digits_with_which_they_are_written(tmp_path):
    text = '[[claims]]\nid = "a"\nkind = "t_df"\nt = 2.10\ndf = 8\n'
    assert load_claims(write(tmp_path / "a.toml", text))[0].t == "2.10"
    table = "id,kind,t,df\na,t_df,2.10,8\n"
    assert load_claims(write(tmp_path / "a.csv", table))[0].t == "2.10"


@settings(max_examples=300)
@given(st.data())
def test_no_damage_to_a_claims_file_ends_in_a_traceback(tmp_path_factory, data):
    folder = tmp_path_factory.getbasetemp()
    name = data.draw(st.sampled_from(["claims.csv", "claims.toml"]))
    source = FOLDERS[0] if name == "claims.csv" else ROOT / "results" / "paper"
    text = (source / name).read_bytes()[:2500]
    place = data.draw(st.integers(0, len(text)))
    pieces = st.sampled_from([b'"', b",", b"\n", b"\0", b"\xff", b"nan", b"1e999", b"[", b"-"])
    damage = data.draw(st.binary(max_size=4) | pieces)
    path = folder / name
    path.write_bytes(text[:place] + damage + text[place + data.draw(st.integers(0, 9)) :])
    with suppress(ValueError):
        checked = check_claims(path)
        assert json.loads(as_json(checked))["claims"]
        assert as_text(checked)


def cqk(*arguments):
    return subprocess.run([CQK, *map(str, arguments)], capture_output=True, text=True, timeout=120)


def test_the_command_prints_verdicts_or_json_and_its_exit_code_says_the_worst(tmp_path):
    path = FOLDERS[0] / "claims.csv"
    ended = cqk("check", path)
    assert ended.returncode == 1
    assert ended.stdout.endswith("28 claims: 26 consistent, 2 inconsistent\n")
    document = json.loads(cqk("check", path, "--json").stdout)
    assert list(document) == ["claims"]
    assert len(document["claims"]) == 28
    assert document["claims"][0]["largest_family"] == 0
    assert cqk("check", ROOT / "results" / "paper" / "claims.toml").returncode == 0
    ended = cqk("check", tmp_path / "absent.toml")
    assert ended.returncode == 2
    assert "cannot be read" in ended.stderr
