"""Tasks as what runs learn from: planned, trained, stopped, resumed and scored like any text."""

import json

import numpy as np
import pytest
import torch

from analysis.study import parse_study
from runner import corpora, sources, tasks
from runner.answers import answer
from runner.distributed import Group
from runner.execute import execute
from runner.launch import create_folder
from runner.learner import Learner, build_model
from runner.plan import plan_runs, shipped_studies
from runner.task import IGNORED
from runner.train import train
from runner.workload import scoring_passes

TASK_DATA = """[data]
corpus = "{corpus}"
tokenizer = "none"

[data.task]
{settings}
"""


@pytest.fixture
def study(small_study_toml):
    """Returns the small study on a task, with lines added to [data.task] and texts replaced."""

    def parsed(settings="vocabulary = 40\npairs = 3\neval_rows = 50", *replacements,
               corpus="mqar", grid=""):  # fmt: skip
        before, rest = small_study_toml.split("[data]")
        after = rest[rest.index("[model]") :]
        text = before + TASK_DATA.format(corpus=corpus, settings=settings) + after + grid
        for old, new in replacements:
            assert old in text
            text = text.replace(old, new)
        return parse_study(text)

    return parsed


def first_run(study, tmp_path, arm="coupled"):
    run = next(run for run in plan_runs(study, "") if run.arm == arm)
    return create_folder(tmp_path, run)


def test_a_run_holds_the_task_s_settings_without_defaults_and_the_hash_of_its_rows(study):
    (run, *_) = plan_runs(study("vocabulary = 40\npairs = 3\ngap_power = 0.01"), "")
    assert run.settings.data.task == {"vocabulary": 40, "pairs": 3}
    task = tasks.make("mqar", run.settings.data.task)
    assert run.settings.data.text_sha256 == tasks.sha256(task, 16)
    assert len({tasks.sha256(task, length) for length in (16, 17)}) == 2


def test_a_setting_of_the_task_makes_another_run_and_can_be_an_axis(study):
    plain = [run.run_id for run in plan_runs(study(), "")]
    lines = {"vocabulary": "40", "pairs": "3", "eval_rows": "50"}
    for key, value in {"pairs": "4", "order": '"shuffled"', "eval_rows": "51"}.items():
        changed = "\n".join(f"{k} = {v}" for k, v in {**lines, key: value}.items())
        assert not set(plain) & {run.run_id for run in plan_runs(study(changed), "")}
    crossed = plan_runs(study(grid="\n[grid]\npairs = [2, 3]\nlr = [1e-2, 1e-3]"), "")
    assert len(crossed) == 4 * len(plain)
    assert set(plain) < {run.run_id for run in crossed}
    assert {run.settings.data.task["pairs"] for run in crossed} == {2, 3}


def test_a_study_on_a_text_has_the_run_ids_it_had_before_tasks_existed(small_study_toml):
    """Ids are promises: results that lie on disks must stay found."""
    text = small_study_toml[: small_study_toml.index("[data]")] + '[data]\ncorpus = "pydocs"\n\n'
    text += small_study_toml[small_study_toml.index("[model]") :]
    ids = [run.run_id for run in plan_runs(parse_study(text), "0" * 64)]
    assert ids[:2] == ["50ff37b183e62ff0", "3c566230ea4b9179"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("pears = 3", "the task mqar has no setting 'pears'; did you mean .pairs."),
        ("length = 64", "has no setting 'length': the length of its rows is seq_len of"),
        ("pairs = 0", "the task mqar: pairs: .* greater than 0, got 0"),
        ("pairs = 5", r"take 20 tokens: seq_len = 16 is too short"),
    ],
)
def test_a_faulty_task_is_refused_when_it_is_planned(study, settings, message):
    with pytest.raises(ValueError, match=message):
        plan_runs(study(f"vocabulary = 40\n{settings}"), "")


