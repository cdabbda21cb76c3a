"""Training curves: aligned without extrapolation, honest about runs that end early."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from analysis import curves


def make_curve(run_id, points, arm="plain", split="train"):
    return pd.DataFrame(points, columns=["tokens", "value"]).assign(
        run_id=run_id, arm=arm, split=split, metric="loss", seed=0, step=0
    )


def values_of(aligned, run_id):
    return aligned[aligned["run_id"] == run_id].set_index("tokens")["value"].to_dict()


def test_runs_of_different_pace_meet_at_all_token_counts():
    a = make_curve("a", [(0, 8.0), (7, 4.0), (13, 2.0)])
    b = make_curve("b", [(0, 6.0), (13, 3.0)])
    aligned = curves.align(pd.concat([b, a]))
    assert values_of(aligned, "a") == {0: 8.0, 7: 4.0, 13: 2.0}
    assert values_of(aligned, "b") == {0: 6.0, 7: pytest.approx(6 - 3 * 7 / 13), 13: 3.0}


def test_a_difference_is_taken_within_a_seed_where_both_have_a_value():
    rng = np.random.default_rng(5)
    tokens = [3, 7, 11]
    noise = {seed: rng.normal(size=3) for seed in (1, 2, 5)}

    def arm(name, level, points_of_seed):
        runs = [
            make_curve(f"{name}{seed}", list(zip(at, level + noise[seed], strict=False)), name)
            for seed, at in points_of_seed.items()
        ]
        aligned = [
            curves.align(run).assign(seed=s) for s, run in zip(points_of_seed, runs, strict=True)
        ]
        return pd.concat(aligned)

    treatment = arm("affine", 2.5, {1: tokens, 2: tokens})
    baseline = arm("plain", 3.0, {2: tokens, 1: tokens[:2], 5: tokens})
    found = curves.difference(treatment, baseline)
    assert set(found["arm"]) == {"affine - plain"}
    assert list(zip(found["seed"], found["tokens"], strict=True)) == [
        (1, 3), (1, 7), (2, 3), (2, 7), (2, 11),
    ]  # fmt: skip
    assert found["value"].tolist() == pytest.approx([-0.5] * 5)
    band = curves.band(found)
    assert band["n"].tolist() == [2, 2, 1]


def test_nothing_is_extrapolated():
    late = make_curve("late", [(5, 3.0), (7, 2.0)])
    long = make_curve("long", [(0, 9.0), (5, 4.0), (7, 3.0), (11, 1.0)])
    assert set(values_of(curves.align(pd.concat([late, long])), "late")) == {5, 7}


@pytest.mark.parametrize("blown", [math.nan, math.inf, -math.inf])
def test_a_diverged_run_ends_before_its_first_value_that_is_not_finite(blown):
    good = make_curve("good", [(1, 3.0), (2, 2.0), (3, 1.0)])
    bad = make_curve("bad", [(1, 3.0), (2, blown), (3, 5.0)])
    aligned = curves.align(pd.concat([good, bad]))
    assert values_of(aligned, "bad") == {1: 3.0}
    band = curves.band(aligned).set_index("tokens")
    assert band["n"].tolist() == [2, 1, 1]
    assert band.loc[3, "mean"] == 1.0
    assert math.isnan(band.loc[3, "low"])


def test_a_run_that_never_was_finite_is_absent():
    good = make_curve("good", [(1, 3.0)])
    bad = make_curve("bad", [(1, math.nan)])
    assert set(curves.align(pd.concat([good, bad]))["run_id"]) == {"good"}


def test_arms_and_splits_have_grids_of_their_own():
    a = make_curve("a", [(0, 1.0), (3, 1.0)])
    b = make_curve("b", [(0, 1.0), (2, 1.0), (3, 1.0)], arm="affine")
    c = make_curve("a", [(1, 5.0)], split="valid")
    aligned = curves.align(pd.concat([a, b, c]))
    plain = aligned[(aligned["arm"] == "plain") & (aligned["split"] == "train")]
    assert plain["tokens"].tolist() == [0, 3]


def test_two_values_at_one_token_count_are_refused():
    twice = make_curve("a", [(5, 1.0), (5, 2.0)])
    with pytest.raises(ValueError, match=r"run 'a' of arm 'plain' logged loss on train twice at 5"):
        curves.align(twice)


def test_the_band_is_scipys_t_interval():
    rng = np.random.default_rng(11)
    values = rng.normal(3, 0.2, (5, 3))
    runs = [make_curve(f"r{i}", list(zip((1, 2, 3), v, strict=True))) for i, v in enumerate(values)]
    band = curves.band(curves.align(pd.concat(runs).sample(frac=1, random_state=1)), 0.9)
    for column, row in zip(values.T, band.to_dict("records"), strict=True):
        interval = stats.ttest_1samp(column, 0).confidence_interval(0.9)
        assert row["n"] == 5
        assert row["mean"] == pytest.approx(column.mean(), rel=1e-14)
        assert (row["low"], row["high"]) == pytest.approx(interval, rel=1e-12)


@pytest.mark.parametrize("confidence", [0, 1, 95, math.nan])
def test_an_impossible_level_is_refused(confidence):
    with pytest.raises(ValueError, match="confidence must lie between 0 and 1"):
        curves.band(curves.align(make_curve("a", [(1, 1.0)])), confidence)


def test_smoothing_over_one_point_changes_nothing():
    aligned = curves.align(make_curve("a", [(1, 5.0), (2, 1.0), (3, 4.0)]))
    pd.testing.assert_frame_equal(curves.smooth(aligned, 1), aligned)


def test_smoothing_is_the_weighted_mean_of_what_came_before():
    aligned = curves.align(make_curve("a", [(1, 5.0), (2, 1.0), (3, 4.0)]))
    weight = 1 - 2 / (3 + 1)
    expected = [
        5.0,
        (5 * weight + 1) / (weight + 1),
        (5 * weight**2 + weight + 4) / (weight**2 + weight + 1),
    ]
    assert curves.smooth(aligned, 3)["value"].tolist() == pytest.approx(expected, rel=1e-14)


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=30), st.floats(1, 50))
def test_smoothing_stays_within_what_was_seen_and_keeps_a_constant(values, span):
    aligned = curves.align(make_curve("a", list(enumerate(values))))
    smoothed = curves.smooth(aligned, span)["value"].to_numpy()
    assert (smoothed <= np.maximum.accumulate(values) + 1e-9).all()
    assert (smoothed >= np.minimum.accumulate(values) - 1e-9).all()


def test_runs_are_smoothed_apart():
    runs = [make_curve("a", [(1, 0.0), (2, 0.0)]), make_curve("b", [(1, 9.0), (2, 9.0)])]
    smoothed = curves.smooth(curves.align(pd.concat(runs)), 10)
    assert values_of(smoothed, "a") == {1: 0.0, 2: 0.0}
    assert values_of(smoothed, "b") == {1: 9.0, 2: 9.0}


@pytest.mark.parametrize("span", [0, 0.5, -3, math.nan])
def test_an_impossible_span_is_refused(span):
    with pytest.raises(ValueError, match="span must be a number of logged points, 1 or more"):
        curves.smooth(curves.align(make_curve("a", [(1, 1.0)])), span)
