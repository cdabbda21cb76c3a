"""One run, in this process: what it computes, when it stops, and what it leaves."""

import json
import math
from dataclasses import asdict

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from runner import sources
from runner.data import Batches
from runner.distributed import Group
from runner.evaluate import split_loss
from runner.execute import execute
from runner.learner import Learner, build_model, weights_sha256
from runner.optim import build_optimizer, learning_rate, set_learning_rate
from runner.train import Stopped, train

ALONE = Group()


pytestmark = pytest.mark.usefixtures("strict_torch")


def trained(folder, **options):
    settings = folder.settings()
    return train(settings, sources.load(settings), folder, ALONE, **options)


def curve(folder, split="train"):
    lines = map(json.loads, folder.metrics_path.read_text(encoding="utf-8").splitlines())
    return {line["step"]: line["value"] for line in lines if line["split"] == split}


def comparable(outcome):
    return {**asdict(outcome), "seconds": None}


def test_a_run_is_the_plain_loop_that_it_claims_to_be(make_run):
    folder = make_run()
    outcome = trained(folder)
    settings = folder.settings()
    schedule, tokens = settings.train, sources.load(settings).tokens
    model = build_model(settings, tokens.vocab_size)
    optimizer = build_optimizer(model, schedule)
    batches = Batches(tokens.train, batch=4, seq_len=16, seed=1)
    losses = {}
    for step in range(12):
        x_bt, y_bt = map(torch.from_numpy, batches.at(step))
        set_learning_rate(optimizer, learning_rate(step, schedule))
        loss = model.loss(x_bt, y_bt)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses[step + 1] = loss.item()
    assert curve(folder) == {step: losses[step] for step in (2, 4, 6, 8, 10, 12)}
    assert outcome.weights_sha256 == weights_sha256(model)
    valid = split_loss(model, tokens.valid, window=16, batch=32)
    assert outcome.metrics["valid"]["loss"] == valid.loss_nats
    assert outcome.metrics["valid"]["ppl"] == math.exp(valid.loss_nats)
    assert (outcome.status, outcome.steps, outcome.tokens) == ("done", 12, 768)
    assert outcome.params == sum(p.numel() for p in model.parameters())


def test_seeds_differ_and_a_seed_repeats(make_run):
    first, again, other = (trained(make_run(seed=seed)) for seed in (1, 1, 2))
    assert comparable(first) == comparable(again)
    assert first.weights_sha256 != other.weights_sha256
    assert first.data_fingerprint != other.data_fingerprint


def test_arms_of_one_seed_see_the_same_batches_and_start_alike_where_they_share(make_run):
    seen = {}
    for arm in ("plain", "coupled"):
        settings = make_run(arm=arm).settings()
        learner = Learner(settings, sources.load(settings), ALONE)
        weights = {name: p.detach().clone() for name, p in learner.model.named_parameters()}
        seen[arm] = weights, np.stack([learner.batches.at(step)[0] for step in range(12)])
    (plain, plain_batches), (coupled, coupled_batches) = seen["plain"], seen["coupled"]
    assert np.array_equal(plain_batches, coupled_batches)
    assert plain.keys() < coupled.keys()
    assert all(torch.equal(plain[name], coupled[name]) for name in plain)
    assert sum(weight.abs().sum() for weight in plain.values()) > 0


def test_accumulated_parts_make_the_same_step_up_to_rounding(make_run):
    whole, parts = make_run(), make_run("gradient_accumulation = 4")
    first, second = trained(whole), trained(parts)
    assert curve(parts) == pytest.approx(curve(whole), abs=1e-5)
    assert first.weights_sha256 != second.weights_sha256
    assert first.data_fingerprint == second.data_fingerprint


