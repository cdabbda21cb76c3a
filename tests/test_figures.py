"""Figures draw exactly the rows they are given: nothing lost, nothing at 0 in place of nothing."""

import hashlib
import math

import matplotlib
import numpy as np
import pandas as pd
import pytest
from fontTools.ttLib import TTFont
from matplotlib import font_manager
from matplotlib.colors import to_rgb

from analysis import figures
from analysis.figures import style, typeface


def make_row(name, **changes):
    return {
        "comparison": name, "treatment": "affine", "baseline": "plain", "metric": "loss",
        "split": "valid", "alternative": "less", "difference": -0.02, "ci_low": -0.031,
        "ci_high": -0.009, "p": 0.004, "alpha": 0.05, "family_size": 4, "verdict": "supported",
        **changes,
    }  # fmt: skip


def make_seeds(names, values=(-0.03, -0.02, -0.01)):
    return pd.DataFrame(
        [{"comparison": n, "seed": i, "difference": v} for n in names for i, v in enumerate(values)]
    )


def drawn_points(axes, size=None):
    """Return the x and y of everything drawn as a marker."""
    lines = [line for line in axes.get_lines() if line.get_linestyle() == "None"]
    return [xy for line in lines for xy in np.column_stack(line.get_data()).tolist()]


def drawn_spans(axes, position):
    """Return the ends of the horizontal lines at a position, in drawing order."""
    return [
        tuple(line.get_xdata())
        for line in axes.get_lines()
        if line.get_linestyle() == "-" and list(line.get_ydata()) == [position, position]
    ]


def texts(figure):
    found = [text.get_text() for axes in figure.axes for text in axes.texts]
    labels = [t.get_text() for axes in figure.axes for t in axes.get_yticklabels()]
    return " ".join([*found, *labels]).replace("\n", " ")


def test_a_forest_draws_every_difference_interval_seed_and_verdict():
    rows = [
        make_row("a"),
        make_row("b", difference=0.004, ci_low=-0.006, ci_high=0.014, verdict="not supported"),
    ]
    (figure,) = figures.differences(rows, make_seeds(["a", "b"]))
    (axes,) = figure.axes
    points = drawn_points(axes)
    assert [-0.02, 0] in points
    assert [0.004, 1] in points
    assert len(points) == 2 + 6
    assert sorted(x for x, y in points if 0 < y < 1) == [-0.03, -0.02, -0.01]
    assert drawn_spans(axes, 0) == [(-0.031, -0.009)]
    assert drawn_spans(axes, 1) == [(-0.006, 0.014)]
    assert "supported" in texts(figure)
    assert "not supported" in texts(figure)
    assert next(line.get_xdata()[0] for line in axes.get_lines()) == 0
    assert axes.get_xlabel() == "difference in loss, nats per token"


def test_simultaneous_intervals_lie_behind_the_others():
    row = make_row("a", ci_simultaneous_low=-0.05, ci_simultaneous_high=0.01)
    (figure,) = figures.differences([row], make_seeds(["a"]))
    assert drawn_spans(figure.axes[0], 0) == [(-0.05, 0.01), (-0.031, -0.009)]
    thin, thick = (
        line.get_linewidth()
        for line in figure.axes[0].get_lines()
        if line.get_linestyle() == "-" and list(line.get_ydata()) == [0, 0]
    )
    assert thin < thick


@pytest.mark.parametrize("missing", [math.nan, None])
def test_a_missing_difference_is_said_and_not_drawn_at_zero(missing):
    row = make_row("a", difference=missing, ci_low=missing, ci_high=missing, verdict="refused")
    (figure,) = figures.differences(
        [row], make_seeds([]).reindex(columns=["comparison", "difference"])
    )
    assert drawn_points(figure.axes[0]) == []
    assert drawn_spans(figure.axes[0], 0) == []
    assert "no difference to draw" in texts(figure)
    assert "refused" in texts(figure)


