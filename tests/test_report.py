"""The report: complete, exact about what it claims, and the same bytes for the same inputs."""

import hashlib
import math
import os
import pickle
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.report import write_report
from analysis.report_context import DeclaredComparison, FamilyDeclaration, ReportContext

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
        "flags": "rests_on_normality" if complete else "runs_diverged",
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
        "flag_explanations": {
            "rests_on_normality": "So few runs rest on normality. The verdict is not changed.",
            "runs_diverged": "Declared runs diverged. The comparison is incomplete.",
        },
        "provenance": [{"host": "a", "device": "cpu", "threads": 1, "python": "3.11"}],
        "amendments": [{"time": "2024-01-02T03:04:05Z", "reason": "a typo", "changed": "question"}],
        "notices": ["The demo proves the machinery, not the paper."],
    }  # fmt: skip
    return ReportContext(**{**values, **changes})


@pytest.fixture
def runs():
    return make_runs()


@pytest.fixture
def comparisons(runs):
    return make_comparisons(runs)


def make_grid(presets=("60m", "150m"), lengths=(512, 1024)):
    """Return runs, comparisons and context of a study with one comparison per grid cell."""
    runs = make_runs(("plain", "affine"), presets=presets, lengths=lengths)
    cells = [{"preset": p, "seq_len": s} for p in presets for s in lengths]
    declared = tuple(
        DeclaredComparison(name=f"affine {cell}", treatment="affine", baseline="plain", where=cell)
        for cell in cells
    )
    rows = [
        compare_row(runs, d.name, "affine", "plain", "loss", split, len(cells), d.where)
        for d in declared for split in ("valid", "test")
    ]  # fmt: skip
    context = make_context()
    family = replace(context.family, comparisons=declared, family_size=len(cells))
    return runs, pd.DataFrame(rows), replace(context, family=family)


def make_curves(runs):
    tokens = np.arange(1, 8) * 1000
    return pd.concat(
        pd.DataFrame(
            {"run_id": run.run_id, "arm": run.arm, "seed": run.seed, "step": tokens // 1000,
             "tokens": tokens, "split": "train", "metric": "loss", "value": 3 + 1000 / tokens}
        )
        for run in runs.drop_duplicates("run_id").itertuples()
    )  # fmt: skip


def sections(text):
    return re.findall(r"^## (.*)$", text, flags=re.MULTILINE)


def relative_files(folder):
    return {p.relative_to(folder).as_posix(): p for p in folder.rglob("*") if p.is_file()}


def written(folder, *args, **options):
    return write_report(folder, *args, **options).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """A report with figures; drawn once, since its tests only read it."""
    folder = tmp_path_factory.mktemp("report")
    (folder / "runs.csv").write_text("x\n")
    runs = make_runs()
    return write_report(folder, runs, make_comparisons(runs), make_context()).parent


@pytest.fixture(scope="module")
def html(drawn):
    return (drawn / "report.html").read_text(encoding="utf-8")


def test_the_verdicts_come_first_and_everything_else_follows(drawn):
    text = (drawn / "report.md").read_text(encoding="utf-8")
    assert text.startswith("# demo\n\nDoes the affine map lower the loss?\n\n## Verdicts\n\n| comp")
    assert sections(text) == [
        "Verdicts", "The family", "Comparisons", "Flags", "Arms", "Runs", "Figures", "Provenance",
        "Files",
    ]  # fmt: skip


def test_the_report_states_the_family_its_hash_and_what_was_amended(tmp_path, runs, comparisons):
    text = written(tmp_path, runs, comparisons, make_context(), figures=False)
    assert 'alternative "less", alpha = 0.05, Bonferroni over m = 3; replicated on test' in text
    assert f"Family sha256 `{'cd' * 32}`" in text
    assert f"Study sha256 `{'ab' * 32}`" in text
    assert "2024-01-02T03:04:05Z: “a typo”, which changed question" in text
    assert "> The demo proves the machinery, not the paper." in text


def test_every_declared_comparison_has_a_paragraph_and_a_sentence(tmp_path, runs, comparisons):
    text = written(tmp_path, runs, comparisons, make_context(), figures=False)
    titles = re.findall(r"^### (.* v .*)$", text, flags=re.MULTILINE)
    assert titles == [
        "affine v plain: supported", r"gated\|x v plain: supported", "slow_arm v plain: incomplete",
    ]  # fmt: skip
    assert text.count("How to word this: ") == 3
    assert text.count("Side by side, declared split valid: ") == 3
    assert text.count("(1 in 20), against a threshold of 0.01667") == 2


def test_a_run_without_a_value_is_listed_and_counted(tmp_path, runs, comparisons):
    text = written(tmp_path, runs, comparisons, make_context(), figures=False)
    assert "11 done, 1 diverged, 0 failed, 0 missing." in text
    (run_id,) = runs.loc[runs["status"] == "diverged", "run_id"].unique()
    assert f"| {run_id} | slow_arm | – | 2 | diverged |" in text


