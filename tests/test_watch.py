import math

import pytest
import torch

from runner.watch import Watch


def noted(losses, above=None):
    watch = Watch(above)
    for step, nats in enumerate(losses, start=1):
        watch.note(step, torch.tensor(nats))
    return watch


@pytest.mark.parametrize(
    ("losses", "above", "expected"),
    [
        ([3.0, 2.0], None, None),
        ([3.0, 1e30], None, None),
        ([3.0, math.inf, 2.0, math.nan], None, (2, math.inf)),
        ([3.0, -math.inf], 5.0, (2, -math.inf)),
        ([3.0, 5.0, 5.5, 9.0], 5.0, (3, 5.5)),
        ([6.0], 5.0, (1, 6.0)),
        ([], 5.0, None),
    ],
)
def test_the_first_bad_loss_is_remembered(losses, above, expected):
    assert noted(losses, above).first() == expected


def test_not_a_number_is_bad_whatever_the_bound():
    step, nats = noted([1.0, math.nan], 5.0).first()
    assert step == 2
    assert math.isnan(nats)


@pytest.mark.parametrize("losses", [[1.0, 7.25], [math.nan], [1.0], [math.inf]])
def test_what_was_seen_survives_a_checkpoint(losses):
    before = noted(losses, 5.0)
    after = Watch(5.0)
    after.restore(before.state())
    assert str(after.first()) == str(before.first())
    after.note(99, torch.tensor(1e9))
    expected = before.first() or (99, 1e9)
    assert str(after.first()) == str(expected)


def test_noting_a_loss_reads_nothing_from_the_device():
    watch = Watch(5.0, "meta")
    watch.note(1, torch.empty((), device="meta"))
    with pytest.raises(RuntimeError):
        watch.first()