def test_a_forest_of_many_rows_takes_pages_and_loses_none():
    names = [f"c{i}" for i in range(2 * figures.PAGE + 1)]
    pages = figures.differences([make_row(name) for name in names], make_seeds(names))
    assert len(pages) == 3
    assert " ".join(texts(page) for page in pages).count("supported") == len(names)
    labels = [t.get_text() for p in pages for t in p.axes[0].get_yticklabels()]
    assert labels == names


def make_seed_frames(arms, cells, splits, n=3, lost=0):
    rng = np.random.default_rng(2)
    runs = pd.DataFrame(
        [
            {"arm": a, "cell": c, "split": s, "value": rng.normal(3, 0.1)}
            for a in arms for c in cells for s in splits for _ in range(n)
        ]
    )  # fmt: skip
    summary = pd.DataFrame(
        [
            {"arm": a, "cell": c, "split": s, "runs": n + lost, "n": n, "mean": 3.0,
             "ci_low": 2.9, "ci_high": 3.1}
            for a in arms for c in cells for s in splits
        ]
    )  # fmt: skip
    return runs, summary


def test_every_run_is_a_point_beside_its_arms_mean():
    runs, summary = make_seed_frames(
        ["plain", "affine"],
        [
            "",
        ],
        ["valid", "test"],
    )
    (figure,) = figures.seeds(runs, summary, "loss")
    assert [axes.get_title("left") for axes in figure.axes] == ["valid", "test"]
    for axes in figure.axes:
        split = runs[runs["split"] == axes.get_title("left")]
        small = [x for x, y in drawn_points(axes) if y != round(y)]
        assert sorted(small) == sorted(split["value"])
        assert [xy for xy in drawn_points(axes) if xy[1] == round(xy[1])] == [[3.0, 0], [3.0, 1]]


def test_runs_without_a_value_are_counted_at_their_arm():
    runs, summary = make_seed_frames(["plain"], [""], ["valid"], n=2, lost=1)
    (figure,) = figures.seeds(runs, summary, "loss")
    assert "plain (2 of 3 runs)" in texts(figure)


def test_an_arm_without_any_value_keeps_its_line_empty():
    runs, summary = make_seed_frames(["plain", "lost"], [""], ["valid"])
    runs.loc[runs["arm"] == "lost", "value"] = math.nan
    gone = summary["arm"] == "lost"
    summary.loc[gone, ["n", "mean", "ci_low", "ci_high"]] = [0, math.nan, math.nan, math.nan]
    (figure,) = figures.seeds(runs, summary, "loss")
    assert all(y < 1 for _, y in drawn_points(figure.axes[0]))
    assert "lost (0 of 3 runs)" in texts(figure)


def test_cells_have_panels_of_their_own_on_as_many_pages_as_they_need():
    cells = [f"preset={i}m" for i in range(7)]
    runs, summary = make_seed_frames(["a", "b", "c", "d", "e"], cells, ["valid"])
    pages = figures.seeds(runs, summary, "loss")
    titles = [axes.get_title("left") for page in pages for axes in page.axes]
    assert titles == [f"{cell}\nvalid" for cell in cells]
    points = [xy for page in pages for axes in page.axes for xy in drawn_points(axes)]
    assert len(points) == len(runs) + len(summary)


def test_gain_is_drawn_against_size_with_its_intervals():
    rows = pd.DataFrame(
        [make_row("a", x=60e6, series="s"), make_row("b", x=455e6, series="s", difference=-0.01)]
    )
    (figure,) = figures.gain(rows, "parameters")
    axes = figure.axes[0]
    assert axes.get_xscale() == "log"
    assert [text.get_text() for text in axes.get_xticklabels()] == ["60M", "455M"]
    assert [list(line.get_ydata()) for line in axes.get_lines()] == [[0, 0], [-0.02, -0.01]]
    (collection,) = axes.collections
    assert [s[:, 1].tolist() for s in collection.get_segments()] == [[-0.031, -0.009]] * 2