def test_parts_with_fewer_targets_weigh_less(make_run, monkeypatch):
    at = Batches.at

    def with_few_targets(self, step):
        x_bt, y_bt = at(self, step)
        y_bt = y_bt.copy()
        y_bt[0, 3:] = y_bt[2, :-1] = -100
        return x_bt, y_bt

    monkeypatch.setattr(Batches, "at", with_few_targets)
    whole, parts = make_run(), make_run("gradient_accumulation = 4")
    trained(whole)
    trained(parts)
    assert curve(parts) == pytest.approx(curve(whole), abs=1e-5)


def test_activation_checkpointing_changes_no_bit(make_run):
    plain, recomputed = trained(make_run()), trained(make_run("activation_checkpointing = true"))
    assert comparable(plain) == comparable(recomputed)


def test_bfloat16_trains_in_short_and_scores_in_full_precision(make_run):
    short, full = make_run('precision = "bfloat16"'), make_run()
    first, second = trained(short), trained(full)
    assert first.weights_sha256 != second.weights_sha256
    assert curve(short) == pytest.approx(curve(full), rel=0.02)
    settings = short.settings()
    source = sources.load(settings)
    learner = Learner(settings, source, ALONE)
    for _ in range(12):
        learner.take_step()
    assert all(p.dtype == torch.float32 for p in learner.model.parameters())
    exact = split_loss(learner.model, source.tokens.test, window=16, batch=32).loss_nats
    assert first.metrics["test"]["loss"] == exact


