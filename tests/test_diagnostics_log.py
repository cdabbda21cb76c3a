"""diagnostics.jsonl: written where asked, the same bytes whatever happens, no trace elsewhere."""

import json
import math

import numpy as np
import pytest
import torch

from runner import sources, train
from runner.data import Tokens
from runner.distributed import Group
from runner.execute import execute
from runner.folder import RunFolder
from runner.launch import create_folder
from runner.learner import Learner
from runner.sources import Text
from runner.study_run import read
from runner.train import Stopped

pytestmark = pytest.mark.usefixtures("strict_torch")


def lines_of(folder):
    return [json.loads(line) for line in folder.diagnostics_path.read_text().splitlines()]


def without_times(folder):
    record = json.loads(folder.result_path.read_text(encoding="utf-8"))
    record.pop("timing")
    return record


ON = "diagnostics = true\nevaluate_every = 5"


def test_it_is_off_unless_the_study_says_so_and_changes_no_id_and_no_other_byte(make_run):
    with_it, without = make_run(ON), make_run("evaluate_every = 5")
    assert with_it.path.name == without.path.name
    for folder in (with_it, without):
        assert execute(folder).status == "done"
    assert not without.diagnostics_path.exists()
    assert with_it.metrics_path.read_bytes() == without.metrics_path.read_bytes()
    assert without_times(with_it) == without_times(without)


def test_the_start_the_end_and_every_validation_are_recorded(make_run):
    folder = make_run(ON)
    execute(folder)
    lines = lines_of(folder)
    assert list(dict.fromkeys(line["step"] for line in lines)) == [0, 5, 10, 12]
    assert all(list(line) == ["step", "layer", "quantity", "values"] for line in lines)
    assert all(len(line["values"]) == 2 for line in lines)
    drift = {line["step"]: line["values"] for line in lines if line["quantity"] == "drift_key"}
    assert drift[0] == [0.0, 0.0]
    assert all(value > 0 for value in drift[12])
    assert len({(x["step"], x["layer"], x["quantity"]) for x in lines}) == len(lines)
    quarters = make_run("diagnostics = true")
    execute(quarters)
    assert list(dict.fromkeys(x["step"] for x in lines_of(quarters))) == [0, 3, 6, 9, 12]
    last = [line for line in lines if line["step"] == 12]
    assert last == [line for line in lines_of(quarters) if line["step"] == 12]


@pytest.mark.parametrize("kept_every", [3, 4, 5, 100])
@pytest.mark.parametrize("stops", [(1,), (5,), (3, 5, 4), (12,)])
def test_stopped_and_resumed_the_file_is_the_same(make_run, kept_every, stops):
    undisturbed, stopped = make_run(ON), make_run(f"{ON}\ncheckpoint_every = {kept_every}")
    execute(undisturbed)
    settings = stopped.settings()
    for steps in stops:
        asked = iter([False] * (steps - 1) + [True] * 99)
        with pytest.raises(Stopped):
            run(settings, stopped, should_stop=lambda asked=asked: next(asked, True))
    assert execute(stopped).status == "done"
    assert stopped.diagnostics_path.read_bytes() == undisturbed.diagnostics_path.read_bytes()


def run(settings, folder, **options):
    return train.train(settings, sources.load(settings), folder, Group(), **options)


class Killed(BaseException):
    """What no handler of the run catches."""


@pytest.mark.parametrize("at_step", [1, 4, 5, 6, 9, 11])
def test_killed_without_a_checkpoint_of_its_own_the_file_is_the_same(
    make_run, at_step, monkeypatch
):
    lines = f"{ON}\ncheckpoint_every = 4"
    undisturbed, killed = make_run(lines), make_run(lines)
    execute(undisturbed)
    real = Learner.take_step

    def dying(self):
        if self.step == at_step:
            raise Killed
        return real(self)

    with monkeypatch.context() as patch:
        patch.setattr(Learner, "take_step", dying)
        with pytest.raises(Killed):
            run(killed.settings(), killed)
    (killed.path / ".diagnostics.jsonl.0123").write_text("left by a kill")
    assert execute(killed).status == "done"
    assert killed.diagnostics_path.read_bytes() == undisturbed.diagnostics_path.read_bytes()
    assert not list(killed.path.glob(".diagnostics*"))


def test_a_run_that_diverges_keeps_what_can_be_written(make_run, monkeypatch):
    folder = make_run(f"{ON}\ndiverged_above_nats = 1e9")
    real = Learner.take_step

    def spoiled(self):
        loss = real(self)
        if self.step == 5:
            with torch.no_grad():
                self.model.blocks[0].attention.query.weight[0, 0] = math.nan
        return loss

    monkeypatch.setattr(Learner, "take_step", spoiled)
    assert execute(folder).status == "diverged"
    lines = lines_of(folder)
    assert {line["step"] for line in lines} == {0, 5}
    assert [None in line["values"] for line in lines if line["quantity"] == "pr_query"] == [
        False,
        True,
    ]


def test_a_spec_of_before_the_setting_is_the_same_run(make_run):
    folder = make_run()
    record = json.loads(folder.spec_path.read_text(encoding="utf-8"))
    record["settings"]["train"].pop("diagnostics", None)
    folder.spec_path.write_text(json.dumps(record), encoding="utf-8")
    assert RunFolder(folder.path).settings().run_id == folder.path.name


@pytest.mark.parametrize(
    ("tokens", "shape"), [(1000, (8, 16)), (128, (8, 16)), (50, (3, 16)), (11, (1, 11))]
)
def test_the_sample_lies_evenly_over_the_validation_text_and_does_not_overlap(tokens, shape):
    ids = np.arange(tokens, dtype=np.uint16)
    text = Text(Tokens(ids[:0], ids, ids[:0], 2**16, {}, None, ""))
    sample_bt = text.sample(8, 16)
    assert (sample_bt.shape, sample_bt.dtype) == (shape, np.int64)
    assert len(np.unique(sample_bt)) == sample_bt.size
    assert np.array_equal(sample_bt, text.sample(8, 16))
    assert sample_bt[-1, -1] > tokens * (1 - 2 / len(sample_bt)) - 1


def test_a_task_is_measured_on_its_own_rows(small_study, tmp_path):
    text = small_study(("lr = 1e-2", "lr = 1e-2\ndiagnostics = true"))
    lines = text.read_text(encoding="utf-8")
    path = next(line for line in lines.splitlines() if line.startswith("corpus"))
    task = 'corpus = "mqar"\ntokenizer = "none"\n[data.task]\nvocabulary = 40\npairs = 3'
    study = tmp_path / "task.toml"
    study.write_text(lines.replace(path, task).replace('"loss"', '"accuracy"'), encoding="utf-8")
    plan = read(str(study), tmp_path / "tasks")
    folder = create_folder(plan.results, plan.runs[1])
    assert execute(folder).status == "done", folder.attempts()[-1]
    assert {line["step"] for line in lines_of(folder)} == {0, 3, 6, 9, 12}
