"""The study file: what it means, and a sentence for every way to get it wrong."""

import pytest

from analysis.design import Train
from analysis.study import load_study, parse_study
from runner.plan import shipped_studies


def study_text(small_study, *replacements):
    return small_study(*replacements).read_text(encoding="utf-8")


@pytest.mark.parametrize("path", shipped_studies().values(), ids=lambda path: path.stem)
def test_shipped_studies_load_and_are_named_after_their_file(path):
    assert load_study(path).study.name == path.stem


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("seq_len = 16", "seqlen = 16", 'train.seqlen: unknown key; did you mean "seq_len"?'),
        ("seq_len = 16", "", "train.seq_len: is required and missing"),
        ("[data]", "[dta]", 'dta: unknown key; did you mean "data"?'),
        ("[1, 2, 3]", "[1, 2, 2]", "seed 2 is listed twice"),
        ("[1, 2, 3]", "[]", "the list of seeds is empty"),
        ("values = [1, 2, 3]", "start = 1", "both start = 1 and count = 3"),
        ('treatment = "coupled"', 'treatment = "cupled"', "names the treatment 'cupled'"),
        ('baseline = "plain"', 'baseline = "coupled"', "treatment and baseline are both"),
        ('name = "coupled"', 'name = "plain"', "arm 'plain' is declared 2 times"),
        ("lr = 1e-2", 'lr = "high"', "train.lr: input should be a valid number, got 'high'"),
        ("lr = 1e-2", "lr = -1.0", "train.lr: input should be greater than 0, got -1.0"),
        ("tokens = 768", "tokens = 63", "is less than one step of batch * seq_len = 64"),
        ('split = "valid"', 'alternative = "lower"', "should be 'less', 'greater' or 'two-sided'"),
        ('split = "valid"', "alpha = 1.5", "family.alpha: input should be less than"),
        ('split = "valid"', "alpha = 0.05\nalpha = 0.01", "is no valid TOML"),
        ('split = "valid"', "size = 0", "family.size: input should be greater than 0"),
        ('coupling = "affine"', "coupling = {hidden = 4}", "needs the variant's name"),
        ('coupling = "affine"', "train = {lrr = 1}", "unknown key 'lrr'"),
        ('coupling = "affine"', 'colour = "red"', 'arms[2].colour: unknown key'),
        ("seq_len = 16", 'seq_len = 16\n"[x" = 1', "train.[x: unknown key"),
        ("seq_len = 16", 'seq_len = 16\n"(y) z" = 1', "train.(y) z: unknown key"),
        ("[family]", "[grid]\nlrr = [1]\n[family]", "unknown axis 'lrr'"),
        ("[family]", "[grid]\nlr = [1.0, 1.0]\n[family]", "one or more distinct values"),
    ],
)  # fmt: skip
def test_a_faulty_study_is_named_by_file_line_and_remedy(small_study, old, new, sentence):
    path = small_study((old, new))
    with pytest.raises(ValueError, match=r"small\.toml") as caught:
        load_study(path)
    assert sentence in str(caught.value)


def test_all_faults_are_told_at_once_with_their_lines(small_study):
    text = study_text(small_study, ("seq_len = 16", "seqlen = 16"), ("[1, 2, 3]", "[3, 3]"))
    lines = text.splitlines()
    with pytest.raises(ValueError, match="seqlen") as caught:
        parse_study(text, "f.toml")
    said = str(caught.value)
    assert f"f.toml:{lines.index('seqlen = 16') + 1}: train.seqlen" in said
    assert f"f.toml:{lines.index('values = [3, 3]') + 1}: seeds.values" in said


def test_a_missing_file_and_a_binary_file_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"absent\.toml: cannot be read"):
        load_study(tmp_path / "absent.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match=r"binary\.toml: is not UTF-8"):
        load_study(tmp_path / "binary.toml")


def test_the_hash_ignores_layout_and_sees_every_setting(small_study):
    base = parse_study(study_text(small_study))
    reordered = parse_study("# a comment\n" + study_text(small_study).replace(" = ", "="))
    assert base.sha256 == reordered.sha256
    for old, new in [("lr = 1e-2", "lr = 2e-2"), ("[1, 2, 3]", "[1, 2]")]:
        changed = parse_study(study_text(small_study, (old, new)))
        assert changed.sha256 != base.sha256
    assert parse_study(study_text(small_study, ("lr = 1e-2", "lr = 2e-2"))).family_sha256 == (
        base.family_sha256
    )


def test_a_comparison_covers_every_cell_that_its_where_leaves_open(small_study):
    grid = ("[family]\n", "[grid]\nseq_len = [8, 16]\nlr = [0.1, 0.01, 0.001]\n[family]\n")
    study = parse_study(study_text(small_study, grid))
    assert len(study.cells()) == 6
    assert study.family_size == 6
    names = [comparison.name for comparison in study.declared_comparisons()]
    assert names[0] == "coupling [seq_len=8, lr=0.1]"
    assert len(set(names)) == 6
    where = ('baseline = "plain"', 'baseline = "plain"\nwhere = { seq_len = 16 }')
    narrowed = parse_study(study_text(small_study, grid, where))
    assert [c.where["seq_len"] for c in narrowed.declared_comparisons()] == [16, 16, 16]
    with pytest.raises(ValueError, match="where seq_len = 5 is not on the grid"):
        parse_study(study_text(small_study, grid, (where[0], where[1].replace("16", "5"))))


def test_the_declared_family_may_be_larger_than_the_file_but_not_smaller(small_study):
    larger = parse_study(study_text(small_study, ('split = "valid"', "size = 16")))
    assert larger.family_size == 16
    second = '\n[[family.comparisons]]\nname = "again"\ntreatment = "plain"\nbaseline = "coupled"\n'
    with pytest.raises(ValueError, match="family size 1 is smaller than the 2 declared"):
        parse_study(study_text(small_study, ('split = "valid"', "size = 1")) + second)


def test_a_range_of_seeds_is_spelled_out():
    seeds = parse_study(
        'study = {name = "s"}\nseeds = {start = 5, count = 3}\n'
        'family = {comparisons = [{name = "c", treatment = "a", baseline = "b"}]}'
    ).seeds
    assert seeds is not None
    assert seeds.tolist() == [5, 6, 7]


def test_steps_are_what_the_token_budget_pays_for():
    assert Train(seq_len=7, tokens=7 * 3 * 5 + 20, batch=3, lr=0.1).steps == 5
