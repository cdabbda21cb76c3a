"""What `cqk run --dry-run` shows: the plan, its cost on this machine, and Slurm's script."""

from __future__ import annotations

import heapq
import json
import time
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from analysis import archive

from . import corpora, tasks
from .drawn import Drawn
from .estimate import (
    Cost,
    Footprint,
    Pace,
    cost,
    expected_tokens,
    footprint,
    pace,
    shape,
    vocab_size,
)
from .executors.slurm import array_script, chunks, max_array_size
from .executors.submissions import Submission
from .launch import devices_of, folder_of
from .plan import PlannedRun
from .profiles import Profile
from .progress import spoken
from .settings import RunSettings
from .study_run import StudyPlan, slots_of

SUSTAINED_FLOPS = 1e14  # per second: about a quarter of a data-centre GPU's peak in bfloat16
WEEK_SECONDS = 7 * 24 * 3600
MEASURING_SECONDS = 1.0  # after that, further shapes are given the pace of those measured


@dataclass(frozen=True)
class Kind:
    """The selected runs of one arm in one grid cell, and what one of them costs."""

    arm: str
    cell: dict[str, Any]
    runs: int
    missing: int
    cost: Cost
    seconds: float


@dataclass(frozen=True)
class DryRun:
    """All that is shown; ``slots`` runs go on at once, ``scripts`` is empty on this machine.

    ``notice`` says what is not final, if anything is.
    """

    study: str
    runs: list[dict[str, Any]]
    kinds: list[Kind]
    slots: int
    seconds: float
    scripts: list[str]
    notice: str = ""

    def json(self) -> str:
        """Return everything as one JSON document."""
        return json.dumps(asdict(self), indent=1)

    def text(self) -> str:
        """Return everything for people."""
        missing = sum(kind.missing for kind in self.kinds)
        tokens = sum(kind.missing * kind.cost.tokens for kind in self.kinds)
        flops = sum(kind.missing * kind.cost.flops for kind in self.kinds)
        total = (
            f"{len(self.runs)} runs, {missing} missing: {tokens:,} tokens to train, {flops:.2e} "
            f"FLOPs; about {spoken(self.seconds)} at this machine's pace, {self.slots} at a time"
        )
        if self.seconds > WEEK_SECONDS:
            hours = flops / SUSTAINED_FLOPS / 3600
            total += f"; {hours:,.1f} h of a device that sustains 100 TFLOP/s"
        lines = [*map(_row_text, self.runs), "", *map(_kind_text, self.kinds), "", total]
        lines += [self.notice] if self.notice else []
        return "\n".join(lines + [f"\n{script}" for script in self.scripts])


def dry_run(plan: StudyPlan, profile: Profile, *, jobs: int | None, threads: int | None) -> DryRun:
    """Look at a plan without writing into its results folder.

    Raises:
        ValueError: The plan could not be run so.
    """
    assert plan.study.data is not None
    archived = archive.over(plan.results)
    missing = {
        run.run_id
        for run in plan.selection
        if run.run_id not in archived and not folder_of(plan.results, run).result_path.exists()
    }
    slots = slots_of(plan, jobs, threads) if profile.executor == "local" else None
    at_once = slots.jobs if slots else profile.max_parallel or max(1, len(missing))
    kinds = _kinds(plan, missing, slots.threads if slots else profile.cpus_per_run)
    scripts = _scripts(plan, profile, missing) if profile.executor == "slurm" else []
    seconds = _laid_out([kind.seconds for kind in kinds for _ in range(kind.missing)], at_once)
    rows = [_row(run, run.run_id in missing) for run in plan.selection]
    return DryRun(plan.study.study.name, rows, kinds, at_once, seconds, scripts, plan.notice)


def _kinds(plan: StudyPlan, missing: set[str], threads: int) -> list[Kind]:
    assert plan.study.data is not None
    grouped: dict[tuple[str, str], list[PlannedRun]] = {}
    for run in plan.selection:
        grouped.setdefault((run.arm, repr(run.cell)), []).append(run)
    looked_at = _Shapes(threads)
    kinds = []
    for runs in grouped.values():
        settings = runs[0].settings
        ids, n_tokens = _ids_and_tokens(settings)
        footprint, pace = looked_at.look(settings, ids)
        estimated = cost(settings, ids, n_tokens, footprint)
        left = sum(run.run_id in missing for run in runs)
        seconds = pace.seconds(estimated)
        kinds.append(Kind(runs[0].arm, runs[0].cell, len(runs), left, estimated, seconds))
    return kinds


