"""Where a run was made: recorded per attempt, never part of a run's identity."""

from __future__ import annotations

import hashlib
import os
import platform
import socket
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch


def environment(threads: int) -> dict[str, Any]:
    """Return what may differ between machines: host, device, threads, versions, code."""
    return {
        "host": socket.gethostname(),
        "device": device_name(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "threads": threads,
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cqk": package_version(),
        "code_sha256": code_sha256(),
        "slurm_job": os.environ.get("SLURM_JOB_ID", ""),
    }


def device_name() -> str:
    """Return the name of the first GPU, or of the processor."""
    if torch.cuda.is_available():
        return torch.cuda.get_device_name(0)
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def package_version() -> str:
    """Return the version of the installed distribution, empty in a bare checkout."""
    try:
        return version("cqk")
    except PackageNotFoundError:
        return ""


@cache
def code_sha256() -> str:
    """Return the hash of the runner's own source: what it computes depends on nothing else of ours.

    The command line, planning and executors are left out, for they decide which runs are made and
    where, not how one comes out.
    """
    digest = hashlib.sha256()
    folder = Path(__file__).parent
    outside = {"cli.py", "plan.py", "launch.py", "progress.py", "status.py"}
    for path in sorted(folder.rglob("*.py")):
        if path.name not in outside and path.parent.name != "executors":
            digest.update(path.relative_to(folder).as_posix().encode() + b"\0")
            digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()
