"""Whole numbers, subsets and orders, row by row from a named stream, the same under every numpy."""

from __future__ import annotations

import numpy as np

from .streams import fold


class Draws:
    """Draws from the stream that ``names`` spell under ``seed``; each call takes what comes next.

    Only the generator's bits are used, which numpy promises for ever; its methods may change. A
    number below n is a remainder of 64 bits, so its probability is off by at most n / 2^64.

    >>> Draws(1, "keys").below(10, (2, 3)).tolist() == Draws(1, "keys").below(10, (2, 3)).tolist()
    True
    """

    def __init__(self, seed: int, *names: object) -> None:
        self._stream = np.random.PCG64(fold(seed, *names))

    def below(self, limit: int, shape: tuple[int, ...]) -> np.ndarray:
        """Return whole numbers from 0 to ``limit`` - 1, int64."""
        return (self._raw(shape) % np.uint64(limit)).astype(np.int64)

    def orders(self, rows: int, n: int) -> np.ndarray:
        """Return a random order of 0 to n - 1 in every row, (rows, n)."""
        return np.argsort(self._raw((rows, n)), axis=1, kind="stable")

    def subsets(self, rows: int, n: int, k: int) -> np.ndarray:
        """Return k different numbers below n in random order in every row, (rows, k).

        Robert W. Floyd's rule, in "Programming Pearls: a sample of brilliance", J. Bentley, 1987,
        https://doi.org/10.1145/30401.315746: k draws, however large n is.
        """
        assert 0 <= k <= n
        chosen = np.empty((rows, k), dtype=np.int64)
        for column, last in enumerate(range(n - k, n)):
            drawn = self.below(last + 1, (rows,))
            taken = (chosen[:, :column] == drawn[:, None]).any(axis=1)
            chosen[:, column] = np.where(taken, last, drawn)
        return np.take_along_axis(chosen, self.orders(rows, k), axis=1)

    def weighted_subsets(self, rows: int, weights_n: np.ndarray, k: int) -> np.ndarray:
        """Return k different places, drawn one after another by weight, in that order, (rows, k).

        The first k finishers of a race whose times are exponential with these rates: "Weighted
        random sampling with a reservoir", P. Efraimidis and P. Spirakis, 2006,
        https://doi.org/10.1016/j.ipl.2005.11.003.
        """
        assert k <= len(weights_n)
        times = -np.log(self._uniform((rows, len(weights_n)))) / weights_n
        return np.argsort(times, axis=1, kind="stable")[:, :k]

    def normal(self, shape: tuple[int, ...]) -> np.ndarray:
        """Return standard normal numbers, float64, by the rule of Box and Muller, 1958."""
        radius = np.sqrt(-2.0 * np.log(self._uniform(shape)))
        return radius * np.cos(2.0 * np.pi * self._uniform(shape))

    def _uniform(self, shape: tuple[int, ...]) -> np.ndarray:
        # The upper 53 bits and a half: never 0, whose logarithm is infinite.
        return ((self._raw(shape) >> np.uint64(11)) + 0.5) * 2.0**-53

    def _raw(self, shape: tuple[int, ...]) -> np.ndarray:
        return self._stream.random_raw(int(np.prod(shape))).reshape(shape)