def test_the_ladder_counts_the_declared_family_and_not_the_p_values_at_hand():
    rows = [make_row("b", p=0.03), make_row("a", p=0.004), make_row("c", p=math.nan)]
    (figure,) = figures.p_ladder(rows)
    axes = figure.axes[0]
    assert [t.get_text() for t in axes.get_yticklabels()] == ["a", "b"]
    assert drawn_points(axes) == [[0.004, 0], [0.03, 1]]
    assert axes.get_lines()[0].get_xdata()[0] == 0.05 / 4
    (steps,) = axes.patches
    assert steps.get_data().values.tolist() == [0.05 / 4, 0.05 / 3]
    assert "1 of 4 declared have none" in axes.get_xlabel()


def test_a_p_that_underflows_stays_on_the_axis():
    (figure,) = figures.p_ladder([make_row("a", p=0.0), make_row("b", p=1e-200)])
    assert [x for x, _ in drawn_points(figure.axes[0])] == [1e-12, 1e-12]


def test_the_family_shows_every_verdict_once():
    comparisons = pd.DataFrame(
        [
            make_row(name, split=split, verdict=verdict)
            for name, verdict in (("a", "supported"), ("b", "refused"))
            for split in ("valid", "test")
        ][:-1]
    )
    (figure,) = figures.family(comparisons)
    assert texts(figure).split()[:3] == ["supported", "supported", "refused"]
    assert [t.get_text() for t in figure.axes[0].get_xticklabels()] == ["loss\nvalid", "loss\ntest"]


def test_curves_draw_mean_and_band_of_every_arm():
    bands = pd.DataFrame(
        [
            {"arm": arm, "split": "train", "metric": "loss", "cell": "", "tokens": t, "n": 3,
             "mean": 3 - t / 9, "low": 2.9 - t / 9, "high": 3.1 - t / 9}
            for arm in ("plain", "affine") for t in range(5)
        ]
    )  # fmt: skip
    (figure,) = figures.curves(bands, "loss")
    (axes,) = figure.axes
    assert len(axes.get_lines()) == 2
    assert len(axes.collections) == 2
    assert axes.get_lines()[0].get_ydata().tolist() == [3 - t / 9 for t in range(5)]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "plain",
        "affine",
        "train",
    ]


def test_bands_of_many_arms_are_left_out():
    bands = pd.DataFrame(
        [{"arm": f"arm {i}", "split": "train", "metric": "loss", "cell": "", "tokens": t, "n": 3,
          "mean": i + t, "low": i + t - 1, "high": i + t + 1} for i in range(5) for t in range(3)]
    )  # fmt: skip
    (figure,) = figures.curves(bands, "loss")
    (axes,) = figure.axes
    assert len(axes.get_lines()) == 5
    assert not axes.collections


def test_more_arms_than_colours_are_told_apart_by_markers():
    bands = pd.DataFrame(
        [{"arm": f"arm {i}", "split": "train", "metric": "loss", "cell": "", "tokens": t, "n": 1,
          "mean": i + t, "low": None, "high": None} for i in range(23) for t in range(3)]
    )  # fmt: skip
    (figure,) = figures.curves(bands, "loss")
    looks = {(str(line.get_color()), line.get_marker()) for line in figure.axes[0].get_lines()}
    shown = {(str(h.get_color()), h.get_marker()) for h in figure.legends[0].get_lines()[:23]}
    assert len(looks) == 23
    assert shown == looks


def test_differences_of_curves_share_one_axis_around_zero():
    bands = pd.DataFrame(
        [{"arm": "x - y", "split": split, "metric": "loss", "cell": f"pair {i}", "tokens": t,
          "n": 2, "mean": 0.1 * i - t, "low": 0.1 * i - t - 0.2, "high": 0.1 * i - t + 0.2}
         for i in range(9) for split in ("train", "valid") for t in (0, 4, 8)]
    )  # fmt: skip
    first, second = figures.curve_differences(bands, "loss")
    shown = [axes for page in (first, second) for axes in page.axes if axes.get_visible()]
    assert [axes.get_title("left") for axes in shown] == [f"pair {i}" for i in range(9)]
    for i, axes in enumerate(shown):
        zero, train, valid = axes.get_lines()
        assert set(zero.get_ydata()) == {0}
        assert train.get_ydata().tolist() == valid.get_ydata().tolist()
        assert train.get_ydata().tolist() == pytest.approx([0.1 * i, 0.1 * i - 4, 0.1 * i - 8])
        assert axes.get_ylim() == pytest.approx((-1.05 * 8.2, 1.05 * 8.2))
    assert [text.get_text() for text in first.legends[0].get_texts()] == ["train", "valid"]


