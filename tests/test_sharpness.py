import numpy as np
import pytest

from runner.sharpness import Sharpness


@pytest.mark.parametrize("angle", [0.5, 5.0, 60.0, 89.9, 90.0])
def test_keys_of_a_group_enclose_the_angle_and_have_length_one(angle):
    task = Sharpness(vocabulary=100, group=7, pairs=3, angle_degrees=angle)
    codes = task.codes(16, seed=2)
    assert codes.shape == (100, 16)
    assert task.groups == 7
    groups = codes[1:50].reshape(7, 7, 16)
    for keys in groups:
        cosines = keys @ keys.T
        off = cosines[~np.eye(7, dtype=bool)]
        assert np.allclose(np.diag(cosines), 1.0, atol=1e-12)
        assert np.allclose(off, np.cos(np.radians(angle)), atol=1e-12)
    assert not codes[0].any()
    assert not codes[50:].any()  # left over from the last group, and the values


def test_groups_point_in_directions_of_their_own_that_follow_the_seed():
    task = Sharpness(vocabulary=400, group=4, pairs=3, angle_degrees=1.0)
    first = task.codes(32, seed=2)
    centres = first[1 : 1 + 4 * task.groups].reshape(-1, 4, 32).mean(axis=1)
    cosines = (centres @ centres.T)[~np.eye(task.groups, dtype=bool)]
    assert abs(cosines.mean()) < 0.02
    assert np.linalg.matrix_rank(centres) == 32  # no direction is left that none of them uses
    assert np.array_equal(first, task.codes(32, seed=2))
    assert not np.allclose(first, task.codes(32, seed=3))


def test_a_row_s_keys_are_of_one_group_and_all_groups_have_their_turn():
    task = Sharpness(vocabulary=60, group=6, pairs=5)
    rows = task.draw(300, 40, 4)
    keys = rows.inputs_bt[:, 0:10:2]
    groups = (keys - 1) // 6
    assert (groups == groups[:, :1]).all()
    assert set(groups[:, 0].tolist()) == set(range(task.groups)) == set(range(4))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pairs": 9, "group": 8}, "the 9 keys of a row come from one group: group = 8"),
        ({"vocabulary": 33, "group": 16}, "take a vocabulary of 34 or more"),
        ({"pairs": 9, "key_tokens": 2}, "a key of sharpness is one token"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_a_sentence(settings, message):
    with pytest.raises(ValueError, match=message):
        Sharpness(**settings).draw(1, 64, 0)


def test_a_width_without_room_for_a_group_is_refused():
    task = Sharpness(vocabulary=130, group=16)
    assert task.codes(17, 0).any()
    with pytest.raises(ValueError, match="needs a width of at least 17, and the model's is 16"):
        task.codes(16, 0)
