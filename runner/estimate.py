"""What a run will cost, before any is trained: parameters, operations, memory and time.

Counts come from one forward pass: a real one of a small model, which is soon made, and one of fake
tensors of a large model, which take no memory but ten times longer for each operation. Time comes
from a few steps measured here, of a model cut down until a step is short, scaled by operations.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from . import device, tokenizers
from .activations import activation_bytes, part_rows
from .learner import build_model
from .model import Transformer, fill
from .settings import RunSettings
from .workload import PASSES_PER_STEP, Workload

MEASURED_OPERATIONS = 2e10  # of one measured step: under a second on a core
MEASURED_PARAMETERS = 80_000_000
MEASURED_STEPS = 2
COUNTED_OPERATIONS = 2e8  # of one forward pass: a larger one is counted on fake tensors
BYTES_PER_TOKEN = {"byte": 1.0, "gpt2": 4.4, "bpe": 3.5, "word": 5.3}  # of English, about
BYTES_PER_PARAMETER = 16  # float32 weight, gradient and the two moments of AdamW
SHAPE: dict[str, Any] = {
    "model": True,
    "attention": True,
    "coupling": True,
    "train": {
        "seq_len", "batch", "devices", "gradient_accumulation", "activation_checkpointing",
        "precision",
    },
}  # fmt: skip


@dataclass(frozen=True)
class Cost:
    """The cost of one run; ``flops`` holds training and scoring, a multiply-add being two.

    ``memory_bytes`` is what one device holds at the peak of a step: weights, gradients, moments and
    all that the backward pass needs of a part of the batch.
    """

    parameters: int
    steps: int
    tokens: int
    flops: float
    memory_bytes: int


@dataclass(frozen=True)
class Footprint:
    """What settings of one shape have in common, whatever their rate, seed and budget."""

    parameters: int
    forward_flops: int  # of one row
    activation_bytes: int  # of one part of a batch


def shape(settings: RunSettings, vocab_size: int) -> Hashable:
    """Return what a footprint and a pace depend on."""
    return vocab_size, settings.model_dump_json(include=SHAPE)


def footprint(settings: RunSettings, vocab_size: int) -> Footprint:
    """Count parameters and operations of a model, and the bytes that it keeps for the way back."""
    outline = build_model(settings, vocab_size, filled=False, device="meta")
    flops = outline.forward_flops(settings.train.seq_len)
    small = part_rows(settings) * flops <= COUNTED_OPERATIONS
    # One thread: on a busy machine others would keep so short a pass waiting.
    with _threads(1), nullcontext() if small else FakeTensorMode():
        model = build_model(settings, vocab_size, filled=False)
        kept = activation_bytes(model, settings)
    return Footprint(outline.parameter_count(), flops, kept)


def cost(
    settings: RunSettings,
    vocab_size: int,
    n_tokens: Mapping[str, int] | None = None,
    known: Footprint | None = None,
) -> Cost:
    """Return what a run of these settings costs on any machine.

    ``n_tokens`` (split -> tokens) adds the scoring of the splits to the operations; ``known`` is
    the footprint of the settings' shape where it has been counted already.
    """
    schedule = settings.train
    found = known or footprint(settings, vocab_size)
    passes = Workload(schedule, n_tokens or {"valid": 1, "test": 1}, step=0).total
    if schedule.activation_checkpointing:
        passes += schedule.steps * schedule.batch * schedule.seq_len  # one more forward pass
    return Cost(
        parameters=found.parameters,
        steps=schedule.steps,
        tokens=schedule.steps * schedule.batch * schedule.seq_len,
        flops=passes * found.forward_flops / schedule.seq_len,
        memory_bytes=BYTES_PER_PARAMETER * found.parameters + found.activation_bytes,
    )


@dataclass(frozen=True)
class Pace:
    """How fast this machine computes losses with their gradients, and updates parameters."""

    seconds_per_flop: float
    seconds_per_update: float  # of one parameter

    def seconds(self, cost: Cost) -> float:
        """Return how long a run takes, alone on its slot."""
        updates = cost.steps * cost.parameters * self.seconds_per_update
        return cost.flops * self.seconds_per_flop + updates


def pace(settings: RunSettings, vocab_size: int, threads: int) -> Pace:
    """Return the measured pace of training with these settings on this machine.

    A model that is too large to be tried is measured with fewer layers, on fewer and shorter rows.
    """
    where = device.choose()
    with _threads(threads):
        model, rows, tokens = _cut_down(settings, vocab_size)
        model = model.to(where).train()
        update = _adamw(model)
        ids_bt = torch.randint(vocab_size, (rows, tokens + 1)).to(where)
        seconds = []
        for _ in range(1 + MEASURED_STEPS):
            begun = time.perf_counter()
            with device.autocast(where, settings.train.precision):
                loss = model.loss(ids_bt[:, :-1], ids_bt[:, 1:])
            loss.backward()
            computed = _now(where)
            update()
            seconds.append((computed - begun, _now(where) - computed))
    flops = PASSES_PER_STEP * rows * model.forward_flops(tokens)
    computing, updating = (statistics.median(s[1:]) for s in zip(*seconds, strict=True))
    return Pace(computing / flops, updating / model.parameter_count())


def _adamw(model: Transformer) -> Callable[[], None]:
    """Return what takes AdamW's step and drops the gradients.

    It calls the optimiser's kernel alone: the library's class, made for the first time, imports a
    compiler, which takes two seconds.
    """
    parameters = list(model.parameters())
    first, second = ([torch.zeros_like(p) for p in parameters] for _ in range(2))
    steps = [torch.ones((), device=p.device) for p in parameters]
    rates = {"lr": 1e-4, "beta1": 0.9, "beta2": 0.95, "weight_decay": 0.1, "eps": 1e-8}

    @torch.no_grad()
    def update() -> None:
        gradients = [p.grad for p in parameters]
        torch.ops.aten._fused_adamw_(
            parameters, gradients, first, second, [], steps, **rates, amsgrad=False, maximize=False
        )
        for parameter in parameters:
            parameter.grad = None

    return update


def _now(where: str) -> float:
    if where.startswith("cuda"):
        torch.cuda.synchronize()
    return time.perf_counter()


def _cut_down(settings: RunSettings, vocab_size: int) -> tuple[Transformer, int, int]:
    """Return a model like the run's, and how many rows of how many tokens make a short step."""
    outline = build_model(settings, vocab_size, filled=False, device="meta")
    per_layer = sum(p.numel() for p in outline.blocks[0].parameters())
    spare = MEASURED_PARAMETERS - (outline.parameter_count() - per_layer * len(outline.blocks))
    if spare // per_layer >= len(outline.blocks):
        model = build_model(settings, vocab_size)
    else:
        # The first layers of the whole model, since a variant's settings may name later ones.
        outline.blocks = outline.blocks[: max(1, spare // per_layer)]
        model = outline.to_empty(device="cpu")
        fill(model, settings.seed)
    rows, tokens = settings.train.batch, settings.train.seq_len
    while PASSES_PER_STEP * rows * model.forward_flops(tokens) > MEASURED_OPERATIONS:
        if rows == 1 and tokens <= 16:
            break
        rows, tokens = (max(1, rows // 2), tokens) if rows > 1 else (1, tokens // 2)
    return model, rows, tokens


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def vocab_size(tokenizer: str, train_text: Callable[[], str]) -> int:
    """Return the number of ids of a tokenizer; only a word-level one must read the text first."""
    known = {"byte": 256, "gpt2": 50_257}
    if tokenizer in known:
        return known[tokenizer]
    if tokenizer.startswith("bpe-"):
        return int(tokenizer.removeprefix("bpe-"))
    return tokenizers.load(tokenizer, train_text()).vocab_size


def expected_tokens(tokenizer: str, n_bytes: Mapping[str, int]) -> dict[str, int]:
    """Return about how many tokens each split of that many bytes of English makes.

    >>> expected_tokens("gpt2", {"valid": 1_146_846})
    {'valid': 260648}
    """
    bytes_per_token = BYTES_PER_TOKEN.get(tokenizer.partition("-")[0], 1.0)
    return {split: 1 + round(size / bytes_per_token) for split, size in n_bytes.items()}
