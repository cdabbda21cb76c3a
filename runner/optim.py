"""Optimiser and schedule: AdamW over the model's parameter groups, linear warm-up, then cosine."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from .settings import Train

if TYPE_CHECKING:
    from .model import Transformer

SLOW_FACTOR = 0.1


def learning_rate(step: int, settings: Train) -> float:
    """Return the rate of 0-based ``step``: the peak is reached at the end of the warm-up.

    Source: SGDR: Stochastic Gradient Descent with Warm Restarts, Loshchilov and Hutter, 2017,
    https://arxiv.org/abs/1608.03983 (one cycle, no restart).

    >>> train = Train(seq_len=1, tokens=101, batch=1, lr=1.0, warmup_fraction=0.1)
    >>> [round(learning_rate(step, train), 3) for step in (0, 9, 10, 55, 100)]
    [0.1, 1.0, 1.0, 0.55, 0.1]
    """
    warmup_steps = round(settings.warmup_fraction * settings.steps)
    if step < warmup_steps:
        return settings.lr * (step + 1) / warmup_steps
    progress = (step - warmup_steps) / max(1, settings.steps - 1 - warmup_steps)
    floor = settings.final_lr_fraction
    return settings.lr * (floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * progress)))


def build_optimizer(model: Transformer, settings: Train) -> torch.optim.AdamW:
    """Return AdamW over the model's groups: matrices decay, vectors do not, slow ones learn slowly.

    Where ``qk_lr_factor`` is not 1, the projections that make queries and keys are a group of their
    own at that multiple of the rate; their decay, which AdamW multiplies by the rate, grows with
    it.

    Source: Decoupled Weight Decay Regularization, Loshchilov and Hutter, 2019,
    https://arxiv.org/abs/1711.05101.
    """
    rules = {"decay": (settings.weight_decay, 1.0), "no_decay": (0.0, 1.0)}
    rules["slow"] = (0.0, SLOW_FACTOR)
    sped_up = model.query_key_weights() if settings.qk_lr_factor != 1.0 else set()
    groups = []
    for rule, named in model.parameter_groups().items():
        decay, factor = rules[rule]
        for chosen, times in ((False, 1.0), (True, settings.qk_lr_factor)):
            own = [parameter for _, parameter in named if (parameter in sped_up) == chosen]
            if own:
                groups.append({"params": own, "weight_decay": decay, "lr_factor": factor * times})
    return torch.optim.AdamW(
        groups, lr=settings.lr, betas=(settings.beta1, settings.beta2), fused=True
    )


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set every group to ``rate`` times its own factor."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group["lr_factor"]