@pytest.mark.parametrize(
    ("replaced", "message"),
    [
        (('tokenizer = "none"', ""), "set tokenizer = \"none\", not 'byte'"),
        (("lr = 1e-2", "lr = 1e-2\neval_stride = 4"), "eval_stride is for texts"),
        (('corpus = "mqar"', 'corpus = "pydocs"'), r"\[data.task\] is for the corpora induction"),
    ],
)
def test_what_does_not_go_with_a_task_is_refused(study, replaced, message):
    with pytest.raises(ValueError, match=message):
        plan_runs(study("vocabulary = 40\npairs = 3", replaced), "")


def test_parts_of_a_batch_must_hold_as_many_rows_of_each_kind(study):
    mixed = "vocabulary = 40\npairs = [2, 3]"
    assert plan_runs(study(mixed, ("lr = 1e-2", "lr = 1e-2\ngradient_accumulation = 2")), "")
    with pytest.raises(ValueError, match="take a batch that 8 divides"):
        plan_runs(study(mixed, ("lr = 1e-2", "lr = 1e-2\ngradient_accumulation = 4")), "")


def test_an_axis_must_be_a_known_key_where_there_is_no_task(small_study_toml):
    with pytest.raises(ValueError, match=r"unknown axis 'pairs'; an axis is a key of \[model\]"):
        parse_study(f"{small_study_toml}\n[grid]\npairs = [2, 3]")


def test_all_arms_and_steps_see_batches_of_their_own_stream(study):
    settings = {run.arm: run.settings for run in reversed(plan_runs(study(), ""))}
    batches = {
        arm: Learner(each, sources.load(each), Group()).batches for arm, each in settings.items()
    }
    assert batches["plain"].fingerprint() == batches["coupled"].fingerprint()
    rows = {tuple(row) for step in range(5) for row in batches["plain"].at(step)[0].tolist()}
    assert len(rows) == 20
    task = tasks.make("mqar", settings["plain"].data.task)
    for split in ("valid", "test"):
        scored = {tuple(row) for row in tasks.scored_rows(task, split, 16).inputs_bt.tolist()}
        assert len(scored) == 50
        assert not rows & scored
        rows |= scored


def test_a_run_trains_is_killed_and_resumed_to_the_same_bytes(study, tmp_path):
    timed = study("vocabulary = 40\npairs = 3\neval_rows = 50",
                  ("lr = 1e-2", "lr = 1e-2\nevaluate_every = 6\ncheckpoint_every = 5"))  # fmt: skip
    outcomes, curves = [], []
    for name, stops in (("whole", ()), ("resumed", (7, 11))):
        folder = first_run(timed, tmp_path / name)
        for stop in stops:
            calls = iter(range(99))
            ended = execute(folder, should_stop=lambda: next(calls) >= stop)  # noqa: B023
            assert ended.status == "stopped"
        assert execute(folder).status == "done"
        outcomes.append(folder.read_result().model_copy(update={"timing": {}}))
        curves.append(folder.metrics_path.read_text(encoding="utf-8"))
    assert outcomes[0] == outcomes[1]
    assert curves[0] == curves[1]
    logged = [json.loads(line) for line in curves[0].splitlines()]
    validated = [(line["step"], line["metric"]) for line in logged if line["split"] == "valid"]
    assert validated == [(6, "loss"), (6, "accuracy"), (12, "loss"), (12, "accuracy")]


def test_metrics_are_those_of_the_answers_on_both_splits(study, tmp_path):
    folder = first_run(study(), tmp_path)
    settings = folder.settings()
    source = sources.load(settings)
    outcome = train(settings, source, folder, Group())
    learner = Learner(settings, source, Group())
    for _ in range(12):
        learner.take_step()
    learner.model.eval()
    for split, metrics in outcome.metrics.items():
        found = answer(learner.model, tasks.scored_rows(source.task, split, 16), batch=32)
        assert metrics["loss"] == found.loss_nats
        assert metrics["accuracy"] == found.accuracy
        assert {"entropy", "attention_relevant"} <= metrics.keys()
        assert metrics["accuracy_chance"] == 1 / 20
        assert metrics["accuracy_chance_in_row"] == pytest.approx(1 / 3)
    assert outcome.metrics["valid"] != outcome.metrics["test"]
    assert outcome.tokens == 768


