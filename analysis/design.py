"""The design in a study file: text or task, model, training, seeds and arms."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from .section import Name, Positive, Section


class Data(Section):
    """[data]: the text and how it is cut into tokens, or a task with its settings [data.task].

    What a task's settings are is the business of whoever trains; a task has no tokenizer ("none").
    """

    corpus: str
    tokenizer: str = "byte"
    task: dict[str, Any] | None = None

    def has_axis(self, axis: str) -> bool:
        """Return whether an axis of the grid is a setting of the task."""
        known = Model.model_fields.keys() | Train.model_fields.keys()
        return self.task is not None and axis not in known


class Model(Section):
    """[model]: a preset by name, or all sizes spelled out, or a preset with some sizes replaced."""

    preset: str | None = None
    layers: Positive | None = None
    width: Positive | None = None
    heads: Positive | None = None
    head_dim: Positive | None = None
    feed_forward: Positive | None = None
    rope_base: Annotated[float, Field(gt=0)] | None = None


class Train(Section):
    """[train]: budget, optimiser and schedule; a default is part of the schema and never changes.

    ``tokens`` is the budget in target tokens and ``batch`` counts sequences per optimiser step: a
    run takes ``tokens // (batch * seq_len)`` steps. ``lr`` is the peak of a linear warm-up followed
    by a cosine that ends at ``lr * final_lr_fraction``.

    ``checkpoint`` says which weights both splits are scored with at the end: the last ones, or
    those whose validation loss was lowest at the steps of ``evaluate_every``. A batch is cut into
    ``devices * gradient_accumulation`` equal parts, which changes memory and last digits only.
    ``compile`` has torch.compile make the code of the training loss: time and last digits change.
    ``determinism = "auto"`` is strict on a CPU and warns on a GPU. ``qk_lr_factor`` multiplies the
    rate of the projections that make queries and keys: the control for a coupling, which changes
    how fast those two learn. ``diagnostics`` records what the heads do at the start, at the end and
    at the steps of ``evaluate_every``, or without it at each quarter; it changes no outcome and no
    run's id.
    """

    seq_len: Positive
    tokens: Positive
    batch: Positive
    lr: Annotated[float, Field(gt=0)]
    warmup_fraction: Annotated[float, Field(ge=0, lt=1)] = 0.05
    final_lr_fraction: Annotated[float, Field(ge=0, le=1)] = 0.1
    weight_decay: Annotated[float, Field(ge=0)] = 0.1
    qk_lr_factor: Annotated[float, Field(gt=0)] = 1.0
    beta1: Annotated[float, Field(ge=0, lt=1)] = 0.9
    beta2: Annotated[float, Field(ge=0, lt=1)] = 0.95
    clip_norm: Annotated[float, Field(gt=0)] = 1.0
    log_every: Positive = 10
    evaluate_every: Positive | None = None
    eval_stride: Positive | None = None
    eval_batch: Positive = 32
    checkpoint_every: Positive = 200
    diverged_above_nats: Annotated[float, Field(gt=0)] | None = None
    checkpoint: Literal["last", "best_valid"] = "last"
    precision: Literal["float32", "bfloat16"] = "float32"
    devices: Positive = 1
    gradient_accumulation: Positive = 1
    activation_checkpointing: bool = False
    compile: bool = False
    determinism: Literal["auto", "strict", "warn", "off"] = "auto"
    diagnostics: bool = False

    @property
    def steps(self) -> int:
        """Return the number of optimiser steps that the token budget pays for."""
        return self.tokens // (self.batch * self.seq_len)

    @model_validator(mode="after")
    def _budget_buys_a_step(self) -> Self:
        if self.steps < 1:
            raise ValueError(
                f"tokens = {self.tokens} is less than one step of batch * seq_len = "
                f"{self.batch * self.seq_len} tokens; raise tokens or lower batch"
            )
        return self

    @model_validator(mode="after")
    def _batch_splits_evenly(self) -> Self:
        parts = self.devices * self.gradient_accumulation
        if self.batch % parts:
            raise ValueError(
                f"batch = {self.batch} cannot be cut into devices * gradient_accumulation = "
                f"{parts} equal parts; take a multiple of {parts}"
            )
        return self

    @model_validator(mode="after")
    def _choice_has_candidates(self) -> Self:
        if self.checkpoint == "best_valid" and self.evaluate_every is None:
            raise ValueError('checkpoint = "best_valid" needs evaluate_every = N: steps to choose')
        return self


class Seeds(Section):
    """[seeds]: either ``values = [1, 2, 3]`` or ``start`` and ``count``."""

    values: list[int] | None = None
    start: int | None = None
    count: Positive | None = None

    @model_validator(mode="after")
    def _one_spelling(self) -> Self:
        listed, ranged = self.values is not None, self.start is not None or self.count is not None
        if listed == ranged or (ranged and (self.start is None or self.count is None)):
            raise ValueError("give either values = [1, 2, 3] or both start = 1 and count = 3")
        return self

    @field_validator("values")
    @classmethod
    def _distinct(cls, values: list[int] | None) -> list[int] | None:
        if values is not None and not values:
            raise ValueError("the list of seeds is empty; name at least one")
        repeated = sorted(seed for seed, times in Counter(values or ()).items() if times > 1)
        if repeated:
            raise ValueError(
                f"seed {repeated[0]} is listed twice; a repeated seed is the same run counted twice"
            )
        return values

    def tolist(self) -> list[int]:
        """Return the declared seeds in order."""
        if self.values is not None:
            return list(self.values)
        assert self.start is not None
        assert self.count is not None
        return list(range(self.start, self.start + self.count))


Variant = str | dict[str, Any]


class Arm(Section):
    """[[arms]]: one attention with one coupling, and any setting in which the arm differs."""

    name: Name
    attention: Variant = "standard"
    coupling: Variant = "none"
    model: dict[str, Any] = Field(default_factory=dict)
    train: dict[str, Any] = Field(default_factory=dict)

    @field_validator("attention", "coupling")
    @classmethod
    def _named(cls, variant: Variant) -> Variant:
        if isinstance(variant, dict) and not isinstance(variant.get("name"), str):
            raise ValueError('a table of options needs the variant\'s name: { name = "...", ... }')
        return variant

    @field_validator("model", "train")
    @classmethod
    def _known_keys(cls, overrides: dict[str, Any], info: Any) -> dict[str, Any]:
        known = (Model if info.field_name == "model" else Train).model_fields
        for key in overrides:
            if key not in known:
                raise ValueError(f"unknown key {key!r}; known: {', '.join(known)}")
        return overrides
