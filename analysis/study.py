"""The study file: what is trained, on which seeds, and which comparisons are declared beforehand.

A study file is TOML. Sections that only training needs ([data], [model], [train], [[arms]]) may be
absent from a file that declares a family for somebody else's table.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import tomllib
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from .study_errors import sentences

POCOCK_FIRST_LOOK = 5
Positive = Annotated[int, Field(gt=0)]
Name = Annotated[str, Field(min_length=1, max_length=80, pattern=r"^[^\s/\\][^/\\\n]*$")]


class Section(BaseModel):
    """A frozen section of the study file in which an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Identity(Section):
    """[study]: the folder name of the results, and the question in one sentence."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=80)]
    question: str = ""


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
    ``determinism = "auto"`` is strict on a CPU and warns on a GPU.
    """

    seq_len: Positive
    tokens: Positive
    batch: Positive
    lr: Annotated[float, Field(gt=0)]
    warmup_fraction: Annotated[float, Field(ge=0, lt=1)] = 0.05
    final_lr_fraction: Annotated[float, Field(ge=0, le=1)] = 0.1
    weight_decay: Annotated[float, Field(ge=0)] = 0.1
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
    determinism: Literal["auto", "strict", "warn", "off"] = "auto"

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


class Comparison(Section):
    """[[family.comparisons]]: treatment against baseline, within the grid cells of ``where``."""

    name: Name
    treatment: str
    baseline: str
    where: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _two_arms(self) -> Self:
        if self.treatment == self.baseline:
            raise ValueError(f"treatment and baseline are both {self.treatment!r}")
        return self


class Looks(Section):
    """[family.looks]: a group-sequential plan, tested at each of these numbers of seeds per arm."""

    seeds: Annotated[list[int], Field(min_length=2)]
    spending: Literal["obrien_fleming", "pocock"] = "obrien_fleming"

    @model_validator(mode="after")
    def _pocock_starts_late(self) -> Self:
        # Simulated at standard deviations in ratio 3 to 10: up to twice alpha at a look of three.
        if self.spending == "pocock" and self.seeds[0] < POCOCK_FIRST_LOOK:
            raise ValueError(
                f"with Pocock's spending the first look must be at {POCOCK_FIRST_LOOK} seeds or "
                "more, since Welch's test exceeds its level with fewer noisy runs; start later, "
                'or take spending = "obrien_fleming"'
            )
        return self

    @field_validator("seeds")
    @classmethod
    def _rising(cls, seeds: list[int]) -> list[int]:
        if seeds[0] < 2 or any(later <= earlier for earlier, later in itertools.pairwise(seeds)):
            raise ValueError(f"the looks must be rising numbers of seeds from 2 on, got {seeds}")
        return seeds


class Family(Section):
    """[family]: the tests that were declared, and the rule that judges them.

    ``test`` is Welch's, or the paired t of arms aligned by seed. ``margin`` is the difference, in
    the metric's unit, within which two arms count as equivalent. ``deterministic`` says that an arm
    may rightly have equal values on all seeds. ``size`` may declare more comparisons than the file
    lists. ``pooled`` names comparisons whose grid cells are also pooled, as secondary evidence.
    """

    comparisons: Annotated[list[Comparison], Field(min_length=1)]
    metric: str = "loss"
    split: str = "valid"
    test: Literal["welch", "paired_t"] = "welch"
    alternative: Literal["less", "greater", "two-sided"] = "less"
    alpha: Annotated[float, Field(gt=0, lt=0.5)] = 0.05
    correction: Literal["bonferroni", "holm", "fixed_sequence", "dunnett"] = "bonferroni"
    replicate_on: str | None = None
    failed_runs: Literal["incomplete", "delete_seed"] = "incomplete"
    size: Positive | None = None
    margin: Annotated[float, Field(gt=0)] | None = None
    deterministic: bool = False
    looks: Looks | None = None
    pooled: list[str] = Field(default_factory=list)

    @model_validator(mode="after")
    def _rules_fit_together(self) -> Self:
        if self.looks is not None and self.correction != "bonferroni":
            raise ValueError("a plan of looks shares alpha by Bonferroni; set that correction")
        baselines = {(c.baseline, repr(c.where)) for c in self.comparisons}
        if self.correction == "dunnett" and (len(baselines) > 1 or self.test != "welch"):
            raise ValueError(
                "Dunnett's correction compares arms with one common baseline, unpaired; declare "
                "one baseline, or correct by bonferroni or holm"
            )
        return self

    @field_validator("comparisons")
    @classmethod
    def _distinct_names(cls, comparisons: list[Comparison]) -> list[Comparison]:
        for name, times in Counter(c.name for c in comparisons).items():
            if times > 1:
                raise ValueError(f"comparison {name!r} is declared {times} times")
        return comparisons


