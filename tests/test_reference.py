"""Every statistic against R 4.2.2 and 60-digit arithmetic; see reference/README_stats.md.

Files are read from tests/reference and from the folder CQK_REFERENCE_DIR, where it is set.
"""

import csv
import math
import os
import random
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import rankdata

from analysis.degenerate import NoTestError, Reason
from analysis.effect import bonett_d, hedges_g
from analysis.multiplicity import adjust, survives
from analysis.paired import paired_t, sign_flip_test
from analysis.power import minimum_detectable, power, seeds_needed
from analysis.resample import permutation_floor, permutation_test
from analysis.rounding import rounding_range
from analysis.spread import sd_from_spread
from analysis.student import p_value, quantile, satterthwaite
from analysis.welch import welch, welch_from_summary, welch_many

FOLDERS = [Path(__file__).parent / "reference"]
if os.environ.get("CQK_REFERENCE_DIR"):
    FOLDERS.append(Path(os.environ["CQK_REFERENCE_DIR"]))


def read(name):
    rows = []
    for folder in FOLDERS:
        if (folder / name).exists():
            with (folder / name).open(newline="") as file:
                rows += csv.DictReader(file)
    assert rows, f"{name} is in none of {FOLDERS}"
    return rows


def each(name, given="case"):
    """Run a test once for every row of a file that fills the column `given`."""
    rows = [row for row in read(name) if row[given] not in ("", "NA")]
    columns = ("case", "estimator", "method", "alternative", "conf_level")
    names = ["-".join(row[column] for column in columns if column in row) for row in rows]
    return pytest.mark.parametrize("row", rows, ids=names)


def numbers(text):
    return [float(value) for value in text.split(";")] if text else []


def shuffled(row):
    """Both arms in another order than the file's: no statistic of theirs may depend on it."""
    order = random.Random(row["case"])
    x, y = numbers(row["x"]), numbers(row["y"])
    return order.sample(x, len(x)), order.sample(y, len(y))


def side(row):
    return row["alternative"].replace(".", "-")


def check(got, row, column, rel=1e-11, abs=0.0):
    """Compare with a cell; an empty one, or R's NA, says nothing."""
    if row[column] not in ("", "NA"):
        assert got == pytest.approx(float(row[column]), rel=rel, abs=abs), column


@each("stats_reference.csv")
def test_welch_agrees_with_r(row):
    result = welch(*shuffled(row), side(row))
    # The file states R's own error where cancellation or underflow costs R digits.
    stated = re.search(r"max rel diff R vs 60-digit mpmath: ([\d.e+-]+)", row["notes"])
    stated_error = 2 * float(stated[1]) if stated else 0.0
    check(result.t, row, "t", max(1e-11, stated_error), abs=1e-14)
    rel = max(1e-11, min(stated_error, 1e-8))
    check(result.df, row, "df", rel)
    if float(row["p"]) > 1e-300:
        check(result.p, row, "p", rel)
    elif float(row["p"]) > 0:
        assert result.log10_p == pytest.approx(math.log10(float(row["p"])), rel=1e-9)
    width = abs(result.ci_two_sided[1] - result.ci_two_sided[0])
    check(result.ci_low, row, "ci_low", rel, abs=1e-13 * width)
    check(result.ci_high, row, "ci_high", rel, abs=1e-13 * width)


@each("stats_reference_mp.csv")
def test_welch_agrees_with_sixty_digits(row):
    result = welch(*shuffled(row), side(row), float(row["conf_level"]))
    check(result.mean_x, row, "mean_x", 1e-15)
    check(result.mean_y, row, "mean_y", 1e-15)
    check(result.sd_x, {"sd": math.sqrt(float(row["var_x"]))}, "sd", 1e-14)
    check(result.sd_y, {"sd": math.sqrt(float(row["var_y"]))}, "sd", 1e-14)
    check(result.difference, row, "diff", 1e-13)
    check(result.se, row, "se", 1e-13)
    check(result.t, row, "t", 1e-13)
    check(result.df, row, "df", 1e-13)
    check(result.p, row, "p", abs=5e-324)
    check(result.log10_p, row, "log10_p", abs=1e-300)
    check(result.ci_low, row, "ci_low")
    check(result.ci_high, row, "ci_high")


@each("ci_levels_reference.csv")
def test_intervals_at_other_levels_agree_with_r(row):
    data = next(other for other in read("stats_reference.csv") if other["case"] == row["case"])
    result = welch(*shuffled(data), side(row), float(row["conf_level"]))
    width = abs(result.ci_two_sided[1] - result.ci_two_sided[0])
    check(result.ci_low, row, "ci_low", abs=1e-13 * width)
    check(result.ci_high, row, "ci_high", abs=1e-13 * width)


