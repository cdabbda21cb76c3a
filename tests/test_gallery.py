"""Which figures a study gets: those its rows allow, and no others."""

import numpy as np
import pandas as pd
import pytest

from analysis.analyze import analyze

FAMILY = """
[study]
name = "s"
[data]
corpus = "mqar"
[data.task]
[seeds]
values = [1, 2, 3]
[grid]
pairs = [4, 8]
seq_len = [16, 32]
[family]
metric = "accuracy"
split = "test"
comparisons = [{ name = "c", treatment = "affine", baseline = "plain" }]
"""
METRICS = ("accuracy", "accuracy_chance_in_row", "accuracy_distance_2", "accuracy_distance_16")


@pytest.fixture
def drawn(tmp_path):
    """Analyses runs with some metrics and returns the folder that was written."""

    def draw(metrics=METRICS, lengths=(16, 32)):
        rng = np.random.default_rng(3)
        rows = [
            {"arm": arm, "seed": seed, "pairs": pairs, "seq_len": length, "split": "test",
             "metric": metric, "value": rng.normal(0.5, 0.02)}
            for arm in ("plain", "affine") for seed in (1, 2, 3) for pairs in (4, 8)
            for length in lengths for metric in metrics
        ]  # fmt: skip
        pd.DataFrame(rows).to_csv(tmp_path / "runs.csv", index=False)
        family = FAMILY.replace("[16, 32]", str(list(lengths)))
        (tmp_path / "family.toml").write_text(family, encoding="utf-8")
        analyze([tmp_path / "runs.csv"], family=tmp_path / "family.toml", out=tmp_path / "out")
        return tmp_path / "out"

    return draw


def figures_of(folder):
    return {path.stem for path in (folder / "figures").glob("*.pdf")}


def test_a_grid_of_two_axes_and_values_by_distance_get_figures_of_their_own(drawn):
    folder = drawn()
    assert {"grid", "by_distance"} <= figures_of(folder)
    report = (folder / "report.md").read_text(encoding="utf-8")
    assert "Differences over the grid" in report
    assert "Accuracy against distance" in report


def test_parts_of_a_metric_are_drawn_and_kept_but_not_tabulated_in_the_report(drawn):
    folder = drawn()
    assert "accuracy_distance" not in (folder / "report.md").read_text(encoding="utf-8")
    arms = pd.read_csv(folder / "tables" / "arms.csv")
    assert set(METRICS) == set(arms["metric"])


def test_one_axis_makes_no_grid_and_no_distances_no_figure(drawn):
    assert not {"grid", "by_distance"} & figures_of(drawn(METRICS[:1], lengths=(16,)))