class Reads(TorchDispatchMode):
    """Counts the operations that copy a number from the device and so wait for it."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if "_local_scalar_dense" in str(func) or "nonzero" in str(func):
            Reads.count += 1
        return func(*args, **(kwargs or {}))


def test_no_step_waits_for_the_device_but_the_logged_ones(make_run, monkeypatch):
    reads, step = {}, Learner.take_step

    def counted(self):
        before, loss = Reads.count, step(self)
        reads[self.step] = before
        return loss

    monkeypatch.setattr(Learner, "take_step", counted)
    folder = make_run("checkpoint_every = 100\neval_batch = 500")
    with Reads():
        trained(folder)
    read_before = [reads[n + 1] - reads[n] for n in range(2, 12)]
    assert read_before[1::2] == [0] * 5, "a step that is not logged reads from the device"
    assert all(count > 0 for count in read_before[0::2])


@pytest.mark.parametrize("bound", ["diverged_above_nats = 5.4", "diverged_above_nats = 0.001"])
def test_a_loss_above_the_declared_bound_ends_the_run_with_its_curve(make_run, bound):
    folder = make_run(f"{bound}\nlog_every = 5")
    lines = []
    outcome = trained(folder, progress=lambda done, total: lines.append(done))
    assert outcome.status == "diverged"
    assert outcome.metrics == {}
    assert outcome.reason.endswith("nats at step 1")
    assert list(curve(folder)) == [1, 5]
    assert outcome.steps == 5


def test_a_stop_between_the_bad_loss_and_its_report_changes_nothing(make_run):
    train_lines = "diverged_above_nats = 0.001\nlog_every = 5"
    undisturbed, stopped = make_run(train_lines), make_run(train_lines)
    expected = trained(undisturbed)
    with pytest.raises(Stopped):
        trained(stopped, should_stop=lambda: True)
    outcome = trained(stopped)
    assert comparable(outcome) == comparable(expected)
    assert stopped.metrics_path.read_bytes() == undisturbed.metrics_path.read_bytes()


def test_a_loss_that_is_no_number_ends_the_run(make_run, monkeypatch):
    folder = make_run()
    real = Learner.take_step
    monkeypatch.setattr(
        Learner, "take_step", lambda self: real(self) * (math.nan if self.step == 7 else 1)
    )
    outcome = trained(folder)
    assert (outcome.status, outcome.reason) == (
        "diverged",
        "the training loss was nan nats at step 7",
    )
    values = curve(folder)
    assert list(values) == [2, 4, 6, 7, 8]
    assert values[7] is None


def test_validation_chooses_nothing_unless_the_study_says_so(make_run):
    last = trained(make_run("evaluate_every = 3"))
    plain = trained(make_run())
    assert last.weights_sha256 == plain.weights_sha256
    assert last.metrics == plain.metrics
    assert last.reason == ""


def test_the_best_validation_chooses_the_weights_that_both_splits_are_scored_with(make_run):
    # The rate rises to a height that undoes what the first steps have learned.
    folder = make_run(
        'lr = 1.0\nwarmup_fraction = 0.9\nevaluate_every = 2\ncheckpoint = "best_valid"'
    )
    outcome = trained(folder)
    losses = curve(folder, "valid")
    best = min(losses, key=losses.get)
    assert list(losses) == [2, 4, 6, 8, 10, 12]
    assert best < 12, losses
    assert outcome.reason == f"scored at step {best}, where the validation loss was lowest"
    assert outcome.metrics["valid"]["loss"] == losses[best]
    settings = folder.settings()
    source = sources.load(settings)
    learner = Learner(settings, source, ALONE)
    while learner.step < best:
        learner.take_step()
    exact = split_loss(learner.model, source.tokens.test, window=16, batch=32).loss_nats
    assert outcome.metrics["test"]["loss"] == exact
    assert outcome.weights_sha256 == weights_sha256(learner.model)


@pytest.mark.parametrize("asked_at", range(1, 30, 3))
def test_a_stop_is_honoured_at_once_also_while_a_split_is_scored(make_run, asked_at):
    lines = 'evaluate_every = 4\ncheckpoint = "best_valid"\neval_batch = 7'
    undisturbed, stopped = make_run(lines), make_run(lines)
    expected = trained(undisturbed)
    asked = iter(range(1, 1000))
    with pytest.raises(Stopped):
        trained(stopped, should_stop=lambda: next(asked) >= asked_at)
    assert next(asked) == asked_at + 1, "the run went on after it was told to stop"
    assert stopped.checkpoints.latest() is not None
    outcome = trained(stopped)
    assert comparable(outcome) == comparable(expected)
    assert stopped.metrics_path.read_bytes() == undisturbed.metrics_path.read_bytes()


def test_progress_reaches_its_total_exactly_and_never_turns_back(make_run):
    seen = []
    trained(make_run("evaluate_every = 5"), progress=lambda done, total: seen.append((done, total)))
    done, totals = zip(*seen, strict=True)
    assert list(done) == sorted(done)
    assert len(set(totals)) == 1
    assert done[-1] == totals[-1]


def test_a_checkpoint_of_other_batches_is_refused(make_run):
    folder = make_run()
    asked = iter([False] * 5 + [True])
    with pytest.raises(Stopped):
        trained(folder, should_stop=lambda: next(asked))
    state = next(folder.path.glob("checkpoint/*/state.json"))
    record = json.loads(state.read_text(encoding="utf-8"))
    state.write_text(json.dumps({**record, "data_fingerprint": "another"}), encoding="utf-8")
    with pytest.raises(ValueError, match="was written on other batches"):
        trained(folder)


def test_a_failure_is_written_down_and_the_run_can_be_made_again(make_run, monkeypatch):
    folder = make_run()
    with monkeypatch.context() as patch:
        patch.setattr(Learner, "take_step", lambda self: 1 / 0)
        ended = execute(folder)
    assert (ended.status, ended.detail) == ("failed", "ZeroDivisionError: division by zero")
    last = folder.attempts()[-1]
    assert last["reason"] == "failed"
    assert "take_step" in last["traceback"]
    assert execute(folder).status == "done"
    assert execute(folder).status == "done"
    assert sum(line["event"] == "start" for line in folder.attempts()) == 2


def test_another_text_than_the_planned_one_is_refused(make_run):
    folder = make_run()
    text = folder.spec_path.read_text(encoding="utf-8")
    sha256 = folder.settings().data.text_sha256
    folder.spec_path.write_text(text.replace(sha256, "0" * 64), encoding="utf-8")
    ended = execute(folder)
    assert ended.status == "failed"
    assert "is another text here" in ended.detail
