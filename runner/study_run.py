"""`cqk run`: a study file becomes a frozen plan, the plan becomes runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from analysis import archive
from analysis.freeze import freeze as freeze_study
from analysis.study import Study, parse_study

from . import corpora, profiles, tasks
from .compiled import require_compiler
from .executors.machine import Slots, choose_slots, gpus
from .folder import timestamp
from .launch import Summary, devices_of, freeze_plan, holding, launch_local, launch_slurm
from .plan import PlannedRun, find_study, plan_runs, selected
from .profiles import Profile
from .writing import writing


@dataclass(frozen=True)
class StudyPlan:
    """A study as read, where its results go, all its runs, and those that were asked for.

    ``notice`` says why the ids of the runs are not final, if they are not.
    """

    study: Study
    text: str
    origin: Path
    results: Path
    runs: list[PlannedRun]
    selection: list[PlannedRun]
    notice: str = ""

    def freeze(self, reason: str | None) -> None:
        """Freeze the study and its whole plan into the results folder, selected or not.

        Runs that only an archive holds get their folders back: they are over.

        Raises:
            ValueError: The study differs from what is frozen there and no reason is given, or
                nothing can be written there.
        """
        with holding(self.results), writing(self.results):
            freeze_study(self.text, str(self.origin), self.results, reason=reason, time=timestamp())
            archive.restore(self.results)
            freeze_plan(self.results, self.runs)


def read(
    study: str,
    results: Path,
    *,
    only: list[str] | None = None,
    seeds: list[int] | None = None,
    download: bool = True,
) -> StudyPlan:
    """Read and plan a study; nothing is written into the results.

    Without ``download``, a text that is not on this machine stays away, and the ids of the runs,
    which follow from it, are not final.

    Raises:
        ValueError: The study is faulty, or has no such arm or seed.
    """
    path = find_study(study)
    text = path.read_text(encoding="utf-8")
    parsed = parse_study(text, str(path))
    if parsed.data is None:
        raise ValueError(f"{path}: has no [data]: nothing to train")
    corpus, notice = parsed.data.corpus, ""
    drawn = corpus in tasks.names()
    absent = not drawn and not download and not corpora.is_here(corpus)
    if absent:
        notice = f"{corpus} is not on this machine: run ids follow from the text and are not final"
    runs = plan_runs(parsed, "" if drawn or absent else corpora.load(corpus).sha256)
    folder = results / parsed.study.name
    return StudyPlan(parsed, text, path, folder, runs, list(selected(runs, only, seeds)), notice)


def choose_profile(executor: str | None, name: str | None) -> Profile:
    """Return the profile of that name, or the default one of an executor.

    Raises:
        ValueError: There is no such profile, or it is another executor's.
    """
    if name is None:
        return Profile(executor=executor or "local")  # type: ignore[arg-type]
    profile = profiles.load(name)
    if executor is not None and executor != profile.executor:
        raise ValueError(
            f"the profile {name!r} is for --executor {profile.executor}, not {executor}"
        )
    return profile


def execute(
    plan: StudyPlan,
    *,
    profile: Profile,
    jobs: int | None,
    threads: int | None,
    reason: str | None,
) -> Summary:
    """Freeze the plan, then train, or submit, the missing ones of the selected runs.

    Raises:
        ModuleNotFoundError: There is no torch here: every run would die of it, in its own process.
    """
    if find_spec("torch") is None:
        raise ModuleNotFoundError("torch is not installed", name="torch")
    launch = _launcher(plan, profile, jobs, threads)
    plan.freeze(reason)
    return launch(plan.selection)


def _launcher(
    plan: StudyPlan, profile: Profile, jobs: int | None, threads: int | None
) -> Callable[[Sequence[PlannedRun]], Summary]:
    """Return what launches runs, once all that could be refused has been looked at."""
    if profile.executor == "slurm":
        if jobs is not None or threads is not None:
            raise ValueError(
                "--jobs and --threads are for this machine; on Slurm the profile's max_parallel "
                "and cpus_per_run say it"
            )
        return lambda runs: launch_slurm(plan.results, plan.study.study.name, runs, profile)
    slots = slots_of(plan, jobs, threads)
    if any(run.settings.train.compile for run in plan.selection):
        require_compiler(on_gpu=bool(gpus()))
    return lambda runs: launch_local(plan.results, runs, slots)


def slots_of(plan: StudyPlan, jobs: int | None, threads: int | None) -> Slots:
    """Return the slots of this machine; they follow from the whole plan, never from a selection."""
    return choose_slots(len(plan.runs), jobs, threads, devices_of(plan.runs))
