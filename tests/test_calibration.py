"""Error rates and coverage by simulation: what the tests promise, and what breaks the promise.

reference/simulation_rules.txt holds the same rates from 400,000 trials by another program.
"""

import math
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import special

from analysis.dunnett import dunnett
from analysis.effect import bonett_d, hedges_g, log_ratio
from analysis.equivalence import tost_many
from analysis.multiplicity import survives
from analysis.paired import paired_t
from analysis.pooled import mixed_model, random_effects, sign_consistency
from analysis.power import exact_power
from analysis.resample import bootstrap_interval, permutation_test
from analysis.sequential import sequential_plan
from analysis.single import crawford_howell
from analysis.student import p_value, satterthwaite
from analysis.welch import welch_many

pytestmark = pytest.mark.slow

RULES = (Path(__file__).parent / "reference" / "simulation_rules.txt").read_text()
ALPHAS = np.array([0.05, 0.01, 0.00625, 0.001])
TRIALS = 100_000


def monte_carlo(rate, trials, reference_trials=math.inf):
    """Four and a half standard errors of the difference of two simulated rates."""
    return 4.5 * math.sqrt(max(rate, 1e-5) * (1 - rate) * (1 / trials + 1 / reference_trials))


def agrees(rate, stated, trials=TRIALS):
    """A rate read from the file carries its own 400,000 trials and its rounding."""
    return abs(rate - stated) <= monte_carlo(stated, trials, 400_000) + 5e-5


def summarised(x, y):
    """Means, deviations and counts of many trials, one a row."""
    return (
        x.mean(axis=1), x.std(axis=1, ddof=1), x.shape[1],
        y.mean(axis=1), y.std(axis=1, ddof=1), y.shape[1],
    )  # fmt: skip


def welch_p(x, y, alternative="less"):
    return welch_many(*summarised(x, y), alternative).p


def normal(rng, n, sd=1.0, trials=TRIALS):
    return sd * rng.normal(size=(trials, n))


def lognormal(rng, n):
    """Skewed to the right with sigma 0.8, moved to mean 0 and deviation 1."""
    mean = math.exp(0.32)
    deviation = mean * math.sqrt(math.exp(0.64) - 1)
    return (np.exp(0.8 * rng.normal(size=(TRIALS, n))) - mean) / deviation


def arms_of(label, rng, n_x, n_y):
    """Draw both arms as a line of the file describes them."""
    if label.startswith("normal"):
        ratio = re.search(r"ratio (\d+) \(([xy])", label)
        sd = {"x": 1.0, "y": 1.0} | ({ratio[2]: float(ratio[1])} if ratio else {})
        return normal(rng, n_x, sd["x"]), normal(rng, n_y, sd["y"])
    skewed_x = label.startswith(("lognormal", "x lognormal"))
    skewed_y = label.startswith("lognormal") or "y lognormal" in label
    return (
        lognormal(rng, n_x) if skewed_x else normal(rng, n_x),
        lognormal(rng, n_y) if skewed_y else normal(rng, n_y),
    )


LINES = re.findall(
    r"^((?:normal|lognormal|x ).*?) +n=(\d+),(\d+) welch ([\d. ]+?) +student", RULES, re.M
)


@pytest.mark.parametrize(("label", "n_x", "n_y", "rates"), LINES)
def test_the_error_rate_of_welch_is_the_one_on_file(label, n_x, n_y, rates):
    rng = np.random.default_rng([int(n_x), int(n_y), len(label)])
    p = welch_p(*arms_of(label, rng, int(n_x), int(n_y)))
    for alpha, stated in zip(ALPHAS, map(float, rates.split()), strict=True):
        assert agrees((p <= alpha).mean(), stated), f"at {alpha}"


def stated(pattern):
    return [float(number) for number in re.search(pattern, RULES).groups()]


def test_stopping_as_soon_as_it_passes_inflates_as_on_file():
    rng = np.random.default_rng(1)
    x, y = normal(rng, 20), normal(rng, 20)
    passed = np.zeros(TRIALS, dtype=bool)
    rates = {}
    for n in range(3, 21):
        passed |= welch_p(x[:, :n], y[:, :n]) <= 0.05
        rates[n] = passed.mean()
    wanted = stated(r"optional stopping start 3: max5 (\S+) max10 (\S+) max20 (\S+)")
    for n, rate in zip((5, 10, 20), wanted, strict=True):
        assert agrees(rates[n], rate)