def test_more_cells_than_panels_take_pages():
    row = {"arm": "a", "split": "train", "metric": "loss", "n": 1, "mean": 1.0}
    bands = pd.DataFrame(
        [{**row, "cell": f"c{i}", "tokens": t, "low": None, "high": None}
         for i in range(7) for t in (1, 2)]
    ).astype({"low": float, "high": float})  # fmt: skip
    pages = figures.curves(bands, "loss")
    shown = [axes for page in pages for axes in page.axes if axes.get_visible()]
    assert [axes.get_title("left") for axes in shown] == [f"c{i}" for i in range(7)]


@pytest.mark.parametrize("name", ["x_$4^2$_&%", "a" * 80, "two words " * 8, "%s {} \\frac"])
def test_any_name_can_be_drawn(tmp_path, name):
    (figure,) = figures.differences([make_row(name)], make_seeds([name]))
    assert figures.save(figure, tmp_path / "x").startswith(b"<?xml")


def test_the_same_rows_give_the_same_bytes(tmp_path):
    digests = set()
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (figure,) = figures.differences([make_row("x")], make_seeds(["x"]))
        svg = figures.save(figure, tmp_path / folder / "x.y")
        files = sorted((tmp_path / folder).iterdir())
        assert [path.name for path in files] == ["x.y.pdf", "x.y.png"]
        content = b"".join(path.read_bytes() for path in files) + svg
        assert b"Date" not in content
        digests.add(hashlib.sha256(content).hexdigest())
    assert len(digests) == 1


def test_a_pdf_embeds_one_truetype_subset(tmp_path):
    (figure,) = figures.differences([make_row("efficient fluff")], make_seeds(["efficient fluff"]))
    figures.save(figure, tmp_path / "x")
    content = (tmp_path / "x.pdf").read_bytes()
    assert content.count(b"/FontFile2") == 1
    assert b"/Type3" not in content


def test_colours_and_grid_are_seaborns():
    import seaborn

    assert list(style.COLOURS) == seaborn.color_palette("colorblind").as_hex()
    whitegrid = seaborn.axes_style("whitegrid")
    assert whitegrid.items() >= style.WHITEGRID.items()
    assert whitegrid.keys() - style.STYLE.keys() == {"image.cmap"}  # no image is drawn


def test_the_light_typeface_keeps_every_letter_and_its_width():
    light, whole = (
        TTFont(font_manager.findfont(name, fallback_to_default=False))
        for name in typeface.families()
    )
    assert "GSUB" not in light
    assert light.getBestCmap() == whole.getBestCmap()
    assert light["hmtx"].metrics == whole["hmtx"].metrics
    assert light["kern"].kernTables[0].kernTable == whole["kern"].kernTables[0].kernTable


def test_drawing_leaves_the_callers_plotting_state_alone(tmp_path):
    before = dict(matplotlib.rcParams)
    (figure,) = figures.family(pd.DataFrame([make_row("x")]))
    figures.save(figure, tmp_path / "x")
    assert dict(matplotlib.rcParams) == before
    from matplotlib import pyplot

    assert pyplot.get_fignums() == []


def luminance(colour):
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))


def test_verdicts_differ_in_shape_and_are_readable_on_white():
    shapes = [shape for shape, _ in figures.MARKS.values()]
    assert len(set(shapes)) == len(shapes)
    for _, colour in figures.MARKS.values():
        # 4.5 to 1 is the contrast that WCAG 2.1 asks of text, https://www.w3.org/TR/WCAG21/.
        assert 1.05 / (luminance(colour) + 0.05) >= 4.5


