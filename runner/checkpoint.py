"""Checkpoints without pickle: tensors in safetensors, the rest in JSON, whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from analysis.records import sync_folder

KEPT = 2


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints of one run; the last good one stays until the next is on the disk."""

    folder: Path

    def save(self, step: int, tensors: dict[str, torch.Tensor], state: dict[str, Any]) -> None:
        """Write the checkpoint of ``step`` (steps taken so far) and drop all but the last two."""
        self.folder.mkdir(exist_ok=True)
        temporary = self.folder / f".writing-{step:09d}"
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        contiguous = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
        save_file(contiguous, temporary / "tensors.safetensors")
        digest = _sha256(temporary / "tensors.safetensors")
        text = json.dumps({"step": step, "tensors_sha256": digest, **state}, allow_nan=False)
        (temporary / "state.json").write_text(text, encoding="utf-8")
        for file in temporary.iterdir():
            _sync_file(file)
        sync_folder(temporary)
        target = self.folder / f"step-{step:09d}"
        shutil.rmtree(target, ignore_errors=True)
        os.rename(temporary, target)
        sync_folder(self.folder)
        self._drop_old()

    def latest(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]] | None:
        """Return tensors and state of the newest readable checkpoint, ``None`` if there is none."""
        for folder in reversed(self._folders()):
            try:
                state = json.loads((folder / "state.json").read_text(encoding="utf-8"))
                if _sha256(folder / "tensors.safetensors") != state["tensors_sha256"]:
                    continue
                return load_file(folder / "tensors.safetensors"), state
            except (OSError, ValueError, KeyError, SafetensorError):
                continue
        return None

    def clear(self) -> None:
        """Remove every checkpoint; a run that is over resumes from nothing."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _folders(self) -> list[Path]:
        return sorted(self.folder.glob("step-*")) if self.folder.exists() else []

    def _drop_old(self) -> None:
        for folder in self._folders()[:-KEPT]:
            shutil.rmtree(folder, ignore_errors=True)


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    """Return the optimiser's state as flat tensors, named by parameter index and entry."""
    state = optimizer.state_dict()["state"]
    return {
        f"optimizer.{index}.{entry}": value
        for index, entries in state.items()
        for entry, value in entries.items()
    }


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, torch.Tensor]) -> None:
    """Put flat tensors of ``optimizer_tensors`` back; groups and rates stay as they were built."""
    state: dict[int, dict[str, torch.Tensor]] = {}
    for name, tensor in tensors.items():
        if name.startswith("optimizer."):
            _, index, entry = name.split(".", 2)
            state.setdefault(int(index), {})[entry] = tensor
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