@pytest.mark.parametrize("arms", [3, 6, 10])
def test_many_arms_against_one_baseline_inflate_and_bonferroni_holds(arms):
    rng = np.random.default_rng(arms)
    baseline = normal(rng, 5)
    p = np.column_stack([welch_p(normal(rng, 5), baseline) for _ in range(arms)])
    raw, kept = stated(rf"min p over {arms} arms vs shared baseline: FWER (\S+), Bonferroni (\S+)")
    assert agrees((p.min(axis=1) <= 0.05).mean(), raw)
    assert agrees((p.min(axis=1) <= 0.05 / arms).mean(), kept)


def test_a_side_chosen_after_looking_doubles_the_rate():
    rng = np.random.default_rng(2)
    x, y = normal(rng, 5), normal(rng, 5)
    smaller = np.minimum(welch_p(x, y, "less"), welch_p(x, y, "greater"))
    assert agrees((smaller <= 0.05).mean(), stated(r"side picked after looking: (\S+)")[0])


def test_misread_spreads_inflate_as_on_file():
    rng = np.random.default_rng(3)
    for n, spread, pattern in (
        (5, 1 / math.sqrt(5), r"SE mistaken for SD \(n=5\): one-sided type I (\S+)"),
        (5, math.sqrt(4 / 5), r"ddof=0 sd n=5: (\S+)"),
        (3, math.sqrt(2 / 3), r"ddof=0 sd n=3: (\S+)"),
    ):
        mean_x, sd_x, _, mean_y, sd_y, _ = summarised(normal(rng, n), normal(rng, n))
        t = welch_many(mean_x, sd_x * spread, n, mean_y, sd_y * spread, n).t
        p = p_value(t, 2.0 * n - 2, "less")  # these lines of the file are Student's
        assert agrees((p <= 0.05).mean(), stated(pattern)[0])
    columns = welch_many(*summarised(normal(rng, 3), normal(rng, 3)))
    rate = (special.ndtr(columns.t) <= 0.05).mean()
    assert agrees(rate, stated(r"normal quantile instead of t, n=3: (\S+)")[0])


def test_runs_counted_twice_inflate_as_on_file():
    rng = np.random.default_rng(4)
    x, y = (np.tile(normal(rng, 3), 2) for _ in "xy")
    rate = (welch_p(x, y) <= 0.05).mean()
    assert agrees(rate, stated(r"3 seeds duplicated to n=6: type I (\S+)")[0])


@pytest.mark.parametrize("rho", ["0", "0.3", "0.6", "0.9"])
@pytest.mark.parametrize("n", [3, 5])
def test_shared_seeds_make_welch_timid_and_leave_the_paired_test_exact(n, rho):
    rng = np.random.default_rng([n, int(10 * float(rho))])
    shared, own = math.sqrt(float(rho)), math.sqrt(1 - float(rho))
    common = shared * normal(rng, n)
    x, y = common + own * normal(rng, n), common + own * normal(rng, n)
    rates = r"welch (\S+) paired (\S+)"
    wanted = stated(rf"rho {rho} n {n}: type I {rates} \| power at delta=1.5sd {rates}")
    for delta, (by_welch, by_pairs) in ((0.0, wanted[:2]), (1.5, wanted[2:])):
        digits = 0 if delta == 0.0 else 5e-4  # powers are printed to three digits
        assert abs((welch_p(x - delta, y) <= 0.05).mean() - by_welch) <= digits + slack(by_welch)
        d = x - delta - y
        t = d.mean(axis=1) / (d.std(axis=1, ddof=1) / math.sqrt(n))
        rate = (p_value(t, n - 1.0, "less") <= 0.05).mean()
        assert abs(rate - by_pairs) <= digits + slack(by_pairs)


def slack(rate):
    return monte_carlo(rate, TRIALS, 400_000) + 5e-5


