"""Checkpoints without pickle: tensors in safetensors, the rest in JSON, whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from analysis.records import sync_folder

from .writing import writing

KEPT = 2
TENSORS, STATE = "tensors.safetensors", "state.json"


@dataclass(frozen=True)
class Loaded:
    """A checkpoint as read: steps taken so far, tensors on the CPU, and the plain state.

    ``passed_over`` names the newer ones that could not be read.
    """

    step: int
    tensors: dict[str, torch.Tensor]
    state: dict[str, Any]
    passed_over: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints of one run; the last good one stays until the next is on the disk."""

    folder: Path

    def save(self, step: int, tensors: dict[str, torch.Tensor], state: dict[str, Any]) -> None:
        """Write the checkpoint of ``step`` (steps taken so far) and drop all but the last two.

        Raises:
            CannotWrite: The disk is full, say; the checkpoints that were there still are.
        """
        with writing(self.folder):
            self.folder.mkdir(exist_ok=True)
            self._sweep()
            temporary = self.folder / f".writing-{step:09d}"
            try:
                _write(temporary, step, tensors, state)
                target = self.folder / f"step-{step:09d}"
                shutil.rmtree(target, ignore_errors=True)  # one that could not be read
                os.rename(temporary, target)
            except BaseException:
                shutil.rmtree(temporary, ignore_errors=True)
                raise
            sync_folder(self.folder)
        for old in self._folders()[:-KEPT]:
            shutil.rmtree(old, ignore_errors=True)

    def latest(self) -> Loaded | None:
        """Return the newest readable checkpoint, ``None`` if there is none."""
        passed_over: list[str] = []
        for folder in reversed(self._folders()):
            try:
                step, tensors, state = _read(folder)
            except (OSError, ValueError, KeyError, TypeError, SafetensorError):
                passed_over.append(folder.name)
            else:
                return Loaded(step, tensors, state, passed_over)
        return None

    def at(self, step: int) -> Loaded:
        """Return the checkpoint of ``step``, which another rank has found readable."""
        return Loaded(*_read(self.folder / f"step-{step:09d}"))

    def _folders(self) -> list[Path]:
        return sorted(self.folder.glob("step-*"))

    def _sweep(self) -> None:
        """Remove what a kill left half written: the caller holds the run, so nobody writes it."""
        for left in self.folder.glob(".writing-*"):
            shutil.rmtree(left, ignore_errors=True)


def _write(
    folder: Path, step: int, tensors: dict[str, torch.Tensor], state: dict[str, Any]
) -> None:
    folder.mkdir()
    contiguous = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    try:
        save_file(contiguous, folder / TENSORS)
    except SafetensorError as error:
        raise _as_os_error(error, folder / TENSORS) from error
    with open(folder / TENSORS, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        os.fsync(file.fileno())
    with open(folder / STATE, "w", encoding="utf-8") as text:
        json.dump({"step": step, "tensors_sha256": digest, **state}, text, allow_nan=False)
        text.flush()
        os.fsync(text.fileno())
    sync_folder(folder)


def _as_os_error(error: SafetensorError, path: Path) -> Exception:
    """Return the system's error that safetensors wraps into a text, or the error as it is."""
    code = re.search(r"(?:os error|code:) (\d+)", str(error))
    return OSError(int(code[1]), os.strerror(int(code[1])), str(path)) if code else error


def _read(folder: Path) -> tuple[int, dict[str, torch.Tensor], dict[str, Any]]:
    state = json.loads((folder / STATE).read_text(encoding="utf-8"))
    with open(folder / TENSORS, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != state.pop("tensors_sha256"):
        raise ValueError(f"{folder}: the tensors are not those that were written")
    step = state.pop("step")
    if folder.name != f"step-{step:09d}":
        raise ValueError(f"{folder}: holds the checkpoint of step {step}")
    return step, load_file(folder / TENSORS), state


def named_tensors(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer
) -> dict[str, torch.Tensor]:
    """Return weights and optimiser state as flat tensors, all by parameter name."""
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    names = _names(model, optimizer)
    for index, entries in optimizer.state_dict()["state"].items():
        for entry, value in entries.items():
            tensors[f"optimizer.{entry}.{names[index]}"] = value
    return tensors


def restore(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer, tensors: dict[str, torch.Tensor]
) -> None:
    """Put the tensors of :func:`named_tensors` back; groups and rates stay as they were built."""
    weights = {n.removeprefix("model."): t for n, t in tensors.items() if n.startswith("model.")}
    model.load_state_dict(weights)
    indices = {name: index for index, name in enumerate(_names(model, optimizer))}
    state: dict[int, dict[str, torch.Tensor]] = {}
    for name, tensor in tensors.items():
        if name.startswith("optimizer."):
            _, entry, parameter = name.split(".", 2)
            state.setdefault(indices[parameter], {})[entry] = tensor
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})


def _names(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> list[str]:
    """Return the parameters' names in the order in which the optimiser counts them."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    return [names[id(p)] for group in optimizer.param_groups for p in group["params"]]
