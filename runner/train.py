"""One run, from top to bottom: settings in, outcome out, and a checkpoint when told to stop."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from . import model as models
from .checkpoint import optimizer_tensors, restore_optimizer
from .data import Batches, Tokens
from .evaluate import SplitLoss, split_loss
from .folder import MetricsLog, RunFolder
from .optim import build_optimizer, learning_rate, set_learning_rate
from .presets import Sizes
from .settings import RunSettings
from .streams import fold

Progress = Callable[[int, int], None]  # steps taken, steps in all


class Stopped(Exception):
    """The run was told to stop and left a checkpoint; starting it again goes on from there."""


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


class Diverged(Exception):
    """The loss left the finite numbers, or the declared bound."""


def train(
    settings: RunSettings,
    tokens: Tokens,
    folder: RunFolder,
    *,
    device: str = "cpu",
    should_stop: Callable[[], bool] = lambda: False,
    progress: Progress = lambda step, steps: None,
) -> Outcome:
    """Train one run to its end, resuming from its newest checkpoint, and evaluate it.

    Raises:
        Stopped: ``should_stop`` said so; a checkpoint is on the disk.
        ValueError: The text is shorter than one batch.
    """
    begun = time.perf_counter()
    run = _Run(settings, tokens, folder, device)
    try:
        while run.step < settings.train.steps:
            run.take_step()
            progress(run.step, settings.train.steps)
            if run.step < settings.train.steps and should_stop():
                run.save()
                raise Stopped
            if run.step % settings.train.checkpoint_every == 0:
                run.save()
        trained = time.perf_counter()
        metrics = {split: run.evaluate(split) for split in ("valid", "test")}
    except Diverged as error:
        return run.outcome("diverged", reason=str(error))
    finally:
        run.log.close()
    seconds = {
        "train_seconds": trained - begun,
        "evaluate_seconds": time.perf_counter() - trained,
        "tokens_per_second": run.tokens_this_attempt / (trained - begun),
    }
    return run.outcome("done", metrics=metrics, seconds=seconds)


class _Run:
    """The moving parts of a run: model, optimiser, data, curve, and the number of steps taken."""

    def __init__(
        self, settings: RunSettings, tokens: Tokens, folder: RunFolder, device: str
    ) -> None:
        self.settings, self.tokens, self.folder, self.device = settings, tokens, folder, device
        schedule = settings.train
        self.model = build_model(settings, tokens.vocab_size).to(device)
        self.optimizer = build_optimizer(self.model, schedule)
        self.batches = Batches(
            tokens.train, batch=schedule.batch, seq_len=schedule.seq_len, seed=settings.seed
        )
        self.step = self._resume()
        self.first_step = self.step
        self.log = MetricsLog(folder.metrics_path, self.step)
        self.model.train()

    def _resume(self) -> int:
        found = self.folder.checkpoints.latest()
        if found is None:
            return 0
        tensors, state = found
        weights = {n.removeprefix("model."): t for n, t in tensors.items() if n[:6] == "model."}
        self.model.load_state_dict(weights)
        restore_optimizer(self.optimizer, tensors)
        return int(state["step"])

    @property
    def tokens_this_attempt(self) -> int:
        schedule = self.settings.train
        return (self.step - self.first_step) * schedule.batch * schedule.seq_len

    def take_step(self) -> None:
        schedule = self.settings.train
        torch.manual_seed(fold(self.settings.seed, "step", self.step))
        x_bt, y_bt = (torch.from_numpy(a).to(self.device) for a in self.batches.at(self.step))
        set_learning_rate(self.optimizer, learning_rate(self.step, schedule))
        loss = self.model.loss(x_bt, y_bt)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), schedule.clip_norm)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.step += 1
        # On a GPU reading the loss waits for the device, so it is read at the logged steps only.
        logged = self.step % schedule.log_every == 0 or self.step == schedule.steps
        if logged or self.device == "cpu":
            self._watch(loss.item(), logged)
        if schedule.evaluate_every and self.step % schedule.evaluate_every == 0:
            self._log("valid", self._split_loss("valid").loss_nats)

    def _watch(self, loss_nats: float, logged: bool) -> None:
        bound = self.settings.train.diverged_above_nats
        blown = not math.isfinite(loss_nats) or (bound is not None and loss_nats > bound)
        if logged or blown:
            self._log("train", loss_nats)
        if blown:
            raise Diverged(f"the training loss was {loss_nats} nats at step {self.step}")

    def _log(self, split: str, loss_nats: float) -> None:
        schedule = self.settings.train
        seen = self.step * schedule.batch * schedule.seq_len
        self.log.write(self.step, seen, split, "loss", loss_nats)

    def save(self) -> None:
        self.log.sync()
        tensors = {f"model.{n}": t for n, t in self.model.state_dict().items()}
        self.folder.checkpoints.save(self.step, tensors | optimizer_tensors(self.optimizer), {})

    def _split_loss(self, split: str) -> SplitLoss:
        schedule = self.settings.train
        return split_loss(
            self.model,
            getattr(self.tokens, split),
            window=schedule.seq_len,
            stride=schedule.eval_stride,
            batch=schedule.eval_batch,
            device=self.device,
        )

    def evaluate(self, split: str) -> dict[str, float]:
        """Return the exact metrics of a whole split."""
        loss = self._split_loss(split)
        if not math.isfinite(loss.loss_nats):
            raise Diverged(f"the loss of the {split} split was {loss.loss_nats} nats")
        metrics = {
            "loss": loss.loss_nats,
            "ppl": loss.ppl,
            "bits_per_byte": loss.bits_per_byte(self.tokens.n_bytes[split]),
        }
        if self.tokens.n_words is not None:
            metrics["word_ppl"] = loss.word_ppl(self.tokens.n_words[split])
        return metrics

    def outcome(self, status: str, **details: object) -> Outcome:
        schedule = self.settings.train
        return Outcome(
            status=status,
            steps=self.step,
            tokens=self.step * schedule.batch * schedule.seq_len,
            params=sum(p.numel() for p in self.model.parameters()),
            data_fingerprint=self.batches.fingerprint(),
            weights_sha256=weights_sha256(self.model),
            **details,  # type: ignore[arg-type]
        )


def build_model(
    settings: RunSettings, vocab_size: int, device: str | None = None
) -> models.Transformer:
    """Return the model of a run at its start: every parameter filled from its own stream."""
    sizes = settings.model.model_dump(exclude={"preset"})
    return models.build(
        Sizes(**sizes),
        vocab_size=vocab_size,
        attention=settings.attention.name,
        attention_options=settings.attention.options,
        coupling=settings.coupling.name,
        coupling_options=settings.coupling.options,
        seed=settings.seed,
        device=device,
    )


def weights_sha256(model: torch.nn.Module) -> str:
    """Return the hash of all weights, by name, bit for bit."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode() + b"\0")
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()
