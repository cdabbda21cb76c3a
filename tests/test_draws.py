from itertools import permutations

import numpy as np
import pytest
from scipy import stats

from runner.draws import Draws

ROWS = 20_000
LEVEL = 1e-4  # of each goodness-of-fit test below; the seeds are fixed, so a failure stays one


def counts(rows):
    """Return how often each row occurs."""
    return np.unique(rows, axis=0, return_counts=True)


def test_a_stream_depends_on_its_seed_and_every_name():
    drawn = {
        tuple(Draws(seed, *names).below(2**40, (8,)).tolist())
        for seed in (0, 1)
        for names in ((), ("a",), ("b",), ("a", 0), ("a", "b"), ("ab",))
    }
    assert len(drawn) == 12


def test_no_global_generator_is_read_or_moved():
    np.random.seed(3)
    first = Draws(1, "x").subsets(3, 99, 7)
    state = np.random.get_state()[1].copy()
    np.random.seed(4)
    assert np.array_equal(first, Draws(1, "x").subsets(3, 99, 7))
    np.random.seed(3)
    assert np.array_equal(state, np.random.get_state()[1])


def test_the_first_numbers_never_change():
    """A new release of numpy, or of ours, must draw the same rows: results depend on them."""
    assert Draws(7, "pinned").below(1000, (6,)).tolist() == [16, 294, 860, 640, 728, 162]
    assert Draws(7, "pinned").subsets(2, 11, 4).tolist() == [[1, 3, 8, 0], [2, 9, 10, 6]]
    weights = np.arange(1, 8) ** -0.99
    assert Draws(7, "pinned").weighted_subsets(2, weights, 3).tolist() == [[6, 0, 4], [5, 1, 0]]


@pytest.mark.parametrize(("n", "k"), [(1, 0), (1, 1), (5, 5), (97, 1), (97, 13), (4095, 64)])
def test_a_subset_has_different_members_of_the_range(n, k):
    drawn = Draws(0, n, k).subsets(101, n, k)
    assert drawn.shape == (101, k)
    assert all(len(set(row)) == k for row in drawn.tolist())
    assert k == 0 or (drawn.min() >= 0 and drawn.max() < n)


def test_every_ordered_subset_is_equally_likely():
    found, times = counts(Draws(5, "subsets").subsets(ROWS, 5, 3))
    assert len(found) == 60
    assert stats.chisquare(times).pvalue > LEVEL


def test_every_order_is_equally_likely():
    found, times = counts(Draws(5, "orders").orders(ROWS, 4))
    assert found.tolist() == [list(order) for order in permutations(range(4))]
    assert stats.chisquare(times).pvalue > LEVEL


def test_weighted_places_come_one_after_another_by_weight():
    """First p_i, then p_j / (1 - p_i): the law of draws without replacement, in order."""
    p = np.array([0.5, 0.25, 0.15, 0.1])
    found, times = counts(Draws(6, "weighted").weighted_subsets(ROWS, 3.7 * p, 2))
    expected = [p[i] * p[j] / (1 - p[i]) for i, j in found]
    assert len(found) == 12
    assert stats.chisquare(times, ROWS * np.array(expected)).pvalue > LEVEL


def test_normal_numbers_are_normal():
    drawn = Draws(8, "normal").normal((ROWS,))
    assert stats.kstest(drawn, "norm").pvalue > LEVEL
    assert abs(np.corrcoef(drawn[:-1], drawn[1:])[0, 1]) < 4 / ROWS**0.5
