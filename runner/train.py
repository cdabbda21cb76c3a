"""One run, from top to bottom: settings in, outcome out, and a checkpoint when told to stop."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from .best import BestWeights
from .diagnostics_log import DiagnosticsLog
from .distributed import Group
from .folder import RunFolder
from .learner import Learner, weights_sha256
from .metrics import MetricsLog
from .settings import RunSettings
from .sources import Score, Source
from .watch import Diverged, Watch
from .workload import Workload

Progress = Callable[[int, int], None]  # work done, work in all (see workload.py)


class Stopped(Exception):
    """The run was told to stop and left a checkpoint; starting it again goes on from there."""

    def __init__(self, *, advanced: bool = False) -> None:
        super().__init__("stopped with a checkpoint")
        self.advanced = advanced


@dataclass
class Outcome:
    """How a run ended; ``metrics`` maps split -> metric -> value, empty when it diverged."""

    status: str
    steps: int
    tokens: int
    params: int
    data_fingerprint: str
    weights_sha256: str
    metrics: dict[str, dict[str, float]] = field(default_factory=dict)
    reason: str = ""
    seconds: dict[str, float] = field(default_factory=dict)


def train(
    settings: RunSettings,
    source: Source,
    folder: RunFolder,
    group: Group,
    *,
    should_stop: Callable[[], bool] = lambda: False,
    progress: Progress = lambda done, total: None,
) -> Outcome | None:
    """Train one run to its end, resuming from its newest checkpoint, and score it.

    ``group`` says on which device, and beside which other ranks. Only the leading rank writes into
    ``folder`` and returns an outcome; the others return None.

    Raises:
        Stopped: ``should_stop`` said so; a checkpoint is on the disk.
        ValueError: The text is shorter than one batch, the checkpoint was taken on another one, or
            the folder cannot be written.
    """
    begun = time.perf_counter()
    run = _Run(settings, source, folder, group, should_stop, progress)
    try:
        run.take_remaining_steps()
        trained = time.perf_counter()
        if not group.leads:
            return None
        metrics, reason = run.final_metrics()
    except Diverged as error:
        return run.outcome("diverged", reason=str(error)) if group.leads else None
    except Stopped:
        run.save()
        raise Stopped(advanced=run.advanced) from None
    finally:
        run.close()
    seconds = {
        "train_seconds": trained - begun,
        "evaluate_seconds": time.perf_counter() - trained,
        "tokens_per_second": run.tokens_this_attempt / (trained - begun),
    }
    return run.outcome("done", metrics=metrics, reason=reason, seconds=seconds)


class _Run:
    """A learner with what surrounds it: folder, curve, watch, and the best weights so far."""

    def __init__(
        self,
        settings: RunSettings,
        source: Source,
        folder: RunFolder,
        group: Group,
        should_stop: Callable[[], bool],
        progress: Progress,
    ) -> None:
        self.schedule, self.folder, self.group = settings.train, folder, group
        self.should_stop, self.progress = should_stop, progress
        self.learner = Learner(settings, source, group)
        self.fingerprint = self.learner.batches.fingerprint()
        self.watch = Watch(self.schedule.diverged_above_nats, group.device)
        self.best = BestWeights(wanted=self.schedule.checkpoint == "best_valid")
        self.last_valid: Score | None = None
        self.scorer = source.scorer(
            self.learner.model, self.schedule, group.device, self._before_batch
        )
        self.diagnostics = (
            DiagnosticsLog(folder.diagnostics_path, source, self.schedule, group.device)
            if self.schedule.diagnostics and group.leads
            else None
        )
        self.saved_at = self._resume()
        self.first_step = self.learner.step
        self.work = Workload(self.schedule, source.n_tokens, self.first_step)
        self.log = MetricsLog(folder.metrics_path, self.first_step) if group.leads else None

    def _resume(self) -> int | None:
        """Take up the newest readable checkpoint and return its step, ``None`` without one."""
        found = self.folder.checkpoints.latest() if self.group.leads else None
        step = self.group.agree(found.step if found else -1)
        if step < 0:
            return None
        found = found or self.folder.checkpoints.at(step)
        if found.state["data_fingerprint"] != self.fingerprint:
            raise ValueError(
                f"{self.folder.checkpoints.folder}: was written on other batches than come out "
                "here, where the tokenizer or the cut of the text differs; go on where it was "
                "written, or delete it to start the run anew"
            )
        self.learner.resume(step, found.tensors)
        self.watch.restore(found.state)
        self.best.restore(found.tensors, found.state)
        if self.group.leads:
            self.folder.log_resume(step, found.passed_over)
        return step

    def take_remaining_steps(self) -> None:
        """Take the steps that are left, each followed by what is due after it."""
        self.progress(self.work.done, self.work.total)
        self._measure_if_due()  # a run stopped before its validation resumes here
        while self.learner.step < self.schedule.steps:
            loss = self.learner.take_step()
            self.watch.note(self.learner.step, loss)
            self.work.add_step()
            self.progress(self.work.done, self.work.total)
            if self.learner.step % self.schedule.log_every == 0 or self._at_the_end:
                self._report(loss)
            if self.group.agree(int(self.should_stop())):
                raise Stopped
            if self.learner.step % self.schedule.checkpoint_every == 0:
                self.save()
            self._measure_if_due()
        self.save()  # a stop while both splits are scored costs no step

    @property
    def _at_the_end(self) -> bool:
        return self.learner.step == self.schedule.steps

    @property
    def advanced(self) -> bool:
        """Return whether this attempt took a step."""
        return self.learner.step > self.first_step

    @property
    def tokens_this_attempt(self) -> int:
        """Return how many target tokens this attempt has trained on."""
        return self._tokens_at(self.learner.step) - self._tokens_at(self.first_step)

    def _tokens_at(self, step: int) -> int:
        return step * self.schedule.batch * self.schedule.seq_len

    def _report(self, loss: torch.Tensor) -> None:
        """Log the loss of this step, and end the run if any loss since the last time was bad."""
        step, bad = self.learner.step, self.watch.first()
        if bad is not None and bad[0] < step:
            self._log(bad[0], "train", "loss", bad[1])
        self._log(step, "train", "loss", loss.item())
        if bad is not None:
            raise Diverged(f"the training loss was {bad[1]} nats at step {bad[0]}")

    def _log(self, step: int, split: str, metric: str, value: float) -> None:
        if self.log is not None:
            self.log.write(step, self._tokens_at(step), split, metric, value)

    def save(self) -> None:
        """Write a checkpoint of this step, unless there is one."""
        if self.log is None or self.saved_at == self.learner.step:
            return
        state = {"data_fingerprint": self.fingerprint, **self.watch.state(), **self.best.state()}
        tensors = {**self.learner.tensors(), **self.best.tensors()}
        self.log.sync()
        self.folder.checkpoints.save(self.learner.step, tensors, state)
        self.saved_at = self.learner.step

    def _measure_if_due(self) -> None:
        self._validate_if_due()
        if self.diagnostics is not None:
            self.diagnostics.record_if_due(self.learner.step, self.learner.model)

    def _validate_if_due(self) -> None:
        every, step = self.schedule.evaluate_every, self.learner.step
        if not every or not step or (step % every and not self._at_the_end):
            return
        stopped = False
        if self.group.leads:
            try:
                self.last_valid = self.scorer.loss("valid")
            except Stopped:
                stopped = True
        if self.group.agree(int(stopped)):
            raise Stopped
        if self.last_valid is not None:
            for metric, value in self.scorer.curve(self.last_valid).items():
                self._log(step, "valid", metric, value)
            self.best.consider(step, self.last_valid.loss_nats, self.learner.model)

    def final_metrics(self) -> tuple[dict[str, dict[str, float]], str]:
        """Score both splits with the chosen weights; return the metrics and what was chosen."""
        valid, reason = self.last_valid, ""
        if self.best.step is not None and self.best.step < self.schedule.steps:
            self.best.load_into(self.learner.model)
            valid = None
            reason = f"scored at step {self.best.step}, where the validation loss was lowest"
        valid_metrics = self.scorer.metrics("valid", valid)
        return {"valid": valid_metrics, "test": self.scorer.metrics("test")}, reason

    def _before_batch(self, tokens: int) -> None:
        if self.should_stop():
            raise Stopped
        self.work.add_passes(tokens)
        self.progress(self.work.done, self.work.total)

    def outcome(
        self,
        status: str,
        *,
        metrics: dict[str, dict[str, float]] | None = None,
        reason: str = "",
        seconds: dict[str, float] | None = None,
    ) -> Outcome:
        """Return how the run came out, with the hash of the weights that were scored."""
        return Outcome(
            status=status,
            steps=self.learner.step,
            tokens=self._tokens_at(self.learner.step),
            params=self.learner.model.parameter_count(),
            data_fingerprint=self.fingerprint,
            weights_sha256=weights_sha256(self.learner.model),
            metrics=metrics or {},
            reason=reason,
            seconds=seconds or {},
        )

    def close(self) -> None:
        """Close the curve's file."""
        if self.log is not None:
            self.log.close()