class Tuned(Section):
    """[grid] axis = { values = [...] }: every arm is judged at its own best value in each cell.

    Best is the lowest mean of the metric ``lowest`` over the seeds on ``split``, which is none of
    the splits that the family is judged on.
    """

    values: list[Any]
    lowest: str = "loss"
    split: str = "valid"


Axis = Annotated[
    Annotated[list[Any], Tag("list")] | Annotated[Tuned, Tag("table")],
    Discriminator(lambda given: "table" if isinstance(given, dict | Tuned) else "list"),
]


class Study(Section):
    """A whole study file."""

    study: Identity
    family: Family
    seeds: Seeds | None = None
    data: Data | None = None
    model: Model = Model()
    train: Train | None = None
    arms: list[Arm] = Field(default_factory=list)
    grid: dict[str, Axis] = Field(default_factory=dict)

    @field_validator("arms")
    @classmethod
    def _distinct_arms(cls, arms: list[Arm]) -> list[Arm]:
        for name, times in Counter(arm.name for arm in arms).items():
            if times > 1:
                raise ValueError(f"arm {name!r} is declared {times} times")
        return arms

    @field_validator("grid")
    @classmethod
    def _axes(cls, grid: dict[str, Axis], info: ValidationInfo) -> dict[str, Axis]:
        known, data = [*Model.model_fields, *Train.model_fields], info.data.get("data")
        for axis, declared in grid.items():
            values = declared.values if isinstance(declared, Tuned) else declared
            if axis not in known and not (data and data.has_axis(axis)):
                raise ValueError(
                    f"unknown axis {axis!r}; an axis is a key of [model], [train] or [data.task]"
                )
            if not values or len({repr(v) for v in values}) != len(values):
                raise ValueError(f"axis {axis!r} needs one or more distinct values")
        return grid

    @model_validator(mode="after")
    def _comparisons_name_arms(self) -> Self:
        names = [arm.name for arm in self.arms]
        for comparison in self.family.comparisons if names else ():
            for role in ("treatment", "baseline"):
                arm = getattr(comparison, role)
                if arm not in names:
                    raise ValueError(
                        f"comparison {comparison.name!r} names the {role} {arm!r}, which is no "
                        f"arm of this study; its arms are {', '.join(map(repr, names))}"
                    )
            self._check_where(comparison)
        self._check_looks_and_pools()
        self._check_tuning()
        size, declared = self.family.size, len(self.declared_comparisons())
        if size is not None and size < declared:
            raise ValueError(
                f"family size {size} is smaller than the {declared} declared comparisons"
            )
        return self

    def _check_where(self, comparison: Comparison) -> None:
        for axis, value in comparison.where.items():
            if value not in self.crossed.get(axis, ()):
                raise ValueError(
                    f"comparison {comparison.name!r}: where {axis} = {value!r} is not on the grid"
                )

    def _check_looks_and_pools(self) -> None:
        looks, names = self.family.looks, [c.name for c in self.family.comparisons]
        if looks is not None:
            planned = len(self.seeds.tolist()) if self.seeds else 0
            if looks.seeds[-1] != planned:
                raise ValueError(
                    f"the last look is at {looks.seeds[-1]} seeds, but {planned} are declared"
                )
        for name in self.family.pooled:
            if name not in names:
                raise ValueError(f"pooled names {name!r}, which is no declared comparison")

    def _check_tuning(self) -> None:
        if len({(tuned.lowest, tuned.split) for tuned in self.tuned.values()}) > 1:
            raise ValueError("all tuned axes are chosen together: give them one metric and split")
        for axis, tuned in self.tuned.items():
            if tuned.split in (self.family.split, self.family.replicate_on):
                raise ValueError(
                    f"axis {axis!r} is tuned on the split {tuned.split!r}, on which the family is "
                    "judged as well: judge it on a split that had no part in the choice"
                )

    @property
    def crossed(self) -> dict[str, list[Any]]:
        """Return the axes whose every value makes cells of its own, with their values."""
        return {axis: v for axis, v in self.grid.items() if not isinstance(v, Tuned)}

    @property
    def tuned(self) -> dict[str, Tuned]:
        """Return the axes of which each arm gets its best value."""
        return {axis: v for axis, v in self.grid.items() if isinstance(v, Tuned)}

    def cells(self) -> list[dict[str, Any]]:
        """Return every combination of grid values that is trained; one empty one without a grid."""
        return _products(
            {axis: v.values if isinstance(v, Tuned) else v for axis, v in self.grid.items()}
        )

    def declared_comparisons(self) -> list[Comparison]:
        """Return the family with every comparison spelled out for each grid cell that it covers."""
        spelled = []
        for comparison in self.family.comparisons:
            for cell in _products(self.crossed):
                if all(cell[axis] == value for axis, value in comparison.where.items()):
                    free = {a: v for a, v in cell.items() if a not in comparison.where}
                    label = ", ".join(f"{a}={v}" for a, v in free.items())
                    name = f"{comparison.name} [{label}]" if label else comparison.name
                    spelled.append(comparison.model_copy(update={"name": name, "where": cell}))
        return spelled

    @property
    def family_size(self) -> int:
        """Return the declared number of tests that share alpha."""
        return self.family.size or len(self.declared_comparisons())

    @property
    def sha256(self) -> str:
        """Return the hash of the whole design and analysis plan, comments and layout aside."""
        return canonical_hash(self.model_dump(mode="json", exclude_defaults=True))

    @property
    def family_sha256(self) -> str:
        """Return the hash of the analysis plan: the family, its grid and the declared seeds."""
        plan = self.model_dump(
            mode="json", include={"family", "grid", "seeds"}, exclude_defaults=True
        )
        return canonical_hash(plan)


def _products(axes: dict[str, list[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


def canonical_hash(value: Any) -> str:
    """Return the SHA-256 of a JSON value written in its one canonical form.

    >>> canonical_hash({"b": 1, "a": 2}) == canonical_hash({"a": 2, "b": 1})
    True
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def load_study(path: str | Path) -> Study:
    """Read and validate a study file.

    Raises:
        ValueError: The file is missing, is no TOML, or breaks the schema; the message names the
            file, the line and the remedy, one sentence for each fault.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror}); give a study file") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path}: is not UTF-8 text; give a study file in TOML") from None
    return parse_study(text, str(path))


def parse_study(text: str, origin: str = "study") -> Study:
    """Validate the text of a study file; ``origin`` is the name that messages give it."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"\(at line (\d+)", str(error))
        line = f":{found[1]}" if found else ""
        raise ValueError(f"{origin}{line}: is no valid TOML: {error}") from None
    except RecursionError:
        raise ValueError(f"{origin}: nests its tables too deeply for a study file") from None
    try:
        return Study.model_validate(table)
    except ValidationError as error:
        raise ValueError("\n".join(sentences(error, Study, table, text, origin))) from None
