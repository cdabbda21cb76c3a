"""Multi-query associative recall: pairs of key and value, then the keys again as questions."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, field_validator

from .draws import Draws
from .task import Rows, Task, empty_rows


class Mqar(Task):
    """A row lists K pairs (key, value) and then asks for each key's value once.

    Ids: the first of ``key_tokens`` + 1 equal parts of the vocabulary holds the keys' first tokens,
    with id 0 left out, the next part their second tokens and so on; the values fill the last. A
    question is a key in the second part of the row; its answer is the target there and never stands
    behind it in the input. The questions lie on slots as wide as a pair, at least one of whose
    tokens is filler; slot s, counted from 1, is taken with weight s^(gap_power - 1).

    Guessing among all values scores 1 / (values); guessing among the row's own values 1 / K.
    """

    summary = "key-value pairs, then keys asked for again; chance 1 / (vocabulary / 2)"
    source = (
        "Zoology: Measuring and Improving Recall in Efficient Language Models, S. Arora et al., "
        "2023, https://arxiv.org/abs/2312.04927"
    )
    examples = (
        {},
        {"vocabulary": 61, "pairs": 5, "filler": "zero", "gap_power": 1.0},
        {"vocabulary": 83, "pairs": 7, "filler": "any", "order": "shuffled"},
        {"vocabulary": 200, "pairs": [3, 8, 5], "order": "shuffled"},
        {"vocabulary": 127, "pairs": 6, "reassigned": 4},
        {"vocabulary": 97, "pairs": 9, "key_tokens": 2, "reassigned": 2},
        {"vocabulary": 45, "pairs": 1, "key_tokens": 3, "filler": "any"},
    )

    vocabulary: PositiveInt = 8192
    """Ids in all, keys and values together."""
    pairs: PositiveInt | Annotated[tuple[PositiveInt, ...], Field(min_length=1)] = 8
    """K; of several numbers, the rows of a batch take one after another in turn."""
    gap_power: PositiveFloat = 0.01
    """0.01 lets most questions follow soon, 1.0 spreads them evenly."""
    order: Literal["correlated", "shuffled"] = "correlated"
    """correlated: early pairs tend to be asked for early, as in the published generator.
    shuffled: which pair is asked for says nothing about where."""
    filler: Literal["apart", "any", "zero"] = "apart"
    """What stands between the questions. apart: ids that are none of the row's keys and values.
    any: all ids, so that a key may reappear without being a question. zero: id 0."""
    reassigned: NonNegativeInt = 0
    """So many keys get a second, different value after all pairs; the later value is the answer."""
    key_tokens: Annotated[int, Field(ge=1, le=4)] = 1
    """Tokens of a key. With n of them K is g^n and all combinations of g tokens a place occur, so
    that no part of a key tells its value."""

    @field_validator("pairs")
    @classmethod
    def _distinct(cls, pairs: int | tuple[int, ...]) -> int | tuple[int, ...]:
        if isinstance(pairs, tuple) and len(set(pairs)) < len(pairs):
            raise ValueError(f"a number of pairs is listed twice in {list(pairs)}")
        return pairs

    @property
    def vocab_size(self) -> int:
        """Return the number of ids."""
        return self.vocabulary

    @property
    def kinds(self) -> tuple[int, ...]:
        """Return the numbers of pairs that rows may have."""
        return self.pairs if isinstance(self.pairs, tuple) else (self.pairs,)

    @property
    def chance(self) -> float:
        """Return the accuracy of guessing among all values."""
        return 1.0 / (self.vocabulary - self.key_tokens * self._part)

    @property
    def _part(self) -> int:
        return self.vocabulary // (self.key_tokens + 1)

    def choices(self, pairs: int) -> int:
        """Return g: how many different tokens the keys of a row have at each of their places."""
        return round(pairs ** (1 / self.key_tokens))

    def check(self, length: int) -> None:
        """Raise ``ValueError`` when a row or the vocabulary is too small, or K no power."""
        for pairs in self.kinds:
            self._check_vocabulary(pairs)
            needed = (self.key_tokens + 1) * (2 * pairs + self.reassigned)
            if length < needed:
                raise ValueError(
                    f"{pairs} pairs, {self.reassigned} of them reassigned, and a question for each "
                    f"take {needed} tokens: seq_len = {length} is too short"
                )

    def _check_vocabulary(self, pairs: int) -> None:
        tokens, choices = self.key_tokens, self.choices(pairs)
        if choices**tokens != pairs:
            raise ValueError(
                f"with key_tokens = {tokens} the pairs are all combinations of their tokens: "
                f"pairs must be a power g^{tokens}, got {pairs}"
            )
        if self.reassigned > pairs:
            raise ValueError(f"reassigned = {self.reassigned} is more than the {pairs} keys")
        values = self.vocabulary - tokens * self._part
        if self._part - 1 < choices or values < pairs + self.reassigned:
            raise ValueError(
                f"a vocabulary of {self.vocabulary} has {max(self._part - 1, 0)} tokens for each "
                f"place of a key, too few for {pairs} pairs and {self.reassigned} reassigned keys"
            )

    def draw(self, rows: int, length: int, seed: int, *stream: object) -> Rows:
        """Return rows from the stream of that name."""
        self.check(length)
        pairs_b = np.resize(np.array(self.kinds, dtype=np.int64), rows)
        drawn = empty_rows(rows, length, pairs_b)
        for pairs in np.unique(pairs_b).tolist():
            self._write(drawn, np.flatnonzero(pairs_b == pairs), pairs, (seed, *stream, pairs))
        return drawn

    def _write(self, drawn: Rows, at: np.ndarray, pairs: int, stream: tuple) -> None:
        """Write the rows at these places, which have so many pairs each."""
        rows = len(at)
        keys_bkn = self._keys(rows, pairs, stream)
        values_bs = self._values(rows, pairs + self.reassigned, stream)
        again_br = Draws(*stream, "reassigned").subsets(rows, pairs, self.reassigned)
        pair_bs = np.concatenate((np.tile(np.arange(pairs), (rows, 1)), again_br), axis=1)
        slot_keys_bsn = np.take_along_axis(keys_bkn, pair_bs[..., None], axis=1)
        context_bc = np.concatenate((slot_keys_bsn, values_bs[..., None]), -1).reshape(rows, -1)
        drawn.inputs_bt[at, : context_bc.shape[1]] = context_bc
        # A reassigned key stands on two slots, and its later value is the answer.
        stands_bks = pair_bs[:, None] == np.arange(pairs)[:, None]
        slot_bk = pair_bs.shape[1] - 1 - stands_bks[..., ::-1].argmax(axis=-1)
        answers_bk = np.take_along_axis(values_bs, slot_bk, axis=1)
        self._ask(drawn, at, context_bc.shape[1], keys_bkn, answers_bk, slot_bk, stream)
        self._fill(drawn.inputs_bt, at, keys_bkn, values_bs, stream)

    def _ask(
        self,
        drawn: Rows,
        at: np.ndarray,
        context: int,
        keys_bkn: np.ndarray,
        answers_bk: np.ndarray,
        slot_bk: np.ndarray,
        stream: tuple,
    ) -> None:
        """Write the questions behind the context, and where each answer is due and stands."""
        wide, row_b1 = self.key_tokens + 1, at[:, None]
        slots = (drawn.inputs_bt.shape[1] - context) // wide
        first_bk = context + wide * self._gaps(*answers_bk.shape, slots, stream)
        for place in range(self.key_tokens):
            drawn.inputs_bt[row_b1, first_bk + place] = keys_bkn[..., place]
        due_bk = first_bk + self.key_tokens - 1
        drawn.labels_bt[row_b1, due_bk] = answers_bk
        drawn.found_bt[row_b1, due_bk] = wide * slot_bk + self.key_tokens
        drawn.key_bt[row_b1, due_bk] = wide * slot_bk + self.key_tokens - 1

    def _keys(self, rows: int, pairs: int, stream: tuple) -> np.ndarray:
        """Return the keys of each row, (rows, K, tokens of a key)."""
        if self.key_tokens == 1:
            return 1 + Draws(*stream, "keys", 0).subsets(rows, self._part - 1, pairs)[..., None]
        choices = self.choices(pairs)
        # Pair p, written in base g, says which token stands at each place of its key.
        digits_nk = np.array(np.unravel_index(np.arange(pairs), (choices,) * self.key_tokens))
        places = []
        for place, digit_k in enumerate(digits_nk):
            first = max(place * self._part, 1)  # id 0 is no key
            ids = (place + 1) * self._part - first
            drawn = first + Draws(*stream, "keys", place).subsets(rows, ids, choices)
            places.append(drawn[:, digit_k])
        order_bk = Draws(*stream, "order of pairs").orders(rows, pairs)
        return np.take_along_axis(np.stack(places, axis=-1), order_bk[..., None], axis=1)

    def _values(self, rows: int, number: int, stream: tuple) -> np.ndarray:
        # A row's values all differ, so a reassigned key really changes its value.
        first = self.key_tokens * self._part
        return first + Draws(*stream, "values").subsets(rows, self.vocabulary - first, number)

    def _gaps(self, rows: int, pairs: int, slots: int, stream: tuple) -> np.ndarray:
        weights = np.arange(1, slots + 1) ** (self.gap_power - 1.0)
        gaps_bk = Draws(*stream, "gaps").weighted_subsets(rows, weights, pairs)
        if self.order == "correlated":
            return gaps_bk
        order_bk = Draws(*stream, "order of questions").orders(rows, pairs)
        return np.take_along_axis(gaps_bk, order_bk, axis=1)

    def _fill(
        self,
        inputs_bt: np.ndarray,
        at: np.ndarray,
        keys_bkn: np.ndarray,
        values_bs: np.ndarray,
        stream: tuple,
    ) -> None:
        """Write filler where the rows at these places are still 0."""
        if self.filler == "zero":
            return
        shape, draws = (len(at), inputs_bt.shape[1]), Draws(*stream, "filler")
        if self.filler == "any":
            filler_bt = draws.below(self.vocabulary, shape)
        else:
            pairs = keys_bkn.shape[1]
            # A token of a key occurs in so many of the row's keys; once is enough here.
            times = pairs // self.choices(pairs)
            tokens_bn = np.sort(keys_bkn, axis=1)[:, ::times].reshape(len(at), -1)
            taken_bu = np.sort(np.concatenate((tokens_bn, values_bs), axis=1), axis=1)
            filler_bt = draws.below(self.vocabulary - taken_bu.shape[1], shape)
            for taken_b in taken_bu.T:  # in rising order, each id shifts what lies at or above it
                filler_bt += filler_bt >= taken_b[:, None]
        inputs_bt[at] = np.where(inputs_bt[at] == 0, filler_bt, inputs_bt[at])
