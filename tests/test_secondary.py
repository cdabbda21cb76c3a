"""Pooled evidence: declared, over grid cells, in a file of its own, and never a verdict."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from analysis.compare import compare
from analysis.pooled import MixedModel, random_effects, sign_consistency
from analysis.secondary import COLUMNS, _fitted, pooled_evidence
from analysis.study import parse_study
from analysis.table import tidy

STUDY = (
    'study.name = "s"\nseeds.values = [1, 2, 3, 4]\n'
    "grid = { seq_len = [8, 16, 32], lr = [0.1, 0.2] }\n[family]\n%s\n"
    '[[family.comparisons]]\nname = "new"\ntreatment = "new"\nbaseline = "old"\n'
)
POOLING = parse_study(STUDY % 'pooled = ["new"]')


def table(shift=-0.05, lost=()):
    rng = np.random.default_rng(7)
    rows = [
        {
            "arm": arm,
            "seed": seed,
            "seq_len": seq_len,
            "lr": lr,
            "split": "valid",
            "metric": "loss",
            "status": "done",
            "value": 3
            + seq_len / 100
            + seed / 20
            + (shift if arm == "new" else 0)
            + rng.normal(0, 0.03),
        }
        for seq_len in (8, 16, 32)
        for lr in (0.1, 0.2)
        for arm in ("new", "old")
        for seed in (1, 2, 3, 4)
        if (seq_len, lr) not in lost
    ]
    return tidy(pd.DataFrame(rows).astype(object), "table", axes=["lr"])


def test_nothing_is_pooled_that_was_not_declared():
    study = parse_study(STUDY % "")
    assert pooled_evidence(table(), compare(table(), study), study) is None


def test_the_pooled_rows_are_those_of_the_methods_by_themselves():
    rows = compare(table(), POOLING)
    found = pooled_evidence(table(), rows, POOLING)
    assert list(found.columns) == COLUMNS
    assert found["cells"].tolist() == [6, 6, 6]
    by_method = found.set_index("method")
    signs = sign_consistency(rows["difference"])
    assert by_method.loc["sign consistency", "p"] == signs.p
    se = (rows["difference"] / rows["t"]).abs()
    effects = random_effects(rows["difference"], se, "less")
    pooled = by_method.loc["random effects (Hartung-Knapp)"]
    assert (pooled["difference"], pooled["p"]) == pytest.approx((effects.difference, effects.p))
    assert by_method.loc["mixed model", "difference"] == pytest.approx(
        rows["difference"].mean(), rel=1e-6
    )


def test_a_fit_that_did_not_converge_has_no_figures():
    figures = dict.fromkeys(("difference", "se", "p", "ci_low", "ci_high"), 1.2345678912345)
    fit = MixedModel(**figures, sd_cell=0, sd_seed=0, sd_residual=1, converged=True, notes=("n",))
    assert _fitted(fit) == {
        **dict.fromkeys(("difference", "ci_low", "ci_high", "p"), 1.2345679),
        "note": "two-sided; n",
    }
    (note,) = _fitted(replace(fit, converged=False)).values()
    assert "did not converge" in note


def test_a_cell_without_a_test_is_left_out_and_told():
    runs = table(lost=[(8, 0.1)])
    found = pooled_evidence(runs, compare(runs, POOLING), POOLING)
    assert found["cells"].tolist() == [5, 5, 5]
    assert found["note"].str.startswith("1 cells without a test are left out").all()


def test_a_cell_of_equal_means_is_pooled_with_the_standard_error_of_its_test():
    runs = table()
    here = (runs["seq_len"] == 8) & (runs["lr"] == 0.1)
    for arm, values in (("new", [3.0, 3.1, 3.2, 3.3]), ("old", [3.3, 3.2, 3.1, 3.0])):
        runs.loc[here & (runs["arm"] == arm), "value"] = values
    rows = compare(runs, POOLING)
    assert (rows["t"] == 0).sum() == 1
    found = pooled_evidence(runs, rows, POOLING).set_index("method")
    se = np.sqrt((rows["sd_treatment"] ** 2 + rows["sd_baseline"] ** 2) / 4)
    effects = random_effects(rows["difference"], se, "less")
    pooled = found.loc["random effects (Hartung-Knapp)"]
    assert (pooled["difference"], pooled["p"]) == pytest.approx((effects.difference, effects.p))


def test_pooling_changes_no_verdict():
    declared = compare(table(), POOLING)
    plain = compare(table(), parse_study(STUDY % ""))
    pd.testing.assert_frame_equal(declared, plain)