def test_every_raised_flag_is_explained_and_located(tmp_path, runs, comparisons):
    text = written(tmp_path, runs, comparisons, make_context(), figures=False)
    assert (
        "- `runs_diverged`: Declared runs diverged. The comparison is incomplete. Raised for "
        "slow_arm v plain (loss on valid, loss on test, ppl on valid, ppl on test)." in text
    )
    assert "`rests_on_normality`" in text


def test_captions_say_how_many_runs_are_not_drawn(drawn):
    text = (drawn / "report.md").read_text(encoding="utf-8")
    assert text.count("1 run without a value cannot be drawn.") == 2


def test_only_the_declared_metric_and_split_are_in_the_verdict_table(tmp_path, runs, comparisons):
    shuffled = comparisons.sample(frac=1, random_state=0)
    text = written(tmp_path, runs, shuffled, make_context(), figures=False)
    table = text.split("## Verdicts")[1].split("###")[0]
    assert table.count("| loss | valid |") == 3
    assert "ppl" not in table


def test_all_linked_files_exist_and_all_files_are_linked(drawn):
    text = (drawn / "report.md").read_text(encoding="utf-8")
    linked = set(re.findall(r"\]\(([^)]*)\)", text))
    assert linked == set(relative_files(drawn)) - {"report.md"}
    assert {"figures/differences.pdf", "tables/arms.tex", "tables/replication.csv"} < linked
    assert "comparisons.csv" not in linked


