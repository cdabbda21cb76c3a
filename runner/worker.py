"""Executes one run in this process, from its frozen spec to its result, and logs the attempt.

It reads only the run's folder, never the study file that somebody may be editing meanwhile, and may
be started any number of times: a run that is over or busy is left alone.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import torch

from analysis.records import Result

from . import corpora, data, tokenizers
from .folder import RunFolder, RunIsBusy
from .provenance import environment
from .settings import RunSettings
from .train import Outcome, Progress, Stopped, train

DONE, DIVERGED, STOPPED, FAILED, BUSY = "done", "diverged", "stopped", "failed", "busy"
EXIT_CODES = {DONE: 0, DIVERGED: 0, BUSY: 0, FAILED: 1, STOPPED: 75}


class StopSignal:
    """Turns TERM and USR1 into a request that the training loop asks for between two steps."""

    def __init__(self) -> None:
        self.received = False
        for number in (signal.SIGTERM, signal.SIGUSR1):
            signal.signal(number, self._receive)

    def _receive(self, number: int, frame: object) -> None:
        self.received = True

    def __call__(self) -> bool:
        """Return whether a signal has come."""
        return self.received


def execute(
    folder: RunFolder,
    *,
    threads: int = 1,
    should_stop: Callable[[], bool] = lambda: False,
    progress: Progress = lambda step, steps: None,
) -> str:
    """Bring one run to its end and return how the attempt ended.

    A failure is written down with its traceback and returned as ``"failed"``; other runs go on.
    """
    if folder.result_path.exists():
        return DONE
    try:
        with folder.lock():
            if folder.result_path.exists():
                return DONE
            return _attempt(folder, threads, should_stop, progress)
    except RunIsBusy:
        return BUSY


def _attempt(
    folder: RunFolder, threads: int, should_stop: Callable[[], bool], progress: Progress
) -> str:
    prepare_torch(threads)
    attempt = folder.start_attempt(environment(threads))
    begun = time.perf_counter()
    try:
        result = _result(folder, train_run(folder, should_stop, progress), begun)
        folder.publish(result)
        folder.checkpoints.clear()
    except Stopped:
        folder.end_attempt(attempt, STOPPED)
        return STOPPED
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        folder.end_attempt(attempt, FAILED, error=reason, traceback=traceback.format_exc())
        return FAILED
    folder.end_attempt(attempt, result.status)
    return result.status


def train_run(folder: RunFolder, should_stop: Callable[[], bool], progress: Progress) -> Outcome:
    """Train the run of ``folder`` on the text that its spec names.

    Raises:
        ValueError: The text on this machine is not the one that the run was planned on.
    """
    settings = RunSettings.model_validate(folder.read_spec().settings)
    corpus = corpora.load(settings.data.corpus)
    if corpus.sha256 != settings.data.text_sha256:
        raise ValueError(
            f"the corpus {corpus.name} is another text here (sha256 {corpus.sha256[:12]}) than the "
            f"run was planned on ({settings.data.text_sha256[:12]}); start `cqk run` on this "
            "machine, which plans runs on its text"
        )
    tokenizer = tokenizers.load(settings.data.tokenizer, corpus.text["train"])
    tokens = data.prepare(corpus, tokenizer)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return train(
        settings, tokens, folder, device=device, should_stop=should_stop, progress=progress
    )


def _result(folder: RunFolder, outcome: Outcome, begun: float) -> Result:
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
        timing={**outcome.seconds, "attempt_seconds": time.perf_counter() - begun},
    )


def prepare_torch(threads: int) -> None:
    """Set threads and determinism: strict on a CPU, where it costs nothing."""
    torch.set_num_threads(threads)
    if not torch.cuda.is_available():
        torch.use_deterministic_algorithms(True)


def main(arguments: list[str] | None = None) -> int:
    """Run the worker as a process of its own; the exit code says how the attempt ended."""
    parser = argparse.ArgumentParser(prog="runner.worker", description=__doc__)
    parser.add_argument("folder", type=Path, help="results/<study>/runs/<run id>")
    parser.add_argument("--threads", type=int, default=1)
    parsed = parser.parse_args(arguments)
    ended = execute(RunFolder(parsed.folder), threads=parsed.threads, should_stop=StopSignal())
    return EXIT_CODES[ended]


if __name__ == "__main__":
    sys.exit(main())