def test_the_paired_interval_covers():
    rng = np.random.default_rng(5)
    trials = 5_000
    common, x, y = (normal(rng, 4, trials=trials) for _ in range(3))
    hits = 0
    for a, b in zip(common + 0.3 * x, common + 0.7 * y, strict=True):
        low, high = paired_t(dict(enumerate(a)), dict(enumerate(b)), confidence=0.9).ci_two_sided
        hits += low <= 0 <= high
    assert hits / trials == pytest.approx(0.9, abs=monte_carlo(0.9, trials))


@pytest.mark.parametrize(("n", "allowed"), [(3, 0.045), (5, 0.02), (10, 0.008)])
@pytest.mark.parametrize("ratio", [1.0, 3.0])
def test_welch_intervals_cover_at_every_level(n, allowed, ratio):
    """Equal arms are covered too often at few seeds, never clearly too rarely."""
    rng = np.random.default_rng([n, int(ratio)])
    levels = np.array([[0.8], [0.95], [1 - 0.05 / 8]])
    columns = welch_many(*summarised(normal(rng, n, ratio) - 2, normal(rng, n)), "less", levels)
    covered = ((columns.ci_two_sided_low <= -2) & (columns.ci_two_sided_high >= -2)).mean(axis=1)
    one_sided = (columns.ci_high >= -2).mean(axis=1)
    for rates in (covered, one_sided):
        excess = rates - levels[:, 0]
        assert (excess > -0.006).all()
        assert (excess < allowed).all()


@pytest.mark.parametrize("delta", [0.0, 1.5])
@pytest.mark.parametrize(
    ("convention", "ratio"), [("pooled", 1.0), ("delacre", 1.0), ("welch", 3.0)]
)
def test_the_interval_of_g_covers(convention, ratio, delta):
    """Exact for the pooled convention with equal variances; close for the other two."""
    rng = np.random.default_rng(6)
    trials, n = 3_000, 6
    truth = delta / (1.0 if convention == "pooled" else math.sqrt((ratio**2 + 1) / 2))
    hits = 0
    for x, y in zip(
        normal(rng, n, ratio, trials) + delta, normal(rng, n, 1.0, trials), strict=True
    ):
        d = hedges_g(x, y, convention, corrected=False)
        hits += d.ci_low <= truth <= d.ci_high
    bias = 0.0 if convention == "pooled" else 0.015
    assert hits / trials == pytest.approx(0.95, abs=bias + monte_carlo(0.95, trials))


def test_bonetts_interval_covers_with_enough_seeds():
    rng = np.random.default_rng(7)
    trials, n = 4_000, 25
    pairs = zip(normal(rng, n, 2.0, trials) + 1, normal(rng, n, 1.0, trials), strict=True)
    intervals = [bonett_d(x, y) for x, y in pairs]
    hits = np.mean([d.ci_low <= 1 / math.sqrt(2.5) <= d.ci_high for d in intervals])
    assert hits == pytest.approx(0.95, abs=0.01 + monte_carlo(0.95, trials))


def test_the_interval_of_a_ratio_covers():
    rng = np.random.default_rng(8)
    trials = 4_000
    pairs = zip(
        np.exp(normal(rng, 7, 0.1, trials)), np.exp(normal(rng, 7, 0.1, trials) + 0.2), strict=True
    )
    ratios = [log_ratio(x, y) for x, y in pairs]
    hits = np.mean([r.ci_low <= math.exp(-0.2) <= r.ci_high for r in ratios])
    assert hits == pytest.approx(0.95, abs=0.006 + monte_carlo(0.95, trials))


@pytest.mark.parametrize(("n", "coverage"), [(3, 0.80), (5, 0.88), (10, 0.91)])
def test_the_bootstrap_covers_too_rarely_as_its_docstring_says(n, coverage):
    rng = np.random.default_rng(n)
    trials = 3_000
    hits = 0
    for x, y in zip(normal(rng, n, 1, trials), normal(rng, n, 1, trials), strict=True):
        interval = bootstrap_interval(x, y, rng, resamples=499)
        hits += interval.ci_low <= 0 <= interval.ci_high
    assert hits / trials == pytest.approx(coverage, abs=monte_carlo(coverage, trials))


