"""What this machine offers to runs: cores, GPUs, and how many runs at once that makes."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Slots:
    """How many runs at once, with how many threads each, and the GPUs of every slot.

    ``gpus`` holds one value of CUDA_VISIBLE_DEVICES for each slot, or nothing on a machine without.
    """

    jobs: int
    threads: int
    gpus: tuple[str, ...] = ()


def cores() -> int:
    """Return the cores that this process may use: affinity and the container's quota count."""
    try:
        allowed = len(os.sched_getaffinity(0))
    except AttributeError:  # macOS knows no affinity
        allowed = os.cpu_count() or 1
    return max(1, min(allowed, _quota(Path("/sys/fs/cgroup/cpu.max"))))


def _quota(path: Path) -> int:
    try:
        quota, period = path.read_text(encoding="ascii").split()
        return math.ceil(int(quota) / int(period))
    except (OSError, ValueError):  # no such file, or "max"
        return sys.maxsize


def gpus() -> list[str]:
    """Return the GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them."""
    listed = os.environ.get("CUDA_VISIBLE_DEVICES")
    if listed is not None:
        return [name for name in listed.split(",") if name.strip() and name != "-1"]
    if not Path("/proc/driver/nvidia/version").exists() and not Path("/dev/kfd").exists():
        return []
    # Asked in a process of its own: this one must never hold a GPU.
    code = "import torch; print(torch.cuda.device_count())"
    asked = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True)
    return [str(index) for index in range(int(asked.stdout or 0))]


def choose_slots(
    planned: int, jobs: int | None, threads: int | None, devices_per_run: int = 1
) -> Slots:
    """Return the slots for a plan of that many runs on this machine.

    Two single-threaded runs side by side beat one two-threaded run by about a third, and more
    threads than cores cost more than half, so runs come first and threads take what is left.
    Threads follow from the whole plan and the machine, never from ``jobs`` or from what is missing,
    for a run's last bits depend on them and a run made again must get the same.

    Raises:
        ValueError: ``jobs`` times ``threads`` is more than the cores, or a run needs more GPUs than
            there are.
    """
    visible = gpus()
    if visible:
        return _gpu_slots(visible, jobs, threads, devices_per_run)
    available = cores()
    if threads is None:
        threads = max(1, available // (max(1, planned) * devices_per_run))
    if jobs is None:
        jobs = max(1, min(planned, available // (threads * devices_per_run)))
    if jobs * threads * devices_per_run > available:
        each = f" on {devices_per_run} devices each" if devices_per_run > 1 else ""
        raise ValueError(
            f"--jobs {jobs} times --threads {threads}{each} is more than the {available} cores "
            "here; oversubscribed runs take more than twice as long: lower one of them"
        )
    return Slots(jobs, threads)


def _gpu_slots(
    visible: Sequence[str], jobs: int | None, threads: int | None, devices_per_run: int
) -> Slots:
    """Return a slot for every group of GPUs; more jobs than groups share them in turn."""
    groups = [
        ",".join(visible[first : first + devices_per_run])
        for first in range(0, len(visible) - devices_per_run + 1, devices_per_run)
    ]
    if not groups:
        raise ValueError(
            f"a run of this study trains on {devices_per_run} devices and {len(visible)} GPUs are "
            "visible here; lower [train] devices, or run it where there are enough"
        )
    jobs = jobs or len(groups)
    threads = threads or max(1, cores() // len(visible))
    return Slots(jobs, threads, tuple(groups[slot % len(groups)] for slot in range(jobs)))