def test_the_same_inputs_give_the_same_bytes_in_any_process(tmp_path):
    runs, comparisons, context = make_grid()
    family = replace(context.family, replicate_on=None)
    context = replace(context, curves=make_curves(runs), family=family)
    write_report(tmp_path / "0", runs, comparisons, context)
    (tmp_path / "inputs").write_bytes(pickle.dumps((runs, comparisons, context)))
    code = (
        "import pathlib, pickle, analysis.report as r; "
        "r.write_report(pathlib.Path('1'), *pickle.loads(pathlib.Path('inputs').read_bytes()))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "4", "TZ": "Asia/Tokyo"}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, check=True)
    first, second = (
        {n: hashlib.sha256(p.read_bytes()).hexdigest() for n, p in relative_files(folder).items()}
        for folder in (tmp_path / "0", tmp_path / "1")
    )
    assert first == second
    assert {f"figures/{name}.pdf" for name in (
        "differences", "seeds", "p_ladder", "gain_by_size", "gain_by_length", "curves", "family",
        "curve_differences",
    )} < set(first)  # fmt: skip


def test_the_callers_frames_are_not_changed(tmp_path, runs, comparisons):
    before = runs.copy(deep=True), comparisons.copy(deep=True)
    write_report(tmp_path, runs, comparisons, make_context(), figures=False)
    pd.testing.assert_frame_equal(runs, before[0])
    pd.testing.assert_frame_equal(comparisons, before[1])


def test_a_single_size_and_length_without_curves_have_no_such_figures(drawn):
    assert not list((drawn / "figures").glob("gain*"))
    assert not list((drawn / "figures").glob("curves*"))


def test_a_report_without_figures_draws_none_and_imports_nothing_that_draws(tmp_path):
    runs = make_runs()
    inputs = pickle.dumps((runs, make_comparisons(runs), make_context()))
    (tmp_path / "inputs").write_bytes(inputs)
    code = (
        "import pathlib, pickle, sys, analysis.report as r; "
        "inputs = pickle.loads(pathlib.Path('inputs').read_bytes()); "
        "r.write_report(pathlib.Path('out'), *inputs, figures=False); "
        "sys.exit(bool({'matplotlib', 'seaborn', 'torch'} & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    assert not (tmp_path / "out" / "figures").exists()
    assert (tmp_path / "out" / "report.html").exists()


def test_figures_of_an_earlier_report_do_not_stay_beside_a_later_one(tmp_path, runs, comparisons):
    figures = tmp_path / "figures"
    figures.mkdir()
    for name in ("curves.pdf", "differences-2.png", "my_own.pdf", "seeds_draft.png"):
        (figures / name).write_text("old")
    write_report(tmp_path, runs, comparisons, make_context())
    assert not (figures / "curves.pdf").exists()
    assert not (figures / "differences-2.png").exists()
    assert (figures / "my_own.pdf").read_text() == "old"
    assert (figures / "seeds_draft.png").read_text() == "old"


@pytest.mark.parametrize("split", ["", math.nan, None])
def test_a_table_of_others_needs_only_arm_seed_metric_and_value(tmp_path, runs, comparisons, split):
    bare = runs[(runs["split"] == "valid") & (runs["metric"] == "loss")]
    bare = bare[["arm", "seed", "metric", "value", "status"]]
    rows = comparisons[(comparisons["split"] == "valid") & (comparisons["metric"] == "loss")]
    family = replace(make_context().family, split="", replicate_on=None)
    text = written(tmp_path, bare, rows.assign(split=split), make_context(family=family))
    assert "affine v plain: supported" in text
    assert not re.search(r"\b(nan|None|NA)\b", text)
    assert "Side by side" not in text


def test_a_table_without_splits_is_drawn_under_the_declared_one(tmp_path, runs, comparisons):
    bare = runs[(runs["split"] == "valid") & (runs["metric"] == "loss")].drop(columns="split")
    rows = comparisons[(comparisons["split"] == "valid") & (comparisons["metric"] == "loss")]
    family = replace(make_context().family, replicate_on=None)
    text = written(tmp_path, bare, rows, make_context(family=family), figures=False)
    assert "| arm | loss (valid) |" in text
    assert "†" in text.split("| arm | loss (valid) |")[1]


def test_what_was_not_declared_is_reported_as_exploratory(tmp_path, runs, comparisons):
    rows = comparisons[comparisons["metric"] == "ppl"]
    text = written(tmp_path, runs, rows, make_context(), figures=False)
    assert "> Analysed here is ppl (valid), but loss (valid) was declared" in text
    assert "Declared: loss on the valid split" in text
    assert text.count("| ppl | valid |") == 3
    assert text.count("Side by side") == 3


def test_a_split_that_was_not_declared_has_no_replication(tmp_path, runs, comparisons):
    rows = comparisons[(comparisons["metric"] == "loss") & (comparisons["split"] == "test")]
    family = replace(make_context().family, replicate_on=None)
    text = written(tmp_path, runs, rows, make_context(family=family), figures=False)
    assert "> Analysed here is loss (test), but loss (valid) was declared" in text
    assert "Side by side" not in text


def test_pooled_evidence_is_marked_as_deciding_nothing(tmp_path, runs, comparisons):
    context = make_context(pooled=[{"method": "sign test", "p": 0.0312}])
    text = written(tmp_path, runs, comparisons, context, figures=False)
    assert "## Pooled evidence (secondary, decides nothing)" in text
    assert "| sign test | 0.0312 |" in text


class Page(HTMLParser):
    """Collects what a browser would fetch, run or show."""

    def __init__(self, text):
        super().__init__()
        self.sources, self.links, self.tags, self.shown = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        for name, value in attrs:
            if name in ("src", "srcset", "data", "poster", "action"):
                self.sources.append(value)
            if name == "href":
                self.links.append(value)

    def handle_data(self, data):
        self.shown.append(data)


def test_the_page_fetches_nothing(html, drawn):
    page = Page(html)
    assert len(page.sources) == 4
    assert all(source.startswith("data:image/svg+xml;base64,") for source in page.sources)
    assert all((drawn / link).is_file() for link in page.links)
    assert not {"link", "iframe", "object", "embed", "base"} & set(page.tags)
    assert page.tags.count("script") == 1
    style = html.split("<style>")[1].split("</style>")[0]
    assert "url(" not in style
    assert "@import" not in style
    for call in ("fetch(", "XMLHttpRequest", "import(", "http:", "https:"):
        assert call not in html


def test_the_page_says_what_the_markdown_says(html, drawn):
    shown = " ".join(Page(html).shown)
    markdown = (drawn / "report.md").read_text(encoding="utf-8")
    for text in ("cd" * 32, "“a typo”, which changed question", "11 done, 1 diverged"):
        assert text in shown
        assert text in markdown
    for name in ("Verdicts", "The family", "Comparisons", "Flags", "Arms", "Runs", "Every number"):
        assert f"<h2>{name}</h2>" in html


def test_every_number_is_on_the_page(html, comparisons):
    table = html.split("<h2>Every number</h2>")[1].split("</table>")[0]
    assert table.count("<tr>") == 1 + len(comparisons)
    assert re.findall(r'<button type="button">([^<]*)<', table) == list(comparisons.columns)


def test_names_of_users_are_text_and_never_markup(tmp_path):
    evil = "<script>alert('x')</script>"
    runs = make_runs(arms=("plain", evil))
    pairs = ((evil, "plain"),)
    context = make_context(
        pairs, question="<img src=x onerror=alert(1)>", study="<b>", notices=["</p><script>"],
        provenance=[{"host": "<i>"}], run_counts={"done": 6},
    )  # fmt: skip
    write_report(tmp_path, runs, make_comparisons(runs, pairs), context)
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert page.tags.count("script") == 1
    assert not {"b", "i"} & set(page.tags)
    assert page.tags.count("img") == 4
    assert evil in " ".join(page.shown)
    markdown = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert not re.search(r"<(script|img|b|i)\b", markdown)


def test_no_report_claims_that_there_is_no_effect(tmp_path, runs, comparisons):
    rows = comparisons.assign(verdict="not supported")
    write_report(tmp_path, runs, rows, make_context(), figures=False)
    for name in ("report.md", "report.html"):
        text = (tmp_path / name).read_text(encoding="utf-8").lower()
        assert "no effect" not in text
        assert text.count("not evidence that the two are equal") == 3
