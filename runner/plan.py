"""Study -> the list of its runs: cells x arms x seeds, each with resolved settings and an id."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from analysis.design import Arm, Data, Model, Train, Variant
from analysis.nearest import nearest
from analysis.study import Study

from . import attention, coupling, tasks
from .presets import PRESETS
from .settings import ModelSettings, RunSettings, TextSettings, VariantSettings

SIZES = ("layers", "width", "heads", "head_dim", "feed_forward", "rope_base")


@dataclass(frozen=True)
class PlannedRun:
    """One run of a study: which arm, seed and grid cell, and the settings that follow."""

    study: str
    arm: str
    seed: int
    cell: dict[str, Any]
    settings: RunSettings

    @cached_property
    def run_id(self) -> str:
        """Return the id that names the run's folder."""
        return self.settings.run_id


def shipped_studies() -> dict[str, Path]:
    """Return the studies that come with the package, by name."""
    folder = Path(str(resources.files("runner") / "studies"))
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def find_study(name: str) -> Path:
    """Return the file of a shipped study, or of a study given by path.

    Raises:
        ValueError: There is neither.
    """
    shipped = shipped_studies()
    if name in shipped:
        return shipped[name]
    if Path(name).is_file():
        return Path(name)
    raise ValueError(
        f"{name}: is neither a file nor a shipped study; {nearest(name, list(shipped))}"
    )


def plan_runs(study: Study, text_sha256: str) -> list[PlannedRun]:
    """Return every run of ``study`` on the text with that hash, in the order seed, cell, arm.

    Seeds come first, so that an interrupted study holds complete sets of arms. A study on a task
    has no text; its hashes follow from the rows that are drawn for each cell.

    Raises:
        ValueError: A section is missing, a setting or a variant does not exist, or two arms come
            to the same settings.
    """
    for section in ("data", "train", "seeds"):
        if getattr(study, section) is None:
            raise ValueError(f"the study {study.study.name!r} has no [{section}]: nothing to train")
    if not study.arms:
        raise ValueError(f"the study {study.study.name!r} has no [[arms]]: nothing to train")
    assert study.seeds is not None
    seeds = study.seeds.tolist()
    kinds = [
        (arm.name, cell, _resolve(study, arm, cell, seeds[0], text_sha256))
        for cell in study.cells()
        for arm in study.arms
    ]
    runs = [
        PlannedRun(study.study.name, arm, seed, cell, settings.model_copy(update={"seed": seed}))
        for seed in seeds
        for arm, cell, settings in kinds
    ]
    _refuse_twins(runs)
    return runs


def _refuse_twins(runs: list[PlannedRun]) -> None:
    seen: dict[str, PlannedRun] = {}
    for run in runs:
        twin = seen.setdefault(run.run_id, run)
        if twin is not run:
            raise ValueError(
                f"arms {twin.arm!r} and {run.arm!r} come to the same settings (seed {run.seed}); "
                "one run cannot count for both: remove an arm or change a setting"
            )


def _resolve(study: Study, arm: Arm, cell: dict[str, Any], seed: int, text: str) -> RunSettings:
    assert study.data is not None
    assert study.train is not None
    model, train = _model(study, arm, cell), _train(study.train, arm, cell)
    return RunSettings(
        data=_data(study.data, cell, text, model, train),
        model=model,
        attention=_variant(arm.attention, "attention", arm.name),
        coupling=_variant(arm.coupling, "coupling", arm.name),
        train=train,
        seed=seed,
    )


