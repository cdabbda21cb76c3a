"""Executes one run in this process, from its frozen spec to its result, and logs the attempt.

It reads only the run's folder, never the study file that somebody may be editing meanwhile, and may
be started any number of times: a run that is over or busy is left alone.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from contextlib import suppress

from analysis.records import Result

from . import compiled, device, sources
from .attempt import BUSY, ELSEWHERE, FAILED, STOPPED, UNWRITABLE, Ended, failed
from .distributed import Group
from .folder import RunFolder, RunIsBusy
from .provenance import environment
from .settings import RunSettings
from .train import Outcome, Progress, Stopped, train
from .writing import CannotWrite

LEAVE, GO_ON = 0, 1


def execute(
    folder: RunFolder,
    *,
    threads: int = 1,
    should_stop: Callable[[], bool] = lambda: False,
    progress: Progress = lambda done, total: None,
    group: Group | None = None,
) -> Ended:
    """Bring one run to its end, as its only process or its leading rank; return how it ended.

    A failure is written down with its traceback and returned; other runs go on.
    """
    group = group or Group(device=device.choose())
    try:
        with folder.lock():
            folder.sweep()
            if folder.result_path.exists():
                group.agree(LEAVE)
                return Ended(folder.read_result().status, ELSEWHERE)
            return _attempt(folder, threads, should_stop, progress, group)
    except RunIsBusy:
        group.agree(LEAVE)
        return Ended(BUSY)
    except CannotWrite as error:
        return Ended(UNWRITABLE, str(error))


def follow(folder: RunFolder, threads: int, group: Group) -> None:
    """Take part in a run as one of its other ranks, for as long as the leading one wants."""
    if group.agree(LEAVE) == GO_ON:
        settings = folder.settings()
        device.prepare(group.device, threads, settings.train.determinism)
        with suppress(Stopped):
            train(settings, sources.load(settings), folder, group)


def _attempt(
    folder: RunFolder,
    threads: int,
    should_stop: Callable[[], bool],
    progress: Progress,
    group: Group,
) -> Ended:
    settings = folder.settings()
    determinism = device.prepare(group.device, threads, settings.train.determinism)
    attempt = folder.start_attempt(environment(settings, threads, determinism))
    begun = time.perf_counter()
    try:
        group.agree(GO_ON)
        outcome = train(
            settings,
            sources.load(settings),
            folder,
            group,
            should_stop=should_stop,
            progress=progress,
        )
        assert outcome is not None
        folder.publish(_result(folder, outcome, begun, group))
        folder.sweep()
    except Stopped as stopped:
        folder.end_attempt(attempt, STOPPED, **_graphs(settings))
        return Ended(STOPPED, advanced=stopped.advanced)
    except CannotWrite as error:
        with suppress(CannotWrite):
            folder.end_attempt(attempt, FAILED, error=str(error))
        raise
    except Exception as error:
        ended = failed(error)
        trace = traceback.format_exc()
        folder.end_attempt(attempt, FAILED, error=ended.detail, traceback=trace)
        return ended
    folder.end_attempt(attempt, outcome.status, **_graphs(settings))
    return Ended(outcome.status)


def _graphs(settings: RunSettings) -> dict[str, int]:
    return compiled.report() if settings.train.compile else {}


def _result(folder: RunFolder, outcome: Outcome, begun: float, group: Group) -> Result:
    spec = folder.read_spec()
    return Result(
        run_id=spec.run_id,
        study=spec.study,
        arm=spec.arm,
        seed=spec.seed,
        status=outcome.status,  # type: ignore[arg-type]
        steps=outcome.steps,
        tokens=outcome.tokens,
        params=outcome.params,
        metrics=outcome.metrics,
        data_fingerprint=outcome.data_fingerprint,
        weights_sha256=outcome.weights_sha256,
        reason=outcome.reason,
        timing={
            **outcome.seconds,
            "attempt_seconds": time.perf_counter() - begun,
            "peak_memory_bytes": device.peak_memory_bytes(group.device),
        },
    )