@pytest.mark.parametrize("statistic", ["mean", "welch"])
def test_exact_permutation_rejects_at_its_own_steps(statistic):
    rng = np.random.default_rng(9)
    trials = 5_000
    p = np.array([
        permutation_test(x, y, statistic=statistic).p
        for x, y in zip(normal(rng, 4, 1, trials), normal(rng, 4, 1, trials), strict=True)
    ])  # fmt: skip
    for step in (1, 3, 7, 35):
        assert (p <= step / 70 + 1e-12).mean() == pytest.approx(
            step / 70, abs=monte_carlo(step / 70, trials)
        )


@pytest.mark.parametrize("n", [3, 5, 10])
def test_equivalence_is_wrong_at_most_as_often_as_alpha(n):
    rng = np.random.default_rng(n + 20)
    columns = welch_many(*summarised(normal(rng, n) + 2.0, normal(rng, n, 2.0)))
    rate = (tost_many(columns.difference, columns.se, columns.df, -2.0, 2.0) <= 0.05).mean()
    assert rate <= 0.05 + 0.004 + monte_carlo(0.05, TRIALS)
    assert rate >= 0.01


def test_one_run_against_many_keeps_alpha():
    rng = np.random.default_rng(10)
    trials = 20_000
    many, one = normal(rng, 4, 1, trials), rng.normal(size=trials)
    p = np.array([crawford_howell(a, b).p for a, b in zip(one, many, strict=True)])
    for alpha in (0.05, 0.01):
        assert (p <= alpha).mean() == pytest.approx(alpha, abs=monte_carlo(alpha, trials))


@pytest.mark.parametrize(
    ("n_x", "sd_x", "n_y", "sd_y", "delta"),
    [(3, 1, 3, 1, 4.0), (5, 1, 5, 1, 1.5), (10, 1, 10, 3, 2.0), (3, 1, 6, 1, 2.0), (9, 1, 5, 2, 2)],
)
def test_exact_power_is_how_often_the_test_finds_the_difference(n_x, sd_x, n_y, sd_y, delta):
    rng = np.random.default_rng(n_x + n_y)
    x, y = normal(rng, n_x, sd_x) - delta, normal(rng, n_y, sd_y)
    for alternative in ("less", "two-sided"):
        p = welch_p(x, y, alternative)
        for alpha in (0.05, 0.05 / 8):
            wanted = exact_power(delta, sd_x, n_x, sd_y, n_y, alpha, alternative)
            assert (p <= alpha).mean() == pytest.approx(wanted, abs=monte_carlo(wanted, TRIALS))


@pytest.mark.parametrize("n", [3, 5, 6, 10])
@pytest.mark.parametrize("comparisons", [1, 2, 4, 8, 16])
def test_a_null_family_has_a_survivor_in_at_most_one_study_of_twenty(comparisons, n):
    rng = np.random.default_rng([comparisons, n])
    trials = 20_000
    for ratio in (1.0, 2.0):
        baseline = normal(rng, n, 1.0, trials)
        p = np.column_stack(
            [welch_p(normal(rng, n, ratio, trials), baseline) for _ in range(comparisons)]
        )
        any_bonferroni = (p <= 0.05 / comparisons).any(axis=1).mean()
        assert any_bonferroni <= 0.05 + 0.003 + monte_carlo(0.05, trials)
        holm = np.mean([survives(row, 0.05, comparisons, "holm").any() for row in p[:2_000]])
        assert holm <= 0.05 + monte_carlo(0.05, 2_000)


def test_dunnett_keeps_alpha_for_all_arms_together():
    rng = np.random.default_rng(12)
    trials = 300
    smallest = [
        dunnett(list(rng.normal(size=(3, 4))), rng.normal(size=4)).p.min() for _ in range(trials)
    ]
    for level in (0.05, 0.3, 0.6):
        assert np.mean(np.array(smallest) <= level) == pytest.approx(
            level, abs=monte_carlo(level, trials)
        )