@each("padjust_reference.csv")
def test_adjusted_p_values_agree_with_r(row):
    p, wanted = (
        np.array([math.nan if value == "NA" else float(value) for value in row[column].split(";")])
        for column in ("p_in", "p_adj")
    )
    method, family, alpha = row["method"].lower(), int(row["n_family"]), float(row["alpha"])
    if family < len(p):  # R forgets missing p values unless told the size of the family
        p, wanted = p[~np.isnan(p)], wanted[~np.isnan(wanted)]
    order = np.random.default_rng(len(p)).permutation(len(p))
    adjusted = adjust(p[order], method, family)
    np.testing.assert_allclose(adjusted, wanted[order], rtol=1e-11)
    # On the very edge m * (alpha / m) may exceed alpha; there the rule is p <= alpha / m.
    clear = ~(np.abs(wanted[order] - alpha) < 1e-12)
    np.testing.assert_array_equal((adjusted <= alpha)[clear], (wanted[order] <= alpha)[clear])
    if method in ("bonferroni", "holm", "bh"):
        judged = survives(p[order], alpha, family, method)
        np.testing.assert_array_equal(judged[clear], (wanted[order] <= alpha)[clear])


@each("effectsize_reference.csv")
def test_effect_sizes_agree_with_sixty_digits_and_r(row):
    x, y = shuffled(row)
    level = float(row["conf_level"])
    if row["estimator"] == "d_avg_bonett2008":
        result = bonett_d(x, y, level)
    else:
        kind, convention = row["estimator"].split("_")[0], row["estimator"].split("_")[-1]
        names = {"pooled": "pooled", "wsdf": "welch", "delacre": "delacre"}
        result = hedges_g(x, y, names[convention], level, side(row), corrected=kind == "hedges")
        check(result.df, row, "df")
        check(result.correction, row, "J")
    check(result.standardizer, row, "standardizer")
    for got, name in ((result.estimate, "estimate"), (result.ci_low, "ci_low"),
                      (result.ci_high, "ci_high")):  # fmt: skip
        check(got, row, name)
        check(got, row, f"r_{name}", rel=1e-4, abs=1e-4)


@each("power_reference.csv")
def test_power_agrees_with_thirty_digits(row):
    delta, sd_x, sd_y, alpha = (float(row[name]) for name in ("delta", "sd_x", "sd_y", "alpha"))
    n_x, n_y = int(row["n_x"]), int(row["n_y"])
    if row["alternative"] == "less":  # towards the alternative is positive here
        delta = math.copysign(delta, float(row["power"]) - alpha)
    check(power(delta, sd_x, n_x, sd_y, n_y, alpha, side(row)), row, "power")
    se, df = satterthwaite(sd_x, n_x, sd_y, n_y)
    check(df, row, "df")
    check(abs(delta) / se, {"ncp": abs(float(row["ncp"]))}, "ncp")
    sides = 2 if row["alternative"] == "two.sided" else 1
    check(quantile(1 - alpha / sides, df), {"t": abs(float(row["t_crit"]))}, "t")


@each("samplesize_reference.csv")
def test_seeds_and_detectable_differences_agree(row):
    sd_x, sd_y, alpha = float(row["sd_x"]), float(row["sd_y"]), float(row["alpha"])
    target = float(row["target_power"])
    if row["quantity"] == "integer n per arm":
        delta, n = abs(float(row["delta"])), int(row["value"])
        assert seeds_needed(delta, sd_x, sd_y, target, alpha, side(row)) == n
    else:
        n_x, n_y = int(row["n_x"]), int(row["n_y"])
        delta = minimum_detectable(sd_x, n_x, sd_y, n_y, target, alpha, side(row))
        check(delta, {"value": abs(float(row["value"]))}, "value")
    n_x, n_y = (int(row[name] or row["value"]) for name in ("n_x", "n_y"))
    check(power(delta, sd_x, n_x, sd_y, n_y, alpha, side(row)), row, "power_at_value")


@each("exact_reference.csv")
def test_permutation_agrees_with_rational_arithmetic(row):
    x, y = shuffled(row)
    by_mean = permutation_test(x, y, side(row), "mean")
    by_welch = permutation_test(x, y, side(row), "welch")
    assert by_mean.exact
    if row["n_perm"]:
        assert by_mean.labellings == by_welch.labellings == int(row["n_perm"])
    check(by_mean.p, row, "perm_meandiff_p")
    check(by_welch.p, row, "perm_welch_t_p")
    check(permutation_floor(len(x), len(y)), row, "min_attainable_one_sided_p")


@each("exact_reference.csv")
def test_permutation_of_decimals_and_ranks_agrees_with_r(row):
    # coin treats values as the decimals they were printed as; in integers so do we.
    places = max(len(text.partition(".")[2]) for text in f"{row['x']};{row['y']}".split(";"))
    x, y = ([round(v * 10**places) for v in arm] for arm in shuffled(row))
    check(permutation_test(x, y, side(row)).p, row, "perm_meandiff_p_R_coin")
    # Wilcoxon's exact test is the permutation of midranks.
    ranks = rankdata(x + y)
    ranked = permutation_test(ranks[: len(x)], ranks[len(x) :], side(row))
    check(ranked.p, row, "wilcoxon_exact_p_R")
    check(ranked.p, row, "wilcoxon_exact_ties_p_R")


