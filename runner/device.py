"""The device of a run, and how torch is set up on it: threads, determinism, precision."""

from __future__ import annotations

import os
import resource
import sys
import warnings
from contextlib import nullcontext

import torch

from . import allocator


def choose(local_rank: int = 0) -> str:
    """Return the device of one process: a GPU where there is one, else the processor."""
    return f"cuda:{local_rank}" if torch.cuda.is_available() else "cpu"


def prepare(device: str, threads: int, determinism: str) -> str:
    """Set up torch in this process and return the determinism in force.

    ``auto`` is ``strict`` on a CPU, where it costs nothing, and ``warn`` on a GPU, where some
    operations have no deterministic form.
    """
    torch.set_num_threads(threads)
    on_gpu = device.startswith("cuda")
    if not on_gpu:
        allocator.keep_freed_memory()
    if determinism == "auto":
        determinism = "warn" if on_gpu else "strict"
    torch.use_deterministic_algorithms(determinism != "off", warn_only=determinism == "warn")
    # Memory that nothing has written yet is never read, as the tests make sure: to fill it with NaN
    # first, as torch would do here, costs up to a twelfth of a step.
    torch.utils.deterministic.fill_uninitialized_memory = False
    if on_gpu:
        if determinism != "off":
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
            warnings.filterwarnings("once", message=".*does not have a deterministic.*")
        torch.cuda.set_device(device)
    return determinism


def autocast(device: str, precision: str) -> torch.autocast | nullcontext[None]:
    """Return the context in which the training loss is computed."""
    if precision == "float32":
        return nullcontext()
    return torch.autocast(torch.device(device).type, dtype=getattr(torch, precision))


def peak_memory_bytes(device: str) -> int:
    """Return the most memory this process has held: on its GPU, or the whole process on a CPU."""
    if device.startswith("cuda"):
        return torch.cuda.max_memory_allocated(device)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # macOS counts bytes, Linux KiB