@pytest.mark.parametrize(
    ("spending", "ratio", "most"),
    [
        ("obrien_fleming", 1.0, 1.05),
        ("pocock", 1.0, 1.05),
        ("obrien_fleming", 3.0, 1.35),
        ("obrien_fleming", 10.0, 1.35),
        ("pocock", 10.0, 2.1),
    ],
)
@pytest.mark.parametrize("looks", [(3, 6, 9, 12), tuple(range(3, 13)), (5, 10), (3, 5)])
def test_a_sequential_plan_keeps_alpha_as_its_docstring_says(looks, spending, ratio, most):
    rng = np.random.default_rng([len(looks), int(ratio)])
    x, y = normal(rng, looks[-1], ratio), normal(rng, looks[-1])
    p = {n: welch_p(x[:, :n], y[:, :n]) for n in looks}
    for alpha in (0.05, 0.05 / 8):
        plan = sequential_plan(looks, alpha, spending)
        rejected = np.any([p[n] <= level for n, level in zip(looks, plan.levels, strict=True)], 0)
        assert rejected.mean() <= alpha * most + monte_carlo(alpha, TRIALS)


def test_the_looks_of_a_plan_without_spending_would_not_keep_alpha():
    rng = np.random.default_rng(16)
    x, y = normal(rng, 12), normal(rng, 12)
    rejected = np.any([welch_p(x[:, :n], y[:, :n]) <= 0.05 for n in (3, 6, 9, 12)], 0)
    assert rejected.mean() > 0.09


@pytest.mark.parametrize("cells", [3, 6, 12])
@pytest.mark.parametrize("tau", [0.0, 0.5])
def test_pooling_covers_with_cells_of_five_seeds(cells, tau):
    rng = np.random.default_rng(cells)
    trials, n = 3_000, 5
    truth = 0.3 + tau * rng.normal(size=(trials, cells))
    x = truth[..., None] + rng.normal(size=(trials, cells, n))
    y = rng.normal(size=(trials, cells, n))
    se, _ = satterthwaite(x.std(axis=2, ddof=1), n, y.std(axis=2, ddof=1), n)
    pooled = [random_effects(d, s) for d, s in zip((x - y).mean(axis=2), se, strict=True)]
    hits = np.mean([r.ci_low <= 0.3 <= r.ci_high for r in pooled])
    assert hits == pytest.approx(0.95, abs=0.02 + monte_carlo(0.95, trials))


def test_sign_consistency_never_exceeds_its_p():
    rng = np.random.default_rng(13)
    p = np.array([sign_consistency(cells).p for cells in rng.normal(size=(4_000, 7))])
    for level in np.unique(p):
        assert (p <= level).mean() == pytest.approx(level, abs=monte_carlo(level, 4_000))


def test_the_mixed_model_covers_with_many_cells_and_seeds():
    rng = np.random.default_rng(14)
    trials, cells, seeds = 300, 6, 5
    cell, seed, treated = (axis.ravel() for axis in np.indices((cells, seeds, 2)))
    hits = 0
    for _ in range(trials):
        value = rng.normal(size=cells)[cell] + 0.5 * rng.normal(size=seeds)[seed]
        value = value - 0.3 * treated + 0.2 * rng.normal(size=len(cell))
        fit = mixed_model(value, treated, cell, seed)
        hits += fit.ci_low <= -0.3 <= fit.ci_high
    assert hits / trials == pytest.approx(0.95, abs=monte_carlo(0.95, trials))


def test_a_baseline_taken_as_a_constant_inflates_and_one_run_does_not():
    rng = np.random.default_rng(15)
    for n, pattern in ((3, r"drawn from same dist\), n=3: (\S+)"), (5, r"same n=5: (\d\.\d+)")):
        x, published = normal(rng, n), rng.normal(size=TRIALS)
        se = x.std(axis=1, ddof=1) / math.sqrt(n)
        t = (x.mean(axis=1) - published) / se
        assert agrees((p_value(t, n - 1.0, "less") <= 0.05).mean(), stated(pattern)[0])
        as_one_run = p_value(t / math.sqrt(n + 1), n - 1.0, "less")
        assert (as_one_run <= 0.05).mean() == pytest.approx(0.05, abs=monte_carlo(0.05, TRIALS))
