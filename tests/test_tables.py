"""Tables: the same cells in every format, nothing cut, and bold only when earned."""

import csv
import io
import math
import re

import numpy as np
import pandas as pd
import pytest

from analysis import tables
from analysis.tables import Table

NASTY = ["a|b", "x_$4^2$_&%", "[link](http://example.org)", "<b>bold</b>", "*star*", "back\\slash",
         "`code`", "--flag", "{brace}", "tilde~#1", "two\nlines"]  # fmt: skip


def make_comparisons(rows):
    base = {
        "metric": "loss", "split": "valid", "alternative": "less", "n_treatment": 3,
        "n_baseline": 3, "difference": -0.02, "ci_low": -0.03, "ci_high": -0.01, "p": 0.0031,
        "p_bonferroni": 0.0062, "p_holm": 0.0031, "family_size": 2, "alpha": 0.05,
        "hedges_g": -3.834, "verdict": "supported", "treatment": "affine", "baseline": "plain",
    }  # fmt: skip
    return pd.DataFrame([{**base, **row} for row in rows])


def make_summary(arms, cells=("",), metric="loss"):
    rows = [
        {"arm": arm, "cell": cell, "metric": metric, "split": "valid", "runs": 3, "n": 3,
         "mean": 3.2 - 0.01 * i, "sd": 0.002}
        for cell in cells for i, arm in enumerate(arms)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def cells_of(line):
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]


@pytest.mark.parametrize("name", NASTY)
def test_a_name_stays_one_cell_in_markdown(name):
    lines = tables.markdown(Table(("arm", "p"), ((name, "0.5"),))).splitlines()
    assert len(lines) == 3
    assert cells_of(lines[1]) == ["---", "---"]
    assert len(cells_of(lines[2])) == 2
    assert cells_of(lines[2])[1] == "0.5"


def test_markdown_marks_nothing_up_that_is_a_name():
    escaped = [tables.escape_markdown(name) for name in NASTY]
    assert escaped[0] == r"a\|b"
    assert escaped[2] == r"[link]\(http://example.org)"
    assert escaped[3] == "&lt;b>bold&lt;/b>"
    assert escaped[4] == r"\*star\*"
    assert escaped[10] == "two lines"


def test_ordinary_names_and_figures_read_plainly_in_markdown():
    for text in ("h0_low_rank", "[-0.02, 0.3]", "< 0.0001", "20.1 ± 0.1 (3)", "a & b"):
        assert tables.escape_markdown(text) == text


LATEX = {
    "a_b": r"a\_b", "50%": r"50\%", "R&D": r"R\&D", "$x$": r"\$x\$", "#1": r"\#1",
    "{}": r"\{\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "\\": r"\textbackslash{}", "<x>": r"\textless{}x\textgreater{}", "a|b": r"a\textbar{}b",
    "[a]": "{[}a{]}", "*": "{*}", "--flag": "-{}-flag", "---": "-{}-{}-", "–": "--",
    "-0.25": r"\(-\)0.25", "[-1.5, -0.5]": r"{[}\(-\)1.5, \(-\)0.5{]}", "1e-05": "1e-05",
    "v-2": "v-2", "0.5 ± 0.1": r"0.5 \(\pm\) 0.1",
}  # fmt: skip


@pytest.mark.parametrize(("text", "escaped"), LATEX.items())
def test_latex_escapes(text, escaped):
    assert tables.escape_latex(text) == escaped


def test_latex_is_one_booktabs_tabular_with_as_many_cells_in_every_row():
    rows = tuple((name, "-0.5", "20.1 ± 0.1 (3)") for name in NASTY)
    text = tables.latex(Table(("arm", "p & q", "mean"), rows, frozenset({(1, 2)})))
    lines = text.splitlines()
    assert lines[0] == r"\begin{tabular}{lrr}"
    assert [lines[i] for i in (1, 3, -2, -1)] == [
        r"\toprule", r"\midrule", r"\bottomrule", r"\end{tabular}",
    ]  # fmt: skip
    body = [lines[2], *lines[4:-2]]
    assert len(body) == 1 + len(rows)
    for line in body:
        assert line.endswith(r" \\")
        assert len(re.findall(r"(?<!\\)&", line)) == 2
        assert not re.search(r"(?<!\\)[$%#_^~]", line)
    assert [r"\textbf{" in line for line in body].index(True) == 2