def make_grid():
    """A family of two pairs of arms over pairs x seq_len x angle, each cell with its own number."""
    return [
        make_row(f"{series} {p} {n} {a}", series=series, pairs=p, seq_len=n, angle=a,
                 metric="accuracy", verdict="not supported",
                 difference=sign * (p + n / 100 + a / 1000))
        for series, sign in (("x against y", 1), ("z against y", -1))
        for p in (8, 4) for n in (64, 32) for a in (7.5, 2.0)
    ]  # fmt: skip


def test_a_grid_draws_every_cell_with_its_number_verdict_and_place():
    rows = make_grid()
    rows[3]["verdict"] = "supported"
    rows[5] |= {"difference": math.nan, "verdict": "refused"}
    (figure,) = figures.grid_map(rows, ["pairs", "seq_len", "angle"])
    assert len(figure.axes) == 4
    for row in rows:
        panel = next(
            axes
            for axes in figure.axes
            if axes.get_title("left").endswith(f"seq_len={row['seq_len']}")
            and (row["series"] in figure.axes[0].get_title("left")) == (axes in figure.axes[:2])
        )
        place = [7.5, 2.0].index(row["angle"]), [8, 4].index(row["pairs"])
        text = next(t for t in panel.texts if t.get_position() == place).get_text()
        patch = next(
            p for p in panel.patches if np.allclose(np.add(p.get_xy(), (0.47, 0.45)), place)
        )
        assert text.split("\n")[-1] == row["verdict"]
        assert (patch.get_linewidth() > 2) == (row["verdict"] == "supported")
        if math.isnan(row["difference"]):
            assert text == "refused"
            assert to_rgb(patch.get_facecolor()) == (1, 1, 1)
        else:
            assert text.startswith("+" if row["difference"] > 0 else "-")
            assert float(text.split("\n")[0]) == pytest.approx(row["difference"], abs=0.01)
            red, _, blue = to_rgb(patch.get_facecolor())
            assert (red > blue) == (row["difference"] > 0)


def test_equal_differences_have_equal_colours_in_all_panels_and_pages():
    rows = [row | {"series": f"s{i}"} for i in range(6) for row in make_grid()[:8]]
    pages = figures.grid_map(rows, ["pairs", "seq_len", "angle"])
    assert len(pages) == 2
    colours = {}
    for page in pages:
        for axes in page.axes:
            for text, patch in zip(axes.texts, axes.patches, strict=True):
                colours.setdefault(text.get_text(), set()).add(patch.get_facecolor())
    assert len(colours) == 8
    assert all(len(found) == 1 for found in colours.values())
    titles = [axes.get_title("left") for page in pages for axes in page.axes]
    assert sum("seq_len=64" in title for title in titles) == 6


def test_a_grid_of_two_axes_has_one_panel_a_series():
    rows = [row for row in make_grid() if row["seq_len"] == 32]
    (figure,) = figures.grid_map(rows, ["pairs", "angle"])
    assert len(figure.axes) == 2
    assert [len(axes.patches) for axes in figure.axes] == [4, 4]


def test_values_by_distance_are_drawn_in_a_panel_per_cell_with_the_level_of_guessing():
    rows = pd.DataFrame(
        [{"arm": arm, "cell": cell, "x": x, "mean": level + x / 100}
         for cell in ("c1", "c2", "c3") for x in (1, 2, 8)
         for arm, level in (("plain", 0.3), ("affine", 0.5))]
    )  # fmt: skip
    (figure,) = figures.by_distance(rows, {"c1": 0.25, "c3": 0.125}, "accuracy")
    panels = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title("left") for axes in panels] == ["c1", "c2", "c3"]
    for axes, chance in zip(panels, (0.25, None, 0.125), strict=True):
        plain, affine, *dotted = axes.get_lines()
        assert plain.get_xydata().tolist() == [[1, 0.31], [2, 0.32], [8, 0.38]]
        assert affine.get_xydata().tolist() == [[1, 0.51], [2, 0.52], [8, 0.58]]
        assert [line.get_ydata()[0] for line in dotted] == ([] if chance is None else [chance])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["plain", "affine"]
