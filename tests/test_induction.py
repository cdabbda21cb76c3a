import numpy as np
import pytest

from runner.induction import Induction
from runner.task import IGNORED


@pytest.mark.parametrize(("vocabulary", "copied", "length"), [(64, 1, 64), (7, 5, 23), (3, 4, 9)])
def test_the_row_ends_by_repeating_what_followed_the_first_trigger(vocabulary, copied, length):
    task = Induction(vocabulary=vocabulary, copied=copied)
    rows = task.draw(101, length, 3, "x")
    for row, labels in zip(rows.inputs_bt.tolist(), rows.labels_bt.tolist(), strict=True):
        first, second = (t for t, token in enumerate(row) if token == 0)
        answers = row[first + 1 : first + 1 + copied]
        assert second == length - copied
        assert row[second + 1 :] == answers[:-1]
        assert labels == [IGNORED] * second + answers
        assert 0 not in answers
    assert task.chance == 1 / (vocabulary - 1)
    assert (rows.pairs_b == length - 2 * copied).all()


def test_the_first_trigger_may_stand_anywhere_before():
    rows = Induction(copied=2).draw(2000, 12, 0)
    first, times = np.unique(np.argmin(rows.inputs_bt, axis=1), return_counts=True)
    assert first.tolist() == list(range(8))
    assert times.min() > 200


def test_a_row_without_room_for_both_is_refused():
    with pytest.raises(ValueError, match="at least 9 tokens: seq_len = 8 is too short"):
        Induction(copied=4).draw(1, 8, 0)