def test_the_loss_counts_answers_only(study):
    settings = plan_runs(study(), "")[0].settings
    model = build_model(settings, 40)
    x_bt, y_bt = map(torch.from_numpy, sources.load(settings).batches(settings.train, 1).at(0))
    assert (y_bt != IGNORED).sum(1).tolist() == [3] * 4
    nats_bt = model.token_nats(x_bt, y_bt)
    due = y_bt != IGNORED
    assert model.loss(x_bt, y_bt).item() == pytest.approx(nats_bt[due].mean().item(), rel=1e-6)
    assert not nats_bt[~due].any()


def test_near_duplicate_keys_reach_the_model_of_every_arm_alike(study):
    sharp = study("vocabulary = 40\npairs = 3\ngroup = 5\nangle_degrees = 10.0", corpus="sharpness")
    seen = []
    for run in plan_runs(sharp, ""):
        learner = Learner(run.settings, sources.load(run.settings), Group())
        learner.take_step()
        seen.append(learner.model.embedding(torch.arange(1, 16)).detach().numpy())
    cosines = np.einsum("gid,gjd->gij", *[seen[0].reshape(3, 5, 16)] * 2)
    assert np.allclose(cosines, np.cos(np.radians(10)) + (1 - np.cos(np.radians(10))) * np.eye(5),
                       atol=1e-6)  # fmt: skip
    assert np.array_equal(seen[0], seen[1])  # two arms of a seed
    assert not np.array_equal(seen[0], seen[2])  # another seed has directions of its own


def test_work_counts_every_scored_token_once(study):
    settings = plan_runs(study(), "")[0].settings
    source = sources.load(settings)
    assert scoring_passes(source.n_tokens["valid"], settings.train) == 50 * 16


def test_rows_that_differ_from_the_planned_ones_are_refused(study):
    settings = plan_runs(study(), "")[0].settings
    other = settings.data.model_copy(update={"text_sha256": "0" * 64})
    with pytest.raises(ValueError, match="the corpus mqar is another text here"):
        sources.load(settings.model_copy(update={"data": other}))


def test_a_misspelt_task_is_answered_with_its_name():
    with pytest.raises(ValueError, match=r"unknown corpus 'mqra' \(did you mean mqar\?\)"):
        corpora.load("mqra")


def test_every_task_is_listed_with_its_chance_level():
    for name in tasks.names():
        assert "chance 1 / (vocabulary" in tasks.describe(name)
        assert len(tasks.describe(name).split(" | ")) == 3


def accuracy_after(folder):
    assert execute(folder).status == "done"
    return folder.read_result().metrics["test"]["accuracy"]


def test_two_layers_learn_to_recall_keys_that_are_given_apart(study, tmp_path):
    settings = "vocabulary = 64\npairs = 4\ngroup = 7\nangle_degrees = 90.0\neval_rows = 200"
    sizes = ("width = 16\nheads = 2\nhead_dim = 8", "width = 64\nheads = 2\nhead_dim = 32")
    quick = study(settings, ("layers = 1", "layers = 2"), sizes, ("seq_len = 16", "seq_len = 24"),
                  ("batch = 4", "batch = 32"), ("tokens = 768", "tokens = 184_320"),
                  ("lr = 1e-2", "lr = 3e-3"), corpus="sharpness")  # fmt: skip
    assert accuracy_after(first_run(quick, tmp_path, "plain")) > 0.95


@pytest.mark.slow
def test_within_the_smoke_study_s_budget_two_layers_recall_and_one_guesses(tmp_path):
    """One layer cannot bind a key to the token behind it: it guesses among the row's values."""
    text = shipped_studies()["recall-smoke"].read_text(encoding="utf-8")
    two = first_run(parse_study(text), tmp_path / "two", "standard")
    assert accuracy_after(two) > 0.95
    one = parse_study(text.replace("layers = 2", "layers = 1"))
    assert abs(accuracy_after(first_run(one, tmp_path / "one", "standard")) - 1 / 4) < 0.05
