"""A run resolved: all the settings that decide its outcome, and the id that follows from them."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from analysis.design import Train
from analysis.section import Section, canonical_hash

IDENTITY_SCHEMA = 1


class TextSettings(Section):
    """The text by name and by hash, so that runs on different texts are different runs.

    For a task, ``task`` holds the settings that are no defaults, and the hash is of the rows that
    models are scored on.
    """

    corpus: str
    text_sha256: str
    tokenizer: str
    task: dict[str, Any] = Field(default_factory=dict)


class ModelSettings(Section):
    """The sizes of the model; ``preset`` is only the name they go by."""

    layers: int
    width: int
    heads: int
    head_dim: int
    feed_forward: int
    rope_base: float
    preset: str | None = None


class VariantSettings(Section):
    """An attention or a coupling: the name of its file and the options that are no defaults."""

    name: str
    options: dict[str, Any] = Field(default_factory=dict)


class RunSettings(Section):
    """Everything that decides the outcome of one run."""

    data: TextSettings
    model: ModelSettings
    attention: VariantSettings
    coupling: VariantSettings
    train: Train
    seed: int

    @property
    def run_id(self) -> str:
        """Return the run's id: a hash of the settings without defaults, names of presets aside.

        A default may therefore never change within an identity schema, and a new setting with a
        default changes no id. Diagnostics change no outcome and are no part of it.
        """
        identity = self.model_dump(
            mode="json",
            exclude_defaults=True,
            exclude={"model": {"preset"}, "train": {"diagnostics"}},
        )
        return canonical_hash({"identity_schema": IDENTITY_SCHEMA, **identity})[:16]