class _Shapes:
    """Footprint and pace of every shape of model and batch, each found once.

    When the time for measuring is up, a shape gets the pace of another one of its attention and
    coupling, else of the last one measured.
    """

    def __init__(self, threads: int) -> None:
        self._threads, self._begun = threads, time.monotonic()
        self._footprints: dict[Hashable, Footprint] = {}
        self._paces: dict[Hashable, Pace] = {}

    def look(self, settings: RunSettings, ids: int) -> tuple[Footprint, Pace]:
        """Return what a run of these settings takes, and how fast it goes."""
        this = shape(settings, ids)
        if this not in self._footprints:
            self._footprints[this] = footprint(settings, ids)
        return self._footprints[this], self._pace(this, settings, ids)

    def _pace(self, this: Hashable, settings: RunSettings, ids: int) -> Pace:
        variant = (settings.attention.name, settings.coupling.name)
        time_left = time.monotonic() - self._begun < MEASURING_SECONDS
        if not self._paces or (this not in self._paces and time_left):
            found = pace(settings, ids, self._threads)
            self._paces |= {this: found, variant: found, None: found}
        for known in (this, variant, None):
            if known in self._paces:
                return self._paces[known]
        raise AssertionError("the first shape is always measured")


def _ids_and_tokens(settings: RunSettings) -> tuple[int, Mapping[str, int]]:
    """Return the number of ids, and about how many tokens of each split are scored."""
    data = settings.data
    if data.corpus in tasks.names():
        drawn = Drawn(tasks.make(data.corpus, data.task), settings.train.seq_len)
        return drawn.vocab_size, drawn.n_tokens
    return _ids_and_tokens_of_text(data.corpus, data.tokenizer)


@cache
def _ids_and_tokens_of_text(name: str, tokenizer: str) -> tuple[int, Mapping[str, int]]:
    ids = vocab_size(tokenizer, lambda: corpora.load(name).text["train"])
    return ids, expected_tokens(tokenizer, corpora.scored_bytes(name))


def _scripts(plan: StudyPlan, profile: Profile, missing: set[str]) -> list[str]:
    """Return the script of every array that would be submitted if nothing is queued already."""
    scripts = []
    for number, chunk in enumerate(chunks(sorted(missing), max_array_size()), start=1):
        submission = Submission(Path(plan.results) / "submissions" / f"{number:04d}")
        devices = devices_of(plan.selection)
        name = plan.study.study.name
        scripts.append(array_script(submission, name, len(chunk), profile, devices))
    return scripts


def _laid_out(seconds: Iterable[float], slots: int) -> float:
    """Return when the last of the runs ends if each takes the first slot that is free."""
    free_at = [0.0] * slots
    for each in seconds:
        heapq.heapreplace(free_at, free_at[0] + each)
    return max(free_at)


def _row(run: PlannedRun, missing: bool) -> dict[str, Any]:
    schedule = run.settings.train
    return {
        "run_id": run.run_id,
        "arm": run.arm,
        "seed": run.seed,
        "cell": run.cell,
        "steps": schedule.steps,
        "tokens": schedule.steps * schedule.batch * schedule.seq_len,
        "over": not missing,
    }


def _row_text(row: dict[str, Any]) -> str:
    stands = "over   " if row["over"] else "missing"
    cell = "".join(f"  {axis}={value}" for axis, value in row["cell"].items())
    return (
        f"{row['run_id']}  {stands}  seed {row['seed']}  {row['arm']}  {row['steps']} steps{cell}"
    )


def _kind_text(kind: Kind) -> str:
    cell = "".join(f" {axis}={value}" for axis, value in kind.cell.items())
    return (
        f"{kind.arm}{cell}: {kind.cost.parameters:,} parameters, "
        f"{kind.cost.flops:.2e} FLOPs and about {spoken(kind.seconds)} a run, "
        f"{kind.cost.memory_bytes / 2**20:,.0f} MiB a device"
    )