def _data(
    data: Data, cell: dict[str, Any], text: str, model: ModelSettings, train: Train
) -> TextSettings:
    on_grid = {axis: value for axis, value in cell.items() if data.has_axis(axis)}
    if data.corpus not in tasks.names():
        if data.task is not None:
            raise ValueError(
                f"[data.task] is for the corpora {', '.join(tasks.names())}, which draw their "
                f"rows; {data.corpus} is a text: remove the table"
            )
        return TextSettings(corpus=data.corpus, text_sha256=text, tokenizer=data.tokenizer)
    task = tasks.make(data.corpus, {**(data.task or {}), **on_grid})
    tasks.check(task, data.tokenizer, model.width, train)
    return TextSettings(
        corpus=data.corpus,
        text_sha256=tasks.sha256(task, train.seq_len),
        tokenizer=data.tokenizer,
        task=task.model_dump(mode="json", exclude_defaults=True),
    )


def _model(study: Study, arm: Arm, cell: dict[str, Any]) -> ModelSettings:
    on_grid = {axis: value for axis, value in cell.items() if axis in Model.model_fields}
    declared = study.model.model_dump(exclude_none=True) | on_grid | arm.model
    preset = declared.pop("preset", None)
    if preset is not None and preset not in PRESETS:
        raise ValueError(f"unknown preset {preset!r}; {nearest(str(preset), list(PRESETS))}")
    base = {size: getattr(PRESETS[preset], size) for size in SIZES} if preset else {}
    sizes = {"rope_base": 10_000.0} | base | declared
    missing = [size for size in SIZES if size not in sizes]
    if missing:
        raise ValueError(
            f"arm {arm.name!r}: [model] lacks {', '.join(missing)}; name a preset or every size"
        )
    # Sizes that differ from the preset's are another model, which must not carry its name.
    name = preset if sizes == base else None
    return _validated(ModelSettings, {**sizes, "preset": name}, arm.name)


def _train(train: Train, arm: Arm, cell: dict[str, Any]) -> Train:
    on_grid = {axis: value for axis, value in cell.items() if axis in Train.model_fields}
    return _validated(Train, train.model_dump() | on_grid | arm.train, arm.name)


def _validated(schema: Any, values: dict[str, Any], arm: str) -> Any:
    try:
        return schema.model_validate(values)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(map(str, fault["loc"]))
        message = fault["msg"].removeprefix("Value error, ")
        raise ValueError(f"arm {arm!r}: {where}: {message}, got {fault['input']!r}") from None


def _variant(declared: Variant, kind: str, arm: str) -> VariantSettings:
    table = {"name": declared} if isinstance(declared, str) else dict(declared)
    name = table.pop("name")
    folder = attention if kind == "attention" else coupling
    if name not in folder.names():
        raise ValueError(f"arm {arm!r}: unknown {kind} {name!r}; {nearest(name, folder.names())}")
    if not table:
        return VariantSettings(name=name)
    options = _validated(folder.load(name).Options, table, arm)
    return VariantSettings(
        name=name, options=options.model_dump(mode="json", exclude_defaults=True)
    )


def selected(
    runs: list[PlannedRun], arms: list[str] | None, seeds: list[int] | None
) -> Iterator[PlannedRun]:
    """Yield the runs of the given arms and seeds; ``None`` means all.

    Raises:
        ValueError: The plan has no such arm or seed.
    """
    known_arms = list(dict.fromkeys(run.arm for run in runs))
    known_seeds = sorted({run.seed for run in runs})
    for arm in arms or ():
        if arm not in known_arms:
            raise ValueError(f"--only {arm!r}: no such arm; {nearest(arm, known_arms)}")
    for seed in seeds or ():
        if seed not in known_seeds:
            raise ValueError(f"--seeds {seed}: not declared; declared are {known_seeds}")
    for run in runs:
        if (arms is None or run.arm in arms) and (seeds is None or run.seed in seeds):
            yield run


def parse_seeds(text: str) -> list[int]:
    """Return the seeds that ``--seeds`` names.

    >>> parse_seeds("1-3,7")
    [1, 2, 3, 7]
    """
    seeds: list[int] = []
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if not first.isdecimal() or (last and not last.isdecimal()):
            raise ValueError(f"--seeds {text!r}: write numbers and ranges, such as 1-3,7")
        seeds.extend(range(int(first), int(last or first) + 1))
    return seeds