def test_plain_text_is_aligned_and_cuts_nothing():
    long = "an arm whose name is much longer than any terminal of eighty columns would be wide, x"
    lines = tables.plain(Table(("arm", "p"), ((long, "0.1"), ("b", "0.2")))).splitlines()
    assert long in lines[2]
    assert lines[2].index("0.1") == lines[3].index("0.2") == lines[0].index("p")
    assert not any(line.endswith(" ") for line in lines)


def test_the_terminal_table_is_ascii_and_names_verdict_p_and_m():
    comparisons = make_comparisons(
        [{"comparison": "affine v plain"}, {"comparison": "b", "p": math.nan, "verdict": "refused"}]
    )
    text = tables.verdict_table(comparisons)
    assert text.isascii()
    first = text.splitlines()[2].split()
    assert first[3] == "supported"
    for figure in ("-0.020", "[-0.030,", "0.0031", "0.0062", "-3.83", "v"):
        assert figure in first
    assert "refused" in text.splitlines()[3]
    assert "nan" not in text


def test_the_adjusted_p_is_the_declared_one():
    comparisons = make_comparisons([{"comparison": "x"}])
    assert "p Bonferroni" in tables.verdict_table(comparisons)
    holm = tables.verdicts(comparisons, "holm")
    assert holm.rows[0][holm.header.index("p Holm")] == "0.0031"


def test_csv_reads_back_equal_and_missing_stays_missing(tmp_path):
    frame = pd.DataFrame({"arm": NASTY[:3], "value": [0.1 + 0.2, math.nan, 1e-300]})
    paths = tables.write(tmp_path / "x", tables.full(frame), frame)
    assert [path.name for path in paths] == ["x.csv", "x.md", "x.tex"]
    text = paths[0].read_bytes().decode()
    assert "\r" not in text
    header, *rows = csv.reader(io.StringIO(text))
    assert header == ["arm", "value"]
    assert [row[0] for row in rows] == NASTY[:3]
    assert [row[1] for row in rows] == ["0.30000000000000004", "", "1e-300"]
    assert "nan" not in "".join(path.read_text(encoding="utf-8") for path in paths)


def test_full_keeps_every_column_and_row():
    frame = pd.DataFrame(
        {"a": [1.0, math.nan], "b": [True, False], "c": [np.int64(7), np.int64(8)]}
    )
    assert tables.full(frame) == Table(("a", "b", "c"), (("1", "yes", "7"), ("–", "no", "8")))


def bold_arms(table):
    return {table.rows[i][0] for i, _ in table.strong}


def test_the_better_mean_alone_is_never_bold():
    table = tables.arm_means(make_summary(["plain", "affine", "gated"]), {})
    assert table.strong == frozenset()
    assert not any("†" in cell for row in table.rows for cell in row)


def test_bold_needs_a_supported_comparison_with_every_other_arm():
    summary = make_summary(["plain", "affine", "gated"])
    key = ("gated", "", "loss", "valid")
    one = tables.arm_means(summary, {key: frozenset({"plain"})})
    assert one.strong == frozenset()
    assert one.rows[2] == ("gated", "3.1800 ± 0.0020 (3)†")
    assert bold_arms(tables.arm_means(summary, {key: frozenset({"plain", "affine"})})) == {"gated"}


def test_an_arm_alone_in_its_cell_is_not_best_of_anything():
    assert tables.arm_means(make_summary(["plain"]), {}).strong == frozenset()


def test_cells_are_judged_each_on_their_own():
    summary = make_summary(["plain", "affine"], cells=("preset=60m", "preset=150m"))
    beaten = {("affine", "preset=150m", "loss", "valid"): frozenset({"plain"})}
    table = tables.arm_means(summary, beaten)
    assert table.header == ("arm", "cell", "loss (valid)")
    assert {table.rows[i][:2] for i, _ in table.strong} == {("affine", "preset=150m")}


def test_side_by_side_puts_both_verdicts_next_to_each_other():
    declared = make_comparisons([{"comparison": "x"}, {"comparison": "y"}])
    held_out = make_comparisons([{"comparison": "x", "split": "test", "verdict": "suggestive"}])
    table = tables.side_by_side(declared, held_out, ("valid", "test"))
    assert table.header[:3] == ("comparison", "verdict (valid)", "verdict (test)")
    assert table.rows[0][:3] == ("x", "supported", "suggestive")
    assert table.rows[1][:3] == ("y", "supported", "–")
