"""Watches the training loss for divergence without making a GPU wait at every step."""

from __future__ import annotations

import math
from typing import Any

import torch


class Diverged(Exception):
    """The loss left the finite numbers, or the declared bound."""


class Watch:
    """Remembers the first loss that is not finite, or above the bound, on the loss's own device.

    It is noted at each step and read at the logged ones, on every device alike, so that a run
    ends at the same step wherever it is trained. What is noted travels in the checkpoints.

    >>> watch = Watch(above_nats=5.0)
    >>> for step, nats in enumerate([3.0, 7.0, 4.0], start=1):
    ...     watch.note(step, torch.tensor(nats))
    >>> watch.first()
    (2, 7.0)
    """

    def __init__(self, above_nats: float | None, device: str = "cpu") -> None:
        self._bound = math.inf if above_nats is None else above_nats
        # float64 holds every step exactly; a step of -1 says that nothing was seen.
        self._step = torch.tensor(-1.0, dtype=torch.float64, device=device)
        self._nats = torch.tensor(0.0, dtype=torch.float64, device=device)

    def note(self, step: int, loss: torch.Tensor) -> None:
        """Take a loss into account; nothing is read from the device."""
        within = loss.isfinite() & (loss <= self._bound)
        first = ~within & (self._step < 0)
        self._nats = torch.where(first, loss.double(), self._nats)
        self._step = torch.where(first, float(step), self._step)

    def first(self) -> tuple[int, float] | None:
        """Return step and nats of the first such loss, ``None`` if there was none."""
        step = int(self._step)
        return None if step < 0 else (step, float(self._nats))

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps; nats that are not finite are spelled out."""
        seen = self.first()
        return {} if seen is None else {"diverged_step": seen[0], "diverged_nats": str(seen[1])}

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what :meth:`state` returned."""
        if "diverged_step" in state:
            self._step.fill_(float(state["diverged_step"]))
            self._nats.fill_(float(state["diverged_nats"]))
