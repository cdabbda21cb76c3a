"""Sharpness: recall in which all keys of a row look alike, at an angle that is set."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from pydantic import Field, PositiveInt

from .draws import Draws
from .recall import Mqar


class Sharpness(Mqar):
    """Multi-query recall among near-duplicates: attention must tell one key from all its like.

    Keys come in groups, and a row's keys all belong to one group. A key's input vector is fixed,
    not learned: any two of a group enclose exactly ``angle_degrees``, and a group's common
    direction is drawn at random, so that many groups leave no direction that could simply be
    ignored. To put the weight w on one key among K, scores must differ by
    ln((K - 1) w / (1 - w)), and the smaller the angle the more they must be scaled for it.
    """

    summary = (
        "recall among keys that enclose a set angle, the dial of how sharp attention must be; "
        "chance 1 / (vocabulary / 2)"
    )
    source = "of this project; pairs and questions as in mqar"
    examples = (
        {"vocabulary": 130, "pairs": 5, "group": 8, "angle_degrees": 20.0},
        {"vocabulary": 71, "pairs": 7, "group": 7, "angle_degrees": 90.0, "order": "shuffled"},
        {"vocabulary": 97, "pairs": [2, 4], "group": 4, "angle_degrees": 5.0, "reassigned": 1},
    )

    angle_degrees: Annotated[float, Field(gt=0, le=90)] = 60.0
    """The angle between the input vectors of any two keys of a group."""
    group: PositiveInt = 16
    """Keys in a group; ids beyond the last whole group are never keys."""

    @property
    def groups(self) -> int:
        """Return how many groups the vocabulary holds."""
        return (self._part - 1) // self.group

    def check(self, length: int) -> None:
        """Raise ``ValueError`` when a row, a group or the vocabulary is too small."""
        if self.key_tokens != 1:
            raise ValueError(f"a key of sharpness is one token, got key_tokens = {self.key_tokens}")
        if max(self.kinds) > self.group:
            raise ValueError(
                f"the {max(self.kinds)} keys of a row come from one group: group = {self.group} "
                "must be at least as large"
            )
        if self.groups < 1:
            raise ValueError(
                f"a vocabulary of {self.vocabulary} holds no group of {self.group} keys: take a "
                f"vocabulary of {2 * self.group + 2} or more"
            )
        super().check(length)

    def _keys(self, rows: int, pairs: int, stream: tuple) -> np.ndarray:
        group_b1 = Draws(*stream, "group").below(self.groups, (rows, 1))
        member_bk = Draws(*stream, "keys", 0).subsets(rows, self.group, pairs)
        return (1 + group_b1 * self.group + member_bk)[..., None]

    def codes(self, width: int, seed: int) -> np.ndarray:
        """Return the input vectors of the keys, of length 1, (vocabulary, width).

        Raises ``ValueError`` when the width has no room for a group's directions.
        """
        if width < self.group + 1:
            raise ValueError(
                f"a group of {self.group} keys at one angle needs a width of at least "
                f"{self.group + 1}, and the model's is {width}: take a smaller group"
            )
        draws = Draws(seed, "codes")
        codes = np.zeros((self.vocabulary, width))
        # Directions at right angles, one shared and one of each key's own: two keys that have
        # share cos(a) of the common one enclose the angle a, whatever the rest is.
        cosine = math.cos(math.radians(self.angle_degrees))
        for number in range(self.groups):
            directions, _ = np.linalg.qr(draws.normal((width, self.group + 1)))
            first = 1 + number * self.group
            codes[first : first + self.group] = (
                math.sqrt(max(cosine, 0.0)) * directions[:, 0]
                + math.sqrt(1.0 - max(cosine, 0.0)) * directions[:, 1:].T
            )
        return codes
