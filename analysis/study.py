"""The study file: what is trained, on which seeds, and which comparisons are declared beforehand.

A study file is TOML. Sections that only training needs ([data], [model], [train], [[arms]]) may be
absent from a file that declares a family for somebody else's table.
"""

from __future__ import annotations

import itertools
import re
import tomllib
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    Discriminator,
    Field,
    Tag,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from .design import Arm, Data, Model, Seeds, Train
from .family import Comparison, Family
from .section import Section, canonical_hash
from .study_errors import sentences


class Identity(Section):
    """[study]: the folder name of the results, and the question in one sentence."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=80)]
    question: str = ""


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
        """Return the family with each comparison and its test spelled out for every grid cell."""
        spelled = []
        for comparison in self.family.comparisons:
            for cell in _products(self.crossed):
                if all(cell[axis] == value for axis, value in comparison.where.items()):
                    free = {a: v for a, v in cell.items() if a not in comparison.where}
                    label = ", ".join(f"{a}={v}" for a, v in free.items())
                    name = f"{comparison.name} [{label}]" if label else comparison.name
                    test = comparison.test or self.family.test
                    update = {"name": name, "where": cell, "test": test}
                    spelled.append(comparison.model_copy(update=update))
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
