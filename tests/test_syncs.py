"""A training step waits for no device: it reads no number from a tensor and copies none across."""

from contextlib import nullcontext

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from analysis.design import Train
from runner import attention, coupling
from runner.data import Tokens
from runner.distributed import Group
from runner.learner import Learner
from runner.model import build
from runner.presets import Sizes
from runner.settings import ModelSettings, RunSettings, TextSettings, VariantSettings
from runner.sources import Text
from runner.watch import Watch

SIZES = Sizes(layers=2, width=20, heads=6, head_dim=4, feed_forward=12, rope_base=1e4)
VOCABULARY, BATCH, TOKENS = 31, 4, 13
COPIES = (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default)
READS = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
ON_A_CPU_ONLY = {"differential"}  # its form for a CPU reads lambda where it lies


class Waits(TorchDispatchMode):
    """Notes each operation whose result the host must have, or that goes from device to device.

    ``tolist`` and ``numpy`` read a CPU's memory past all operations; on "meta" they raise.
    """

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        if READS & set(func.tags) or _picks_by_truth(func, args) or _crosses(func, args, made):
            self.seen.append(str(func))
        return made


def _picks_by_truth(func, args):
    """Return whether a mask picks elements: how many they are only the device knows."""
    return str(func).startswith("aten.index.") and any(
        index is not None and index.dtype in (torch.bool, torch.uint8) for index in args[1]
    )


def _crosses(func, args, made):
    return func in COPIES and len({t.device for t in (*args, made) if torch.is_tensor(t)}) > 1


def learner(method, pairing, **train):
    ids = np.random.default_rng(0).integers(VOCABULARY, size=2000).astype("<u2")
    tokens = Tokens(ids, ids, ids, VOCABULARY, n_bytes={}, n_words=None, sha256="")
    schedule = Train(seq_len=TOKENS, batch=BATCH, tokens=50 * BATCH * TOKENS, lr=1e-3, **train)
    settings = RunSettings(
        data=TextSettings(corpus="random", text_sha256="0" * 64, tokenizer="byte"),
        model=ModelSettings(**vars(SIZES)),
        attention=VariantSettings(name=method),
        coupling=VariantSettings(name=pairing),
        train=schedule,
        seed=1,
    )
    return Learner(settings, Text(tokens), Group())


@pytest.mark.parametrize("method", sorted({*attention.names()} - ON_A_CPU_ONLY))
@pytest.mark.parametrize("pairing", coupling.names())
def test_no_step_reads_a_number_from_the_device(method, pairing):
    made, watch = learner(method, pairing), Watch(9.0)
    made.take_step()
    with Waits() as waits:
        for _ in range(2):
            watch.note(made.step, made.take_step())
    assert waits.seen == []


@pytest.mark.parametrize(
    "line",
    [
        {"gradient_accumulation": 2},
        {"activation_checkpointing": True},
        {"precision": "bfloat16"},
    ],
)
def test_nor_does_one_in_parts_recomputed_or_in_short_numbers(line):
    made = learner("multi_token", "affine", **line)
    made.take_step()
    with Waits() as waits:
        made.take_step()
    assert waits.seen == []


@pytest.mark.parametrize("method", attention.names())
@pytest.mark.parametrize("pairing", coupling.names())
def test_no_pass_reads_from_another_device_or_copies_to_it(method, pairing, monkeypatch):
    # "meta" stands for a GPU: it has no numbers to give, and, unlike one, no autocast.
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda device: False)
    monkeypatch.setattr(torch, "get_autocast_dtype", lambda device: torch.bfloat16)
    monkeypatch.setattr(torch, "autocast", lambda *given, **options: nullcontext())
    model = build(SIZES, vocab_size=VOCABULARY, attention=method, coupling=pairing, device="meta")
    ids_bt = torch.empty(BATCH, TOKENS, dtype=torch.long, device="meta")
    model.loss(ids_bt, ids_bt).backward()  # tables are made once, at the first pass
    with Waits() as waits:
        model.loss(ids_bt, ids_bt).backward()
    assert waits.seen == []


@pytest.mark.parametrize(
    "wait",
    [
        lambda x: x.sum().item(), lambda x: x[x > 0], lambda x: x.nonzero(),
        lambda x: bool(x[0] > 0), lambda x: torch.equal(x, x), lambda x: x.to("meta"),
        lambda x: torch.empty_like(x, device="meta").copy_(x),
    ],
)  # fmt: skip
def test_what_waits_is_noticed(wait):
    with Waits() as waits:
        wait(torch.tensor([1.0, -1.0, 2.0]))
    assert waits.seen
