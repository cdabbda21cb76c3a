"""Which of a run's logged values counts: the last, the one at a step, or the one at the best step.

The rule is declared by the user. Without one, a run must have a single value per metric.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Literal


class StepError(ValueError):
    """The values of one run and metric do not say by themselves which of them counts."""


@dataclass(frozen=True)
class StepRule:
    """`last`, `at` a step, or the step at which ``metric`` is least (`min`) or greatest (`max`)."""

    kind: Literal["last", "at", "min", "max"]
    step: float = math.nan
    metric: str = ""


def parse_step(text: str) -> StepRule:
    """Return the rule that ``--step`` states.

    Raises:
        ValueError: It is none of last, a step, min:METRIC and max:METRIC.

    >>> parse_step("400").step, parse_step("min:val_loss").metric
    (400.0, 'val_loss')
    """
    text = text.strip()
    if text == "last":
        return StepRule("last")
    if re.fullmatch(r"\d{1,18}(\.\d+)?", text, re.ASCII):
        return StepRule("at", step=float(text))
    kind, _, metric = text.partition(":")
    if kind == "min" and metric:
        return StepRule("min", metric=metric)
    if kind == "max" and metric:
        return StepRule("max", metric=metric)
    raise ValueError(
        f"--step {text!r} is none of: last; a step such as 400; min:METRIC or max:METRIC, the step "
        "at which a validation metric is best"
    )


@dataclass
class Kept:
    """The value of one run and metric that counts so far."""

    rule: StepRule | None
    in_order: bool
    step: float | None = None
    value: float | None = None
    seen: bool = False

    def add(self, step: float | None, value: float | None) -> None:
        """Take one more point into account.

        Raises:
            StepError: A table states two values for one step, or no rule says which step counts.
        """
        if self.rule is not None and self.rule.kind == "at" and step != self.rule.step:
            return
        if not self.seen:
            self.step, self.value, self.seen = step, value, True
        elif step == self.step and (step is not None or not self.in_order):
            self._repeat(value)
        elif self.rule is None:
            raise StepError(
                f"has values at {_named(self.step)} and {_named(step)}; declare which counts: "
                "--step last, --step N, or --step min:METRIC for the best on validation"
            )
        elif self.in_order or step is None or self.step is None or step > self.step:
            self.step, self.value = step, value

    def _repeat(self, value: float | None) -> None:
        if self.in_order:  # a resumed run does its steps again, and the later value is its own
            self.value = value
        elif not _same(self.value, value):
            raise StepError(
                f"has two values at {_named(self.step)}, {self.value} and {value}; keep one, since "
                "a run counts once"
            )


@dataclass
class Best:
    """The step at which one run's metric is best; a resumed run takes back what it does again."""

    sign: int
    in_order: bool
    records: list[tuple[float, float]] = field(default_factory=list)

    def add(self, step: float | None, value: float | None) -> None:
        """Take one more point of the metric that decides into account.

        Raises:
            StepError: The point has no step.
        """
        if step is None:
            raise StepError("has values without a step, so its best step is unknown")
        while self.in_order and self.records and self.records[-1][0] >= step:
            self.records.pop()
        if value is None or math.isnan(value):
            return
        score = self.sign * value
        if not self.records or score < self.records[-1][1]:
            self.records.append((step, score))
        elif score == self.records[-1][1] and step < self.records[-1][0]:
            self.records[-1] = (step, score)

    @property
    def step(self) -> float | None:
        """Return the best step, the first of equals; None where every value was NaN or missing."""
        return self.records[-1][0] if self.records else None


def _named(step: float | None) -> str:
    return "no step" if step is None else f"step {step:g}"


def _same(first: float | None, second: float | None) -> bool:
    if first is None or second is None:
        return first is second
    return first == second or (math.isnan(first) and math.isnan(second))
