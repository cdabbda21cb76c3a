from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from runner.induction import Induction
from runner.recall import Mqar
from runner.sharpness import Sharpness
from runner.task import IGNORED

TASKS = {
    f"{cls.__name__} {number}": cls(**settings)
    for cls in (Mqar, Induction, Sharpness)
    for number, settings in enumerate(cls.examples)
}
RECALL = {name: task for name, task in TASKS.items() if isinstance(task, Mqar)}
ROWS = 41


def parsed(task, row, pairs):
    """Read a row's context as a person would: every key as a tuple -> its values in order."""
    slots = row[: (task.key_tokens + 1) * (pairs + task.reassigned)]
    values = {}
    for *key, value in slots.reshape(-1, task.key_tokens + 1).tolist():
        values.setdefault(tuple(key), []).append(value)
    return values


@pytest.mark.parametrize("length", [64, 97])
@pytest.mark.parametrize("name", TASKS)
def test_an_answer_stands_where_it_is_said_to_stand_and_its_key_before_it(name, length):
    rows = TASKS[name].draw(ROWS, length, 5, "here")
    assert rows.inputs_bt.shape == rows.labels_bt.shape == (ROWS, length)
    assert rows.inputs_bt.min() >= 0
    assert rows.inputs_bt.max() < TASKS[name].vocab_size
    due = rows.labels_bt != IGNORED
    b, t = np.nonzero(due)
    assert np.array_equal(rows.inputs_bt[b, rows.found_bt[due]], rows.labels_bt[due])
    assert np.array_equal(rows.inputs_bt[b, rows.key_bt[due]], rows.inputs_bt[b, t])
    assert np.array_equal(rows.key_bt[due] + 1, rows.found_bt[due])
    assert np.array_equal(rows.distance_bt[due], t - rows.found_bt[due])
    assert rows.distance_bt[due].min() > 0
    assert not rows.distance_bt[~due].any()
    assert (rows.found_bt[~due] == -1).all()


@pytest.mark.parametrize("name", RECALL)
def test_a_row_asks_for_each_of_its_keys_once_and_for_the_last_value(name):
    task = RECALL[name]
    rows = task.draw(ROWS, 64, 5, "asked")
    for row, labels, pairs in zip(rows.inputs_bt, rows.labels_bt, rows.pairs_b, strict=True):
        values = parsed(task, row, pairs)
        due = np.flatnonzero(labels != IGNORED)
        assert len(values) == len(due) == pairs
        asked = [tuple(row[t - task.key_tokens + 1 : t + 1].tolist()) for t in due]
        assert {key: values[key][-1] for key in values} == dict(
            zip(asked, labels[due].tolist(), strict=True)
        )
        assert (
            sorted(map(len, values.values()))
            == [1] * (pairs - task.reassigned) + [2] * task.reassigned
        )
        everything = [value for several in values.values() for value in several]
        assert len(set(everything)) == len(everything)  # a reassigned value really changes


@pytest.mark.parametrize("name", RECALL)
def test_keys_and_values_come_from_ranges_that_do_not_meet(name):
    task = RECALL[name]
    rows = task.draw(ROWS, 64, 6, "ranges")
    values_from = task.vocabulary - task.vocabulary // (task.key_tokens + 1)
    values_from -= task.vocabulary % (task.key_tokens + 1)
    places = [set() for _ in range(task.key_tokens)]
    for row, pairs in zip(rows.inputs_bt, rows.pairs_b, strict=True):
        for key, values in parsed(task, row, pairs).items():
            assert min(values) >= values_from > max(key)
            for place, token in zip(places, key, strict=True):
                place.add(token)
    assert 0 not in places[0]
    for before, after in pairwise(places):
        assert max(before) < min(after)
    assert task.chance == pytest.approx(1 / (task.vocabulary - values_from))


@pytest.mark.parametrize("name", RECALL)
def test_filler_is_of_the_declared_kind(name):
    task = RECALL[name]
    rows = task.draw(400, 64, 7, "filler")
    repeats = 0
    for row, labels, pairs in zip(rows.inputs_bt, rows.labels_bt, rows.pairs_b, strict=True):
        values = parsed(task, row, pairs)
        context = (task.key_tokens + 1) * (pairs + task.reassigned)
        asked = np.flatnonzero(labels != IGNORED)
        questions = {t - back for t in asked for back in range(task.key_tokens)}
        filler = [int(row[t]) for t in range(context, 64) if t not in questions]
        taken = {token for key in values for token in key}
        taken |= {value for several in values.values() for value in several}
        repeats += len(taken & set(filler))
        if task.filler == "zero":
            assert set(filler) == {0}
        if task.filler != "any":
            # In particular the answer never follows its question in the input.
            assert not taken & set(filler)
    assert (repeats > 0) == (task.filler == "any")


