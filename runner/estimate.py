"""What a run will cost, before any is trained: parameters, operations, memory and time.

Counts come from a model of fake tensors, in which a 455m one takes no memory. Time comes from a few
steps measured here, of a model cut down until a step is short, and scaled by operations.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from . import device, tokenizers
from .learner import build_model
from .model import Transformer
from .optim import build_optimizer
from .settings import RunSettings
from .workload import PASSES_PER_STEP, Workload

MEASURED_OPERATIONS = 2e10  # of one measured step: under a second on a core
MEASURED_PARAMETERS = 80_000_000
MEASURED_STEPS = 2
FLOAT32_BYTES = 4
BYTES_PER_TOKEN = {"byte": 1.0, "gpt2": 4.4, "bpe": 3.5, "word": 5.3}  # of English, about
BYTES_PER_PARAMETER = 16  # float32 weight, gradient and the two moments of AdamW


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


def cost(settings: RunSettings, vocab_size: int, n_tokens: Mapping[str, int] | None = None) -> Cost:
    """Return what a run of these settings costs on any machine.

    ``n_tokens`` (split -> tokens) adds the scoring of the splits to the operations.
    """
    schedule = settings.train
    with FakeTensorMode():
        model = build_model(settings, vocab_size, filled=False)
        activations = activation_bytes(model, settings)
    passes = Workload(schedule, n_tokens or {"valid": 1, "test": 1}, step=0).total
    if schedule.activation_checkpointing:
        passes += schedule.steps * schedule.batch * schedule.seq_len  # one more forward pass
    parameters = model.parameter_count()
    return Cost(
        parameters=parameters,
        steps=schedule.steps,
        tokens=schedule.steps * schedule.batch * schedule.seq_len,
        flops=passes * model.forward_flops(schedule.seq_len) / schedule.seq_len,
        memory_bytes=BYTES_PER_PARAMETER * parameters + activations,
    )


def activation_bytes(model: Transformer, settings: RunSettings) -> int:
    """Return what one forward pass keeps for its backward pass, for one part of a batch.

    With activation checkpointing that is the input of every block, and all of a single block.
    """
    schedule, sizes = settings.train, model.sizes
    rows = schedule.batch // (schedule.devices * schedule.gradient_accumulation)
    model.checkpoint_blocks = False
    kept = _saved_bytes(model, rows, schedule.seq_len, schedule.precision)
    if not schedule.activation_checkpointing:
        return kept
    inputs = sizes.layers * rows * schedule.seq_len * sizes.width * FLOAT32_BYTES
    return inputs + kept // sizes.layers


def _saved_bytes(model: Transformer, rows: int, seq_len: int, precision: str) -> int:
    """Count the bytes that autograd keeps of one loss, each storage once and parameters never."""
    own = {parameter.untyped_storage()._cdata for parameter in model.parameters()}
    kept: dict[int, torch.Tensor] = {}  # holding the tensors keeps their addresses from reuse

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        address = tensor.untyped_storage()._cdata
        if address not in own:
            kept[address] = tensor
        return tensor

    ids_bt = torch.zeros(rows, seq_len, dtype=torch.long)
    hooks = torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)
    with hooks, device.autocast("cpu", precision):
        model.loss(ids_bt, ids_bt)
    return sum(tensor.untyped_storage().nbytes() for tensor in kept.values())


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
        optimizer = build_optimizer(model, settings.train)
        ids_bt = torch.randint(vocab_size, (rows, tokens + 1)).to(where)
        seconds = []
        for _ in range(1 + MEASURED_STEPS):
            begun = time.perf_counter()
            with device.autocast(where, settings.train.precision):
                loss = model.loss(ids_bt[:, :-1], ids_bt[:, 1:])
            loss.backward()
            computed = _now(where)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            seconds.append((computed - begun, _now(where) - computed))
    flops = PASSES_PER_STEP * rows * model.forward_flops(tokens)
    computing, updating = (statistics.median(s[1:]) for s in zip(*seconds, strict=True))
    return Pace(computing / flops, updating / model.parameter_count())


def _now(where: str) -> float:
    if where.startswith("cuda"):
        torch.cuda.synchronize()
    return time.perf_counter()


def _cut_down(settings: RunSettings, vocab_size: int) -> tuple[Transformer, int, int]:
    """Return a model like the run's, and how many rows of how many tokens make a short step."""
    sizes: dict[str, Any] = settings.model.model_dump()
    with FakeTensorMode():
        whole = build_model(settings, vocab_size, filled=False)
    per_layer = sum(p.numel() for p in whole.blocks[0].parameters())
    spare = MEASURED_PARAMETERS - (whole.parameter_count() - per_layer * sizes["layers"])
    sizes["layers"] = max(1, min(sizes["layers"], spare // per_layer))
    small = settings.model_copy(
        update={"model": settings.model.model_copy(update={"layers": sizes["layers"]})}
    )
    model = build_model(small, vocab_size)
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


def vocab_size(tokenizer: str, train_text: str) -> int:
    """Return the number of ids of a tokenizer; only a word-level one must read the text first."""
    known = {"byte": 256, "gpt2": 50_257}
    if tokenizer in known:
        return known[tokenizer]
    if tokenizer.startswith("bpe-"):
        return int(tokenizer.removeprefix("bpe-"))
    return tokenizers.load(tokenizer, train_text).vocab_size


def expected_tokens(tokenizer: str, n_bytes: Mapping[str, int]) -> dict[str, int]:
    """Return about how many tokens each split of that many bytes of English makes.

    >>> expected_tokens("gpt2", {"valid": 1_146_846})
    {'valid': 260648}
    """
    bytes_per_token = BYTES_PER_TOKEN.get(tokenizer.partition("-")[0], 1.0)
    return {split: 1 + round(size / bytes_per_token) for split, size in n_bytes.items()}
