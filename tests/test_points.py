"""Picking runs: the right arm, cell, metric and split; every run counted, none invented."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis import points


def make_runs(arms=("plain", "affine"), n=3, **axes):
    """Return a shuffled table with one value per arm, grid cell and seed, all distinct."""
    cells = [{}]
    for axis, values in axes.items():
        cells = [{**cell, axis: value} for cell in cells for value in values]
    rows = [
        {"arm": arm, "seed": seed, **cell, "metric": metric, "split": split}
        for arm in arms for cell in cells for seed in range(n)
        for metric in ("loss", "ppl") for split in ("valid", "test")
    ]  # fmt: skip
    runs = pd.DataFrame(rows)
    rng = np.random.default_rng(5)
    runs["value"] = rng.normal(3, 0.1, len(runs))
    runs["run_id"] = [f"{row.arm}-{row.seed}-{i // 4}" for i, row in enumerate(runs.itertuples())]
    runs["status"] = "done"
    runs = points.completed(runs.sample(frac=1, random_state=3, ignore_index=True), "valid")
    where = {str(cell): cell for cell in cells}
    return points.with_cell(runs, points.cell_axes(runs, where)), where


def make_comparisons(names, **changes):
    row = {
        "treatment": "affine", "baseline": "plain", "metric": "loss", "split": "valid",
        "alternative": "less", "mean_baseline": 3.0, "difference": -0.1, "verdict": "supported",
        **changes,
    }  # fmt: skip
    return pd.DataFrame([{"comparison": name, **row} for name in names])


def test_a_table_of_others_gets_the_columns_it_lacks():
    frame = pd.DataFrame({"arm": ["a"], "seed": [1], "metric": ["m"], "value": [0.1]})
    completed = points.completed(frame, "valid")
    assert completed["split"].tolist() == ["valid"]
    assert completed["preset"].isna().all()
    assert "split" not in frame


@pytest.mark.parametrize("missing", [None, math.nan, pd.NA, ""])
def test_an_unnamed_split_is_empty(missing):
    frame = pd.DataFrame({"arm": ["a"], "split": [missing]})
    assert points.completed(frame, "valid")["split"].tolist() == [""]


def test_one_cell_has_no_name():
    runs, _ = make_runs()
    assert set(runs["cell"]) == {""}


def test_cells_are_named_by_what_varies_also_by_an_axis_of_the_study_alone():
    runs, _ = make_runs(preset=("60m", "150m"), seq_len=(512,), lr=(0.001, 0.01))
    assert set(runs["cell"]) == {
        f"preset={preset}, lr={lr:g}" for preset in ("60m", "150m") for lr in (0.001, 0.01)
    }


def test_summary_is_that_of_scipy():
    runs, _ = make_runs(n=7, preset=("60m", "150m"))
    summary = points.arm_summary(runs, confidence=0.9)
    assert len(summary) == 2 * 2 * 2 * 2
    for row in summary.to_dict("records"):
        keys = ("arm", "cell", "metric", "split")
        values = runs.loc[(runs[list(keys)] == [row[key] for key in keys]).all(axis=1), "value"]
        interval = stats.ttest_1samp(values, 0).confidence_interval(0.9)
        assert (row["n"], row["runs"]) == (7, 7)
        assert row["mean"] == pytest.approx(values.mean(), rel=1e-14)
        assert row["sd"] == pytest.approx(values.std(ddof=1), rel=1e-12)
        assert (row["ci_low"], row["ci_high"]) == pytest.approx(interval, rel=1e-12)


def test_a_run_without_a_value_is_counted_but_not_averaged():
    runs, _ = make_runs(n=3)
    lost = (runs["arm"] == "affine") & (runs["seed"] == 1)
    runs.loc[lost, ["value", "status"]] = [math.nan, "diverged"]
    summary = points.arm_summary(runs).set_index(["arm", "metric", "split"])
    row = summary.loc[("affine", "loss", "valid")]
    assert (row["n"], row["runs"]) == (2, 3)
    assert summary.loc[("plain", "loss", "valid"), "n"] == 3
    assert points.unfinished(runs)[["arm", "seed", "status"]].to_numpy().tolist() == [
        ["affine", 1, "diverged"]
    ]


@pytest.mark.parametrize("n", [0, 1])
def test_fewer_than_two_values_have_no_spread(n):
    runs, _ = make_runs(n=3)
    runs.loc[runs["seed"] >= n, "value"] = math.nan
    summary = points.arm_summary(runs)
    assert (summary["n"] == n).all()
    assert summary[["sd", "ci_low", "ci_high"]].isna().all(axis=None)


def test_seed_points_are_the_treatments_runs_of_that_cell_metric_and_split():
    runs, where = make_runs(preset=("60m", "150m"))
    name = "{'preset': '150m'}"
    chosen = runs[
        (runs["arm"] == "affine") & (runs["preset"] == "150m")
        & (runs["metric"] == "loss") & (runs["split"] == "valid")
    ].set_index("seed")["value"]  # fmt: skip
    seeds = points.seed_points(runs, make_comparisons([name], mean_baseline=2.5), where)
    assert len(seeds) == 3
    for row in seeds.itertuples():
        assert row.difference == chosen[row.seed] - 2.5


def test_a_comparison_without_a_baseline_mean_has_no_points():
    runs, where = make_runs()
    assert points.seed_points(runs, make_comparisons(["{}"], mean_baseline=math.nan), where).empty


def test_gain_needs_two_sizes():
    runs, where = make_runs(preset=("60m",))
    runs["params"] = 60
    assert points.gain_points(runs, make_comparisons(list(where)), where, "params").empty


def test_gain_follows_size_at_each_length():
    runs, where = make_runs(preset=("60m", "150m"), seq_len=(512, 1024))
    runs["params"] = runs["preset"].map({"60m": 60, "150m": 150})
    comparisons = make_comparisons(list(where))
    by_size = points.gain_points(runs, comparisons, where, "params")
    assert by_size.groupby("series")["x"].apply(list).to_dict() == {
        "affine against plain, seq_len=512": [60, 150],
        "affine against plain, seq_len=1024": [60, 150],
    }
    by_length = points.gain_points(runs, comparisons, where, "seq_len")
    assert by_length.groupby("series")["x"].apply(list).to_dict() == {
        "affine against plain, preset=60m": [512, 1024],
        "affine against plain, preset=150m": [512, 1024],
    }


def test_a_comparison_without_a_difference_is_no_gain():
    runs, where = make_runs(preset=("60m", "150m"))
    runs["params"] = runs["preset"].map({"60m": 60, "150m": 150})
    comparisons = make_comparisons(list(where))
    comparisons.loc[0, "difference"] = math.nan
    assert points.gain_points(runs, comparisons, where, "params").empty


def test_only_supported_one_sided_comparisons_count_as_beating():
    runs, where = make_runs(preset=("60m", "150m"))
    names = list(where)
    assert points.beaten(runs, make_comparisons(names[:1]), where) == {
        ("affine", "preset=60m", "loss", "valid"): frozenset({"plain"})
    }
    for changes in ({"verdict": "suggestive"}, {"alternative": "two-sided"}):
        assert points.beaten(runs, make_comparisons(names, **changes), where) == {}


def test_parts_of_a_metric_are_told_from_the_whole():
    names = [
        "accuracy",
        "accuracy_distance_8",
        "accuracy_pairs_4",
        "loss",
        "distance_8x",
        "pairs_4",
    ]
    kept = points.whole(pd.DataFrame({"metric": names}))["metric"].tolist()
    assert kept == ["accuracy", "loss", "distance_8x", "pairs_4"]


def test_values_by_distance_are_sorted_and_of_one_metric_and_split():
    rows = [
        {"arm": arm, "cell": "c", "metric": metric, "split": split, "mean": mean}
        for arm in ("a", "b")
        for metric, split, mean in [
            ("accuracy_distance_16", "test", 0.4),
            ("accuracy_distance_2", "test", 0.6),
            ("accuracy_distance_4", "test", math.nan),
            ("accuracy_distance_8", "valid", 0.5),
            ("loss_distance_8", "test", 0.7),
            ("accuracy", "test", 0.8),
        ]
    ]
    found = points.by_distance(pd.DataFrame(rows), "accuracy", "test")
    assert found[["arm", "x", "mean"]].to_numpy().tolist() == [
        ["a", 2, 0.6], ["b", 2, 0.6], ["a", 16, 0.4], ["b", 16, 0.4],
    ]  # fmt: skip
    assert points.by_distance(pd.DataFrame(rows), "accuracy", "train").empty


def test_a_level_shared_by_all_arms_is_given_by_cell():
    rows = pd.DataFrame(
        [{"arm": a, "cell": c, "metric": "accuracy_chance", "split": "test", "mean": m}
         for a in "xy" for c, m in (("c", 0.25), ("d", 0.5))]
    )  # fmt: skip
    assert points.of_metric(rows, "accuracy_chance", "test") == {"c": 0.25, "d": 0.5}
    assert points.of_metric(rows, "loss_chance", "test") == {}


def test_grid_points_name_the_axes_that_differ():
    _, where = make_runs(preset=("60m", "150m"), seq_len=(512, 1024))
    comparisons = make_comparisons(list(where))
    rows, axes = points.grid_points(comparisons, where)
    assert axes == ["preset", "seq_len"]
    assert set(rows["series"]) == {"affine against plain"}
    assert len(rows[["preset", "seq_len"]].drop_duplicates()) == 4
    assert points.grid_points(comparisons.iloc[:1], where)[1] == []
