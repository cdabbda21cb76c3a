"""One run on several devices of one machine: what its ranks tell each other.

Only the first rank writes, scores and decides; the others do as it says.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

# The others wait while the first rank scores a split; one that dies is noticed by its parent.
PATIENCE = timedelta(days=2)


@dataclass(frozen=True)
class Group:
    """The ranks of one run and the device of this one; by default there is no other rank."""

    rank: int = 0
    size: int = 1
    device: str = "cpu"
    control: Any = None

    @property
    def leads(self) -> bool:
        """Return whether this is the rank that writes, scores and decides."""
        return self.rank == 0

    def agree(self, value: int) -> int:
        """Return the first rank's value on every rank.

        It goes between processors, so that no device is waited for.
        """
        if self.size == 1:
            return value
        said = torch.tensor([value])
        dist.broadcast(said, src=0, group=self.control)
        return int(said)

    def mean(self, value: torch.Tensor) -> torch.Tensor:
        """Return the mean over the ranks, on the value's own device."""
        if self.size > 1:
            dist.all_reduce(value)
            value /= self.size
        return value

    def averaging_gradients(self, module: torch.nn.Module) -> torch.nn.Module:
        """Return the module so wrapped that a backward pass averages gradients over the ranks."""
        return DistributedDataParallel(module) if self.size > 1 else module

    def exchanging(self, module: torch.nn.Module, *, last: bool) -> AbstractContextManager[object]:
        """Return the context of one accumulated part: gradients are exchanged after the last."""
        if last or not isinstance(module, DistributedDataParallel):
            return nullcontext()
        return module.no_sync()


@contextmanager
def joined(rank: int, size: int, device: str, meeting_point: str = "env://") -> Iterator[Group]:
    """Join the ranks of a run for the length of the block."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # the ranks share one machine
    on_gpu = device.startswith("cuda")
    if on_gpu:
        torch.cuda.set_device(device)
    backend = "nccl" if on_gpu else "gloo"
    dist.init_process_group(
        backend, init_method=meeting_point, rank=rank, world_size=size, timeout=PATIENCE
    )
    try:
        control = dist.new_group(backend="gloo", timeout=PATIENCE)
        yield Group(rank, size, device, control)
    finally:
        dist.destroy_process_group()