def test_apart_filler_is_uniform_over_what_is_left():
    task = Mqar(vocabulary=12, pairs=2, gap_power=1.0)
    rows = task.draw(4000, 40, 1, "uniform")
    left = []
    for row, labels in zip(rows.inputs_bt, rows.labels_bt, strict=True):
        free = sorted(set(range(12)) - set(row[:4].tolist()))
        blank = np.flatnonzero(labels[4:] == IGNORED) + 4
        left += [free.index(token) for token in row[blank].tolist()]
    times = np.bincount(left)
    assert len(times) == 8
    assert np.abs(times / times.sum() - 1 / 8).max() < 0.004


@pytest.mark.parametrize("name", TASKS)
def test_rows_depend_on_seed_and_stream_and_on_nothing_else(name):
    task = TASKS[name]
    first = task.draw(ROWS, 64, 5, "train", 3).fingerprint()
    np.random.seed(1)
    torch.manual_seed(1)
    task.draw(7, 64, 5, "train", 2)
    assert task.draw(ROWS, 64, 5, "train", 3).fingerprint() == first
    others = [(6, "train", 3), (5, "train", 4), (5, "valid", 3), (5, "train")]
    prints = {task.draw(ROWS, 64, seed, *stream).fingerprint() for seed, *stream in others}
    assert len(prints | {first}) == 5


def test_kinds_of_rows_take_turns():
    rows = Mqar(pairs=[3, 8, 5]).draw(7, 64, 0)
    assert rows.pairs_b.tolist() == [3, 8, 5, 3, 8, 5, 3]
    assert (rows.labels_bt != IGNORED).sum(axis=1).tolist() == rows.pairs_b.tolist()
    assert Mqar(pairs=[3, 8, 5]).draw(1, 64, 0).pairs_b.tolist() == [3]


def test_early_pairs_are_asked_for_early_unless_the_order_is_shuffled():
    """In the published generator the median slot rises from pair to pair: 6, 8, 10, 12."""

    def place_of_pair(**settings):
        rows = Mqar(pairs=4, **settings).draw(3000, 64, 2, "order")
        b, t = np.nonzero(rows.labels_bt != IGNORED)
        pair = rows.key_bt[b, t] // 2
        return [np.median(t[pair == k]) - 8 for k in range(4)]

    correlated, shuffled = place_of_pair(), place_of_pair(order="shuffled")
    assert np.all(np.diff(correlated) >= 2)
    assert np.ptp(shuffled) <= 2
    assert np.ptp(place_of_pair(gap_power=1.0)) <= 4


def test_no_part_of_a_key_of_several_tokens_tells_its_value():
    task = Mqar(vocabulary=200, pairs=27, key_tokens=3)
    rows = task.draw(5, 256, 3, "grid")
    keys = np.array([list(parsed(task, row, 27)) for row in rows.inputs_bt])
    for of_row in keys:
        for left_out in range(3):
            rest = np.delete(of_row, left_out, axis=1)
            assert np.unique(rest, axis=0, return_counts=True)[1].tolist() == [3] * 9
    # Nor does the place of a pair: each row has an order of its own.
    orders = {tuple((row[:, 0] == row[0, 0]).tolist()) for row in keys}
    assert len(orders) == 5


@given(
    pairs=st.integers(1, 9),
    tokens=st.integers(1, 2),
    reassigned=st.integers(0, 4),
    extra=st.integers(0, 5),
    vocabulary=st.integers(30, 90),
    filler=st.sampled_from(["apart", "any", "zero"]),
    seed=st.integers(0, 2**40),
)
def test_every_row_that_fits_is_drawn_and_any_shorter_one_refused(
    pairs, tokens, reassigned, extra, vocabulary, filler, seed
):
    settings = {"pairs": pairs**tokens, "key_tokens": tokens, "filler": filler}
    reassigned = min(reassigned, pairs)
    task = Mqar(vocabulary=max(vocabulary, 40 * tokens), reassigned=reassigned, **settings)
    least = (tokens + 1) * (2 * pairs**tokens + reassigned)
    part = task.vocabulary // (tokens + 1)
    if pairs**tokens + reassigned > task.vocabulary - tokens * part or pairs > part - 1:
        with pytest.raises(ValueError, match="too few for"):
            task.check(10**6)
        return
    rows = task.draw(3, least + extra, seed)
    assert ((rows.labels_bt != IGNORED).sum(axis=1) == pairs**tokens).all()
    with pytest.raises(ValueError, match="is too short"):
        task.draw(3, least - 1, seed)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pairs": 8, "vocabulary": 16}, "7 tokens for each place of a key, too few for 8 pairs"),
        ({"pairs": 8, "reassigned": 9}, "reassigned = 9 is more than the 8 keys"),
        ({"pairs": 8, "key_tokens": 2}, r"pairs must be a power g\^2, got 8"),
        ({"pairs": 17}, "take 68 tokens: seq_len = 64 is too short"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_a_sentence(settings, message):
    with pytest.raises(ValueError, match=message):
        Mqar(**settings).draw(1, 64, 0)


def test_settings_that_make_no_sense_are_refused():
    for settings in ({"pairs": []}, {"pairs": [4, 4]}, {"pairs": 0}, {"gap_power": 0.0},
                     {"length": 64}, {"filler": "random"}, {"key_tokens": 5}):  # fmt: skip
        with pytest.raises(ValidationError):
            Mqar(**settings)
