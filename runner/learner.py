"""A model in training: one optimiser step after another, alone or as one rank of several."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator

import numpy as np
import torch

from . import model as models
from .checkpoint import named_tensors, restore
from .compiled import CompiledLoss
from .device import autocast
from .distributed import Group
from .optim import build_optimizer, learning_rate, set_learning_rate
from .presets import Sizes
from .settings import RunSettings
from .sources import Source
from .streams import fold


class Learner:
    """Model, optimiser and batches of a run, and the number of steps taken.

    Of every batch a rank takes its own consecutive rows, cut once more into the parts of gradient
    accumulation. A part weighs as much as it has targets, so that the loss is the batch's mean.
    """

    def __init__(
        self,
        settings: RunSettings,
        source: Source,
        group: Group,
    ) -> None:
        schedule = settings.train
        self.settings, self.group, self.device = settings, group, group.device
        self.model = build_model(settings, source.vocab_size)
        source.prepare(self.model, settings.seed)
        self.model.to(self.device).train()
        self.optimizer = build_optimizer(self.model, schedule)
        self.batches = source.batches(schedule, settings.seed)
        loss = CompiledLoss(self.model, self.device) if schedule.compile else self.model.loss
        self._loss = group.averaging_gradients(_LossOf(self.model, loss))
        self.step = 0

    def take_step(self) -> torch.Tensor:
        """Take one step; return the mean loss (nats) of its batch, still on the device."""
        schedule = self.settings.train
        torch.manual_seed(fold(self.settings.seed, "step", self.step))
        set_learning_rate(self.optimizer, learning_rate(self.step, schedule))
        parts = schedule.gradient_accumulation
        total = torch.zeros((), device=self.device)
        for part, (x_bt, y_bt, weight) in enumerate(self._parts(), start=1):
            with self.group.exchanging(self._loss, last=part == parts):
                with autocast(self.device, schedule.precision):
                    loss = self._loss(x_bt, y_bt) * weight
                loss.backward()
            total += loss.detach()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), schedule.clip_norm)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.step += 1
        return self.group.mean(total)

    def _parts(self) -> Iterator[tuple[torch.Tensor, torch.Tensor, float]]:
        """Yield inputs, targets and weight of this rank's parts of the batch."""
        parts, ranks = self.settings.train.gradient_accumulation, self.group.size
        x_bt, y_bt = self.batches.at(self.step)
        rows = len(x_bt) // (parts * ranks)
        targets = np.count_nonzero(y_bt >= 0)
        for part in range(self.group.rank * parts, (self.group.rank + 1) * parts):
            chosen = slice(part * rows, (part + 1) * rows)
            # Gradients and losses are averaged over the ranks, not added.
            weight = ranks * np.count_nonzero(y_bt[chosen] >= 0) / targets
            yield self._on_device(x_bt[chosen]), self._on_device(y_bt[chosen]), weight

    def _on_device(self, ids_bt: np.ndarray) -> torch.Tensor:
        tensor = torch.from_numpy(np.ascontiguousarray(ids_bt))
        if self.device == "cpu":
            return tensor
        # From pinned memory the copy is queued like any kernel and nobody waits for it.
        return tensor.pin_memory().to(self.device, non_blocking=True)

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return all that a checkpoint must hold to go on from here, by name."""
        return named_tensors(self.model, self.optimizer)

    def resume(self, step: int, tensors: dict[str, torch.Tensor]) -> None:
        """Go on from what :meth:`tensors` returned after ``step`` steps."""
        restore(self.model, self.optimizer, tensors)
        self.step = step


class _LossOf(torch.nn.Module):
    """The model's loss as a forward pass, which is all that gradient averaging sees of a module."""

    def __init__(self, model: models.Transformer, loss: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.model, self.loss = model, loss

    def forward(self, x_bt: torch.Tensor, y_bt: torch.Tensor) -> torch.Tensor:
        return self.loss(x_bt, y_bt)


def build_model(
    settings: RunSettings, vocab_size: int, *, filled: bool = True, device: str | None = None
) -> models.Transformer:
    """Return the model of a run at its start: every parameter filled from its own stream.

    Unfilled, it is for counting only, and costs nothing on the device "meta" or as fake tensors.
    """
    sizes = settings.model.model_dump(exclude={"preset"})
    return models.build(
        Sizes(**sizes),
        vocab_size=vocab_size,
        attention=settings.attention.name,
        attention_options=settings.attention.options,
        coupling=settings.coupling.name,
        coupling_options=settings.coupling.options,
        seed=settings.seed if filled else None,
        device=device,
        checkpoint_blocks=settings.train.activation_checkpointing,
    )


def weights_sha256(model: torch.nn.Module) -> str:
    """Return the hash of all weights, by name, bit for bit."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode() + b"\0")
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()
