"""What one forward pass keeps for its backward pass, counted on a few of the model's layers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from . import device
from .model import Transformer
from .settings import RunSettings

FLOAT32_BYTES = 4
LAYERS_COUNTED = 2  # of one kind; what the first layer keeps for all, such as angles, it keeps once


def activation_bytes(model: Transformer, settings: RunSettings) -> int:
    """Return what one forward pass keeps for its backward pass, for one part of a batch.

    With activation checkpointing that is the input of every block, and all of the widest block.
    Layers whose parameters have the same names and shapes are taken to keep the same.
    """
    schedule, sizes, rows = settings.train, model.sizes, part_rows(settings)
    outside, blocks = _kept_bytes(model, rows, schedule.seq_len, schedule.precision)
    if not schedule.activation_checkpointing:
        return outside + sum(blocks)
    inputs = sizes.layers * rows * schedule.seq_len * sizes.width * FLOAT32_BYTES
    return outside + inputs + max(blocks)


def part_rows(settings: RunSettings) -> int:
    """Return the rows of one part of a batch."""
    schedule = settings.train
    return schedule.batch // (schedule.devices * schedule.gradient_accumulation)


def _kept_bytes(
    model: Transformer, rows: int, seq_len: int, precision: str
) -> tuple[int, list[int]]:
    """Return the bytes kept outside the blocks, and those of every block."""
    like = defaultdict(list)
    for index, block in enumerate(model.blocks):
        like[_kind(block)].append(index)
    counted = sorted(index for same in like.values() for index in same[:LAYERS_COUNTED])
    with _only(model, counted):
        outside, *found = _saved_bytes(model, rows, seq_len, precision)
    own = dict(zip(counted, found, strict=True))
    for same in like.values():
        own |= dict.fromkeys(same[LAYERS_COUNTED:], own[same[:LAYERS_COUNTED][-1]])
    return outside, [own[index] for index in range(len(model.blocks))]


def _kind(block: nn.Module) -> tuple[tuple[str, torch.Size], ...]:
    return tuple((name, parameter.shape) for name, parameter in block.named_parameters())


@contextmanager
def _only(model: Transformer, layers: list[int]) -> Iterator[None]:
    """Leave a model these of its blocks, none of them checkpointed."""
    blocks, checkpoint_blocks = model.blocks, model.checkpoint_blocks
    model.blocks = nn.ModuleList(blocks[layer] for layer in layers)
    model.checkpoint_blocks = False
    try:
        yield
    finally:
        model.blocks, model.checkpoint_blocks = blocks, checkpoint_blocks


def _saved_bytes(model: Transformer, rows: int, seq_len: int, precision: str) -> list[int]:
    """Count what autograd keeps of one loss outside the blocks, then in each.

    Each storage counts where it is kept first, and parameters never.
    """
    own = {parameter.untyped_storage()._cdata for parameter in model.parameters()}
    kept: dict[int, tuple[int, Tensor]] = {}  # holding the tensors keeps addresses from reuse
    place = 0

    def at(where: int, *_: Any) -> None:
        nonlocal place
        place = where

    def pack(tensor: Tensor) -> Tensor:
        address = tensor.untyped_storage()._cdata
        if address not in own:
            kept.setdefault(address, (place, tensor))
        return tensor

    hooks = []
    for index, block in enumerate(model.blocks, start=1):
        hooks.append(block.register_forward_pre_hook(partial(at, index)))
        hooks.append(block.register_forward_hook(partial(at, 0)))
    ids_bt = torch.zeros(rows, seq_len, dtype=torch.long)
    try:
        with (
            torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor),
            device.autocast("cpu", precision),
        ):
            model.loss(ids_bt, ids_bt)
    finally:
        for hook in hooks:
            hook.remove()
    totals = [0] * (1 + len(model.blocks))
    for where, tensor in kept.values():
        totals[where] += tensor.untyped_storage().nbytes()
    return totals
