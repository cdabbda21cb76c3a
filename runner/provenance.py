"""Where a run was made: recorded per attempt, never part of a run's identity."""

from __future__ import annotations

import ast
import hashlib
import os
import platform
import socket
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from . import compiled
from .settings import RunSettings

PACKAGE = Path(__file__).resolve().parent


def environment(settings: RunSettings, threads: int, determinism: str) -> dict[str, Any]:
    """Return what may differ between machines: host, device, threads, versions, code."""
    return {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "device": device_name(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "threads": threads,
        "determinism": determinism,
        "compiled": compiled.BACKEND if settings.train.compile else "",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cqk": package_version(),
        "code_sha256": code_sha256(),
        "variant_sha256": variant_sha256(settings.attention.name, settings.coupling.name),
        "gpus": os.environ.get("CUDA_VISIBLE_DEVICES", ""),
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
    """Return the hash of the code that every run executes, variants aside.

    That is the worker and all it imports of ours. The command line, planning and executors decide
    which runs are made and where, not how one comes out, and the file of a new variant must not
    make the runs of the others look like another program's.
    """
    return _sha256(_imported("worker"))


@cache
def variant_sha256(attention: str, coupling: str) -> str:
    """Return the hash of what a run executes beyond that: its variants and what they import."""
    own = _imported(f"attention.{attention}") | _imported(f"coupling.{coupling}")
    return _sha256(own - _imported("worker"))


def _sha256(modules: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for module in sorted(modules):
        digest.update(module.encode() + b"\0" + _source(module).read_bytes() + b"\0")
    return digest.hexdigest()


@cache
def _imported(module: str) -> frozenset[str]:
    """Return the modules of this package that importing ``module`` brings in, itself included."""
    seen: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting.extend(_named_by(name))
    return frozenset(seen)


def _named_by(module: str) -> Iterator[str]:
    """Yield the modules of this package that the source of ``module`` imports relatively."""
    source = _source(module)
    package = [] if source.parent == PACKAGE else [source.parent.name]
    for node in ast.walk(ast.parse(source.read_bytes())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = [*package[: len(package) - node.level + 1], *filter(None, [node.module])]
            for alias in node.names:
                for name in (".".join(base), ".".join([*base, alias.name])):
                    if name and _source(name).is_file():
                        yield name


def _source(module: str) -> Path:
    path = PACKAGE.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
