"""Which curves are drawn: each declared pair once, in its own cell, by the seeds that both have."""

import numpy as np
import pandas as pd

from analysis import curve_plates

LEVEL = {"affine": 2.5, "plain": 3.0, "other": 4.0}


def make_runs(arms=("affine", "plain", "other"), sizes=(1,), seeds=(1, 2, 3)):
    return pd.DataFrame(
        [
            {"run_id": f"{arm}-{size}-{seed}", "arm": arm, "seed": seed, "size": size,
             "cell": f"size={size}", "split": split, "metric": "loss", "value": 1.0}
            for arm in arms for size in sizes for seed in seeds for split in ("valid", "test")
        ]
    )  # fmt: skip


def make_logged(runs):
    """Curves whose noise is the seed's, so that it cancels; a larger size doubles the level."""
    return pd.DataFrame(
        [
            {"run_id": run.run_id, "arm": run.arm, "seed": run.seed, "step": t, "tokens": 10 * t,
             "split": "train", "metric": metric, "value": LEVEL[run.arm] * run.size + noise}
            for run in runs.drop_duplicates("run_id").itertuples()
            for t, noise in enumerate(np.random.default_rng(run.seed).normal(size=5))
            for metric in ("loss", "gradient_norm")
        ]
    )  # fmt: skip


def declare(*comparisons):
    return pd.DataFrame(comparisons, columns=["comparison", "treatment", "baseline"])


def pairs(runs, declared, where=None):
    logged = curve_plates.logged_curves(runs, make_logged(runs), "loss")
    return curve_plates.of_pairs(logged, runs, declared, where or {}, "loss")


def test_a_pair_that_is_declared_twice_is_drawn_once_and_the_seeds_noise_is_gone():
    declared = declare(
        ("unpaired", "affine", "plain"), ("by seed", "affine", "plain"), ("far", "other", "plain")
    )
    plate = pairs(make_runs(), declared)
    means = plate.data.groupby("cell", sort=False)["mean"]
    assert list(means.groups) == ["affine against plain", "other against plain"]
    assert set(means.get_group("affine against plain").round(12)) == {-0.5}
    assert set(means.get_group("other against plain").round(12)) == {1.0}
    assert (plate.data["high"] - plate.data["low"]).max() < 1e-9
    assert set(plate.data["n"]) == {3}


def test_a_comparison_of_one_cell_takes_the_runs_of_that_cell():
    where = {"small": {"size": 1}, "large": {"size": 2}}
    declared = declare(("small", "affine", "plain"), ("large", "affine", "plain"))
    data = pairs(make_runs(sizes=(1, 2)), declared, where).data
    assert {(row.cell, round(row.mean, 9)) for row in data.itertuples(name="Row")} == {
        ("affine against plain\nsize=1", -0.5),
        ("affine against plain\nsize=2", -1.0),
    }


def test_without_shared_seeds_or_curves_nothing_is_drawn():
    declared = declare(("c", "affine", "plain"))
    apart = pd.concat([make_runs(("affine",), seeds=(1, 2)), make_runs(("plain",), seeds=(3, 4))])
    assert pairs(apart, declared) is None
    assert pairs(make_runs(("affine", "other")), declared) is None


def test_too_many_pairs_are_not_drawn():
    where = {f"c{size}": {"size": size} for size in range(13)}
    declared = declare(*((name, "affine", "plain") for name in where))
    assert pairs(make_runs(sizes=range(12)), declared[:12], where) is not None
    assert pairs(make_runs(sizes=range(13)), declared, where) is None


def test_every_arm_is_drawn_and_no_curve_is_no_figure():
    runs = make_runs()
    logged = curve_plates.logged_curves(runs, make_logged(runs), "loss")
    assert set(logged["metric"]) == {"loss"}
    assert len(curve_plates.of_arms(logged, "loss").pages) == 1
    assert curve_plates.of_arms(logged.iloc[:0], "loss") is None
