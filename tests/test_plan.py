"""A study becomes a list of runs whose ids say what they are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.plan import find_study, parse_seeds, selected, shipped_studies
from runner.settings import RunSettings
from runner.study_run import read

SETTINGS = {
    "data": {"corpus": "pydocs", "text_sha256": "0" * 64, "tokenizer": "byte"},
    "model": {
        "layers": 2, "width": 64, "heads": 4, "head_dim": 16, "feed_forward": 256,
        "rope_base": 10000.0, "preset": "tiny",
    },
    "attention": {"name": "standard"},
    "coupling": {"name": "affine", "options": {"hidden": 5}},
    "train": {"seq_len": 128, "batch": 16, "tokens": 819200, "lr": 0.003},
    "seed": 1,
}  # fmt: skip


def settings(**changes):
    return RunSettings.model_validate({**SETTINGS, **changes})


def plan(study, tmp_path, **options):
    return read(str(study), tmp_path / "results", **options)


def test_the_id_of_given_settings_never_changes():
    # Results all over the world are named by these ids: a new setting must have a default.
    assert settings().run_id == "4a0bdde77356d6f1"


@pytest.mark.parametrize(
    ("setting", "default"),
    [
        ("weight_decay", 0.1),
        ("qk_lr_factor", 1.0),
        ("checkpoint", "last"),
        ("precision", "float32"),
        ("devices", 1),
        ("gradient_accumulation", 1),
        ("activation_checkpointing", False),
        ("compile", False),
        ("determinism", "auto"),
        ("diverged_above_nats", None),
    ],
)
def test_a_default_spelled_out_is_the_same_run(setting, default):
    spelled = settings(train={**SETTINGS["train"], setting: default})
    assert spelled.run_id == settings().run_id


def test_the_name_of_a_preset_is_no_part_of_the_id_and_everything_else_is():
    assert settings(model={**SETTINGS["model"], "preset": None}).run_id == settings().run_id
    ids = {settings().run_id}
    for section in ("data", "model", "attention", "coupling", "train"):
        for key, value in SETTINGS[section].items():
            if key != "preset":
                other = f"{value}x" if isinstance(value, str) else {"hidden": 6}
                other = value * 2 if isinstance(value, int | float) else other
                ids.add(settings(**{section: {**SETTINGS[section], key: other}}).run_id)
    ids.add(settings(seed=2).run_id)
    assert len(ids) == 1 + 3 + 6 + 1 + 2 + 4 + 1


def test_seeds_come_first_so_that_complete_sets_of_arms_do(small_study, tmp_path):
    runs = plan(small_study(), tmp_path).runs
    assert [(run.seed, run.arm) for run in runs] == [
        (seed, arm) for seed in (1, 2, 3) for arm in ("plain", "coupled")
    ]
    assert len({run.run_id for run in runs}) == 6


def test_a_grid_is_crossed_with_every_arm(small_study, tmp_path):
    study = small_study(("[family]", "[grid]\nseq_len = [8, 16]\nlayers = [1, 2]\n[family]"))
    runs = plan(study, tmp_path).runs
    assert len(runs) == 3 * 4 * 2
    cells = {(run.cell["seq_len"], run.cell["layers"]) for run in runs}
    assert cells == {(8, 1), (8, 2), (16, 1), (16, 2)}
    for run in runs:
        assert run.settings.train.seq_len == run.cell["seq_len"]
        assert run.settings.model.layers == run.cell["layers"]


def test_an_arms_own_settings_override_the_studys(small_study, tmp_path):
    arm = 'coupling = "affine"\ntrain = { lr = 0.5 }\nmodel = { layers = 3 }'
    runs = plan(small_study(('coupling = "affine"', arm)), tmp_path).runs
    assert [(run.settings.train.lr, run.settings.model.layers) for run in runs[:2]] == [
        (0.01, 1),
        (0.5, 3),
    ]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('coupling = "affine"', "", "come to the same settings"),
        ('coupling = "affine"', 'coupling = "afine"', "unknown coupling 'afine'; did you mean"),
        ('coupling = "affine"', 'attention = "standrd"', "unknown attention 'standrd'"),
        ('coupling = "affine"', 'coupling = {name = "affine", hiden = 3}', "hiden"),
        ('coupling = "affine"', "train = { lr = -1.0 }", "lr: .*greater than 0"),
        ("layers = 1\n", "", "lacks layers"),
        ("layers = 1\n", 'preset = "hge"\n', "unknown preset 'hge'"),
    ],
)
def test_a_study_that_cannot_be_planned_says_why(small_study, tmp_path, old, new, said):
    with pytest.raises(ValueError, match=said):
        plan(small_study((old, new)), tmp_path)


def test_a_selection_keeps_the_whole_plan(small_study, tmp_path):
    made = plan(small_study(), tmp_path, only=["plain"], seeds=[1, 3])
    assert len(made.runs) == 6
    assert [(run.seed, run.arm) for run in made.selection] == [(1, "plain"), (3, "plain")]
    assert list(selected(made.runs, None, None)) == made.runs


@pytest.mark.parametrize(
    ("text", "seeds"), [("1", [1]), ("1-3", [1, 2, 3]), ("2, 5-6", [2, 5, 6]), ("3-2", [])]
)
def test_seeds_are_numbers_and_ranges(text, seeds):
    assert parse_seeds(text) == seeds


@given(st.text(alphabet="0123456789-, x", max_size=8))
def test_every_text_of_seeds_is_read_or_refused_with_a_remedy(text):
    parts = [part.strip().partition("-") for part in text.split(",")]
    if all(first.isdecimal() and (not last or last.isdecimal()) for first, _, last in parts):
        assert all(isinstance(seed, int) for seed in parse_seeds(text))
    else:
        with pytest.raises(ValueError, match="write numbers and ranges"):
            parse_seeds(text)


def test_every_shipped_study_plans(tmp_path):
    for name, path in shipped_studies().items():
        assert find_study(name) == path
    assert "demo" in shipped_studies()
    assert len(plan("demo", tmp_path).runs) == 6
