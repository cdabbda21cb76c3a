import numpy as np
import pytest
import torch
from torch.nn import functional as F

from runner.answers import Answers, answer
from runner.model import build
from runner.presets import Sizes
from runner.recall import Mqar
from runner.task import IGNORED

SIZES = Sizes(layers=1, width=12, heads=2, head_dim=6, feed_forward=8)


def answers(right, row, distance=None, pairs=None):
    right = np.array(right, dtype=bool)
    return Answers(
        nats_n=np.linspace(0.5, 2.5, len(right)),
        right_n=right,
        row_n=np.array(row),
        distance_n=np.array(distance or [1] * len(right)),
        pairs_n=np.array(pairs or [4] * len(right)),
    )


def test_accuracy_is_the_mean_over_rows_of_each_row_s_own():
    """The published figure: a row with one question weighs as much as one with three."""
    few = answers([1, 1, 1, 0], row=[0, 3, 3, 3])
    assert few.accuracy == pytest.approx((1 + 2 / 3) / 2)
    assert few.loss_nats == pytest.approx(1.5)


def test_accuracy_by_pairs_and_by_octaves_of_distance():
    few = answers([1, 0, 1, 1, 0], row=[0, 0, 1, 1, 1], distance=[1, 3, 2, 7, 64],
                  pairs=[2, 2, 3, 3, 3])  # fmt: skip
    metrics = few.metrics()
    assert set(metrics) == {"loss", "accuracy", "accuracy_pairs_2", "accuracy_pairs_3"} | {
        f"accuracy_distance_{low}" for low in (1, 2, 4, 64)
    }
    assert metrics["accuracy_pairs_2"] == 0.5
    assert metrics["accuracy_pairs_3"] == pytest.approx(2 / 3)
    assert metrics["accuracy_distance_2"] == 0.5  # distances 2 and 3, each in a row of its own
    assert metrics["accuracy_distance_4"] == 1.0
    assert metrics["accuracy_distance_64"] == 0.0
    assert "accuracy_pairs_4" not in answers([1], row=[0]).metrics()


@pytest.mark.parametrize("batch", [1, 5, 64])
def test_loss_and_accuracy_are_those_of_all_logits_at_once(batch):
    task = Mqar(vocabulary=40, pairs=[2, 3])
    rows = task.draw(13, 20, 3, "x")
    model = build(SIZES, vocab_size=40, seed=5)
    with torch.no_grad():
        logits = model(torch.from_numpy(rows.inputs_bt))
    b, t = np.nonzero(rows.labels_bt != IGNORED)
    rows.labels_bt[b[::3], t[::3]] = logits.argmax(-1).numpy()[b[::3], t[::3]]  # so some are right
    seen = []
    found = answer(model, rows, batch=batch, before_batch=seen.append)
    target = torch.from_numpy(rows.labels_bt)
    nats = F.cross_entropy(logits[target != IGNORED], target[target != IGNORED])
    right = (logits.argmax(-1) == target).sum(1) / (target != IGNORED).sum(1)
    assert found.loss_nats == pytest.approx(nats.item(), rel=1e-6)
    assert found.accuracy == pytest.approx(right.mean().item(), rel=1e-6)
    assert 0 < found.accuracy < 1
    assert sum(seen) == 13 * 20
    assert len(seen) == -(-13 // batch)
    trained_on = model.loss(torch.from_numpy(rows.inputs_bt), target)
    assert found.loss_nats == pytest.approx(trained_on.item(), rel=1e-6)


def test_what_a_hook_raises_ends_the_scoring():
    def stop(tokens):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        answer(build(SIZES, vocab_size=40, seed=5), Mqar(vocabulary=40, pairs=2).draw(2, 20, 0),
               batch=1, before_batch=stop)  # fmt: skip
