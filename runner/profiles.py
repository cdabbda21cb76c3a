"""Profiles: where and how runs are executed, by name; never part of a study or of a run's id."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from analysis.nearest import nearest
from analysis.section import Positive, Section
from analysis.study_errors import sentences

FILE_NAME = "cqk.profiles.toml"


class Profile(Section):
    """One table of a profiles file; all but ``executor`` describe an element of a job array.

    ``setup`` holds shell lines that come before the worker, ``extra`` any further option of
    sbatch: ``{ account = "abc", exclusive = true }``. ``signal_s`` is how long before the time
    limit an element is told to leave a checkpoint.
    """

    executor: Literal["local", "slurm"] = "slurm"
    partition: str | None = None
    time: str | Positive | None = None
    gpus_per_run: Annotated[int, Field(ge=0)] = 0
    cpus_per_run: Positive = 1
    mem: str | None = None
    max_parallel: Positive | None = None
    signal_s: Positive = 120
    setup: list[str] = Field(default_factory=list)
    extra: dict[str, str | int | bool] = Field(default_factory=dict)


def files() -> list[Path]:
    """Return the profiles files, the current folder's before the user's own."""
    home = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return [Path(FILE_NAME), Path(home).expanduser() / "cqk" / "profiles.toml"]


def load(name: str) -> Profile:
    """Return the profile of that name.

    Raises:
        ValueError: No file holds it, or its table is faulty; the message names file and key.
    """
    known: list[str] = []
    for path in files():
        if path.is_file():
            tables = _read(path)
            if name in tables:
                return _validated(tables[name], f"{path}: profile {name!r}")
            known += tables
    places = " or ".join(str(path) for path in files())
    hint = nearest(name, known) if known else "no profile is there"
    raise ValueError(f"unknown profile {name!r} in {places}; {hint}")


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{path}: is no readable TOML: {error}") from None


def _validated(table: Any, origin: str) -> Profile:
    try:
        return Profile.model_validate(table)
    except ValidationError as error:
        raise ValueError("\n".join(sentences(error, Profile, table, "", origin))) from None
