"""Ratios are those of the rounds, memory is what a process really took, and nothing is silent."""

import os
from functools import partial

import pytest
import torch

from runner import bench
from runner.measure import Step, _ratio, interleave, peak_bytes
from runner.presets import PRESETS

MIB = 2**20


def holding(mebibytes: int):
    return lambda: torch.ones(mebibytes, MIB // 4).sum()


def dying():
    return partial(os._exit, 9)


def test_a_ratio_is_the_median_of_the_rounds_ratios_not_the_ratio_of_medians():
    ratio = _ratio([2.0, 30.0, 4.0], [1.0, 10.0, 4.0])
    assert (ratio.median, ratio.low, ratio.high) == (2.0, 1.5, 2.5)
    assert (ratio.seconds, ratio.rounds) == (4.0, 3)


def test_calls_take_turns_and_nobody_is_always_first():
    order = []
    calls = {name: partial(order.append, name) for name in "abc"}
    ratios = interleave(calls, "b", rounds=3)
    assert "".join(order) == "abc" + "abc" + "bca" + "cab"
    assert ratios["b"].median == ratios["b"].low == ratios["b"].high == 1.0


def test_peak_memory_counts_what_was_freed_again():
    small, large = (peak_bytes(partial(holding, size)) for size in (64, 256))
    assert 64 <= small / MIB < 96
    assert 256 <= large / MIB < 288


def test_a_process_that_dies_is_reported():
    with pytest.raises(ValueError, match=r"died \(exit code 9\): take a smaller size"):
        peak_bytes(dying)


def test_a_step_learns_its_batch():
    take = Step(sizes=PRESETS["tiny"], vocab_size=11, batch=2, seq_len=7).prepare()
    losses = [take() for _ in range(30)]
    assert losses[-1] < losses[0] - 0.1


@pytest.mark.usefixtures("strict_torch")
def test_bench_yields_every_pair_that_was_asked_for():
    step = bench.step("tiny", seq_len=5, batch=1, vocab_size=7)
    rows = list(bench.rows(step, ["grouped"], ["affine", "none"], rounds=2))
    assert [(row.attention, row.coupling) for row in rows] == [
        ("grouped", "affine"),
        ("grouped", "none"),
    ]
    assert rows[1].time_over_none.median == 1.0
    assert rows[1].memory_over_none == 1.0
    assert all(row.tokens_per_second > 0 and row.memory_over_standard > 0 for row in rows)
    assert len({len(row.line()) for row in rows} | {len(bench.HEADER)}) == 1


@pytest.mark.parametrize(
    ("attentions", "couplings", "said"),
    [
        (["standart"], None, "unknown attention 'standart': did you mean 'standard'?"),
        (None, ["afine"], "unknown coupling 'afine': did you mean 'affine'?"),
    ],
)
def test_bench_refuses_a_name_it_does_not_know(attentions, couplings, said):
    step = bench.step("tiny", seq_len=5, batch=1, vocab_size=7)
    with pytest.raises(ValueError, match=said.replace("?", r"\?")):
        next(bench.rows(step, attentions, couplings))