@each("exact_reference.csv")
def test_student_agrees_with_r(row):
    x, y = shuffled(row)
    d = hedges_g(x, y, "pooled", corrected=False)
    t = d.estimate / math.sqrt(1 / len(x) + 1 / len(y))
    check(t, row, "student_t", abs=1e-14)
    check(d.df, row, "student_df")
    check(p_value(t, d.df, side(row)), row, "student_p")


@each("exact_reference.csv", given="paired_t")
def test_paired_tests_agree_with_r(row):
    x, y = (list(enumerate(numbers(row[name]))) for name in "xy")
    x, y = dict(x), dict(random.Random(row["case"]).sample(y, len(y)))
    result = paired_t(x, y, side(row))
    check(result.t, row, "paired_t")
    check(result.df, row, "paired_df")
    check(result.p, row, "paired_p")
    check(result.ci_low, row, "paired_ci_low")
    check(result.ci_high, row, "paired_ci_high")
    check(sign_flip_test(x, y, side(row)).p, row, "signflip_p")


def summary(row):
    names = ("mean_x", "spread_x", "n_x", "mean_y", "spread_y", "n_y")
    return [row[name] for name in names]


@each("summary_reference.csv")
def test_welch_from_printed_figures(row):
    mean_x, spread_x, n_x, mean_y, spread_y, n_y = map(float, summary(row))
    figures = (mean_x, spread_x, int(n_x), mean_y, spread_y, int(n_y))
    result = welch_from_summary(*figures, row["spread_kind"], side(row))
    for name in ("sd_x", "sd_y", "t", "df", "p", "ci_low", "ci_high"):
        check(getattr(result, name), row, name)
    misread = welch_from_summary(*figures, "sd", side(row))
    check(misread.p, row, "p_if_spread_read_as_sd")


@each("summary_reference.csv", given="p_min_rounding")
def test_range_of_p_over_the_rounding_box(row):
    mean_x, spread_x, n_x, mean_y, spread_y, n_y = summary(row)
    box = (mean_x, spread_x, int(n_x), mean_y, spread_y, int(n_y), row["spread_kind"], side(row))
    bounds = rounding_range(*box)
    low, high = float(row["p_min_rounding"]), float(row["p_max_rounding"])
    assert bounds.p_min <= low * 1.001
    assert bounds.p_max >= high * 0.999
    coarse_low, coarse_high = nine_point_range(row)
    assert coarse_low == pytest.approx(low, rel=0.02)
    assert coarse_high == pytest.approx(high, rel=0.02)
    if float(spread_x) > 0 and float(spread_y) > 0:  # else nine points miss an inner minimum
        assert bounds.p_min == pytest.approx(low, rel=0.02)
        assert bounds.p_max == pytest.approx(high, rel=0.02)


def nine_point_range(row):
    """The file's own search: nine points a figure, a spread below 0 moved to 0."""
    axes = []
    for text in (row["mean_x"], row["mean_y"], row["spread_x"], row["spread_y"]):
        half = 0.5 * 10.0 ** -len(text.partition(".")[2])
        axes.append(float(text) + np.linspace(-half, half, 9))
    mean_x, mean_y, spread_x, spread_y = np.meshgrid(*axes, sparse=True)
    n_x, n_y, kind = int(row["n_x"]), int(row["n_y"]), row["spread_kind"]
    sd_x, sd_y = (
        sd_from_spread(np.maximum(spread, 0), n, kind)
        for spread, n in ((spread_x, n_x), (spread_y, n_y))
    )
    p = welch_many(mean_x, sd_x, n_x, mean_y, sd_y, n_y, side(row)).p
    return np.nanmin(p), np.nanmax(p)


@each("refusals_reference.csv")
def test_degenerate_data_are_treated_as_recommended(row):
    x, y = shuffled(row)
    advice = row["recommended"]
    untestable = min(len(x), len(y)) < 2 or not np.isfinite(x + y).all()
    if "rescale" in advice:  # by a power of two, after which all is as for numbers near 1
        scale = -math.frexp(max(map(abs, x + y)))[1]
        here, there = welch(x, y), welch(np.ldexp(x, scale), np.ldexp(y, scale))
        assert (here.t, here.df, here.p) == (there.t, there.df, there.p)
        assert 0 < here.p < 1
    elif advice.startswith("refuse") or untestable:
        with pytest.raises(NoTestError) as refusal:
            welch(x, y)
        named = re.search(r"reason (\w+)", advice)
        if named and named[1] in set(Reason):
            assert refusal.value.reason == named[1]
        if "difference" in advice:
            assert math.isfinite(refusal.value.difference)
    else:  # a finite test, with a mark where one arm is constant
        result = welch(x, y)
        assert 0 < result.p < 1
        assert result.constant_arm == (min(len(set(x)), len(set(y))) == 1)
