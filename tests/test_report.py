"""The report: complete, exact about what it claims, and the same bytes for the same inputs."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.report import DeclaredComparison, FamilyDeclaration, ReportContext, write_report

ARMS = ("plain", "affine", "gated|x", "slow_arm")
PAIRS = (("affine", "plain"), ("gated|x", "plain"), ("slow_arm", "plain"))


def make_runs(arms=ARMS, n=3, presets=("tiny",), lengths=(64,)):
    rng = np.random.default_rng(7)
    rows = []
    for a, arm in enumerate(arms):
        for size, preset in enumerate(presets):
            for seq_len in lengths:
                for seed in range(n):
                    broken = arm == "slow_arm" and seed == 2
                    for split in ("valid", "test"):
                        loss = 3.2 - 0.02 * a - 0.3 * size + rng.normal(0, 0.003)
                        for metric, value in (("loss", loss), ("ppl", math.exp(loss))):
                            rows.append(
                                {
                                    "study": "demo", "run_id": f"{a}{size}{seq_len}{seed:02d}",
                                    "arm": arm, "attention": "softmax", "coupling": arm,
                                    "preset": preset, "params": 1000 * 10**size + a,
                                    "corpus": "pydocs", "tokenizer": "bytes", "seq_len": seq_len,
                                    "tokens": 500_000, "seed": seed, "split": split,
                                    "metric": metric, "value": math.nan if broken else value,
                                    "status": "diverged" if broken else "done",
                                }
                            )  # fmt: skip
    return pd.DataFrame(rows)


def compare_row(runs, name, treatment, baseline, metric, split, m, where=None):
    """One row as the comparison module would make it, from scipy alone."""
    chosen = runs[(runs["metric"] == metric) & (runs["split"] == split)]
    for axis, value in (where or {}).items():
        chosen = chosen[chosen[axis] == value]
    x = chosen.loc[chosen["arm"] == treatment, "value"].dropna().to_numpy()
    y = chosen.loc[chosen["arm"] == baseline, "value"].dropna().to_numpy()
    declared = int((chosen["arm"] == treatment).sum())
    test = stats.ttest_ind(x, y, equal_var=False, alternative="less")
    two = stats.ttest_ind(x, y, equal_var=False).confidence_interval()
    p = float(test.pvalue)
    verdict = "supported" if p <= 0.05 / m else "suggestive" if p <= 0.05 else "not supported"
    complete = len(x) == declared
    return {
        "comparison": name, "treatment": treatment, "baseline": baseline, "metric": metric,
        "split": split, "alternative": "less", "n_treatment": len(x), "n_baseline": len(y),
        "mean_treatment": x.mean(), "mean_baseline": y.mean(), "sd_treatment": x.std(ddof=1),
        "sd_baseline": y.std(ddof=1), "difference": x.mean() - y.mean(),
        "difference_percent": 100 * (x.mean() / y.mean() - 1), "ci_level": 0.95,
        "ci_low": two.low, "ci_high": two.high,
        "ci_one_sided": test.confidence_interval().high, "t": test.statistic, "df": test.df,
        "p": p, "family_size": m, "p_bonferroni": min(1, m * p), "p_holm": min(1, m * p),
        "alpha": 0.05, "survives_bonferroni": p <= 0.05 / m, "survives_holm": p <= 0.05 / m,
        "hedges_g": -3.1, "g_low": -6.0, "g_high": -0.9,
        "p_permutation": 0.05, "permutation_floor": 1 / math.comb(len(x) + len(y), len(x)),
        "minimum_detectable": 0.011, "verdict": verdict if complete else "incomplete",
        "flags": "normality" if complete else "missing_runs;diverged",
    }  # fmt: skip


def make_comparisons(runs, pairs=PAIRS, metrics=("loss", "ppl")):
    return pd.DataFrame(
        [
            compare_row(runs, f"{x} v {y}", x, y, metric, split, len(pairs))
            for metric in metrics
            for split in ("valid", "test")
            for x, y in pairs
        ]
    )


def make_context(pairs=PAIRS, **changes):
    family = FamilyDeclaration(
        metric="loss", split="valid", alternative="less", alpha=0.05, correction="bonferroni",
        family_size=len(pairs), replicate_on="test", failed_runs="incomplete",
        comparisons=tuple(
            DeclaredComparison(name=f"{x} v {y}", treatment=x, baseline=y) for x, y in pairs
        ),
    )  # fmt: skip
    values = {
        "study": "demo", "question": "Does the affine map lower the loss?", "family": family,
        "study_sha256": "ab" * 32, "family_sha256": "cd" * 32, "version": "0.1.0",
        "run_counts": {"done": 11, "diverged": 1, "failed": 0, "missing": 0},
        "flag_explanations": {"normality": "Three seeds. The verdict stands and says so."},
        "provenance": [{"host": "a", "device": "cpu", "threads": 1, "python": "3.11"}],
        "amendments": [{"time": "2024-01-02T03:04:05Z", "reason": "typo", "changed": "question"}],
        "notices": ["The demo proves the machinery, not the paper."],
    }  # fmt: skip
    return ReportContext(**{**values, **changes})


@pytest.fixture
def runs():
    return make_runs()


@pytest.fixture
def comparisons(runs):
    return make_comparisons(runs)


def test_the_report_and_its_figure_are_written(tmp_path, runs, comparisons):
    path = write_report(tmp_path, runs, comparisons, make_context())
    text = path.read_text(encoding="utf-8")
    assert path == tmp_path / "report.md"
    assert text.startswith("# demo\n")
    assert "cd" * 32 in text
    assert "1 diverged" in text
    for suffix in ("pdf", "png"):
        assert (tmp_path / "figures" / f"differences.{suffix}").stat().st_size > 1000


def test_same_inputs_give_the_same_bytes(tmp_path, runs, comparisons):
    for folder in ("first", "second"):
        write_report(tmp_path / folder, runs, comparisons, make_context())
    first, second = (
        {p.relative_to(tmp_path / d): p.read_bytes() for p in (tmp_path / d).rglob("*.*")}
        for d in ("first", "second")
    )
    assert len(first) >= 3
    assert first == second
