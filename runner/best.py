"""The weights whose validation loss was lowest so far, for a study that scores those."""

from __future__ import annotations

import math
from typing import Any

import torch

PREFIX = "best."


class BestWeights:
    """Keeps a copy on the CPU, which travels in the checkpoints; unwanted, it keeps nothing."""

    def __init__(self, *, wanted: bool) -> None:
        self._wanted = wanted
        self._nats = math.inf
        self._weights: dict[str, torch.Tensor] = {}
        self.step: int | None = None

    def consider(self, step: int, nats: float, model: torch.nn.Module) -> None:
        """Keep the weights of ``step`` if their loss is the lowest; of equal ones the first."""
        if self._wanted and nats < self._nats:
            weights = model.state_dict().items()
            self._weights = {name: tensor.to("cpu", copy=True) for name, tensor in weights}
            self.step, self._nats = step, nats

    def load_into(self, model: torch.nn.Module) -> None:
        """Give a model the weights that were kept."""
        model.load_state_dict(self._weights)

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return what a checkpoint keeps of the weights."""
        return {f"{PREFIX}{name}": tensor for name, tensor in self._weights.items()}

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps beside them."""
        return {} if self.step is None else {"best_step": self.step, "best_nats": self._nats}

    def restore(self, tensors: dict[str, torch.Tensor], state: dict[str, Any]) -> None:
        """Take up what :meth:`tensors` and :meth:`state` returned."""
        if "best_step" in state:
            self.step, self._nats = state["best_step"], state["best_nats"]
            self._weights = {
                name.removeprefix(PREFIX): tensor
                for name, tensor in tensors.items()
                if name.startswith(PREFIX)
            }
