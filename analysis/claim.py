"""One published claim: its evidence as it was printed, and what it says of it."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)

from .claimed import claimed_p
from .rounding import Printed


def _printed(value: object) -> object:
    """Return a figure as it was printed: TOML's numbers arrive as their text, and so stay."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value.strip() if isinstance(value, str) else value


def _figure(text: str, finite: bool = True) -> str:
    try:
        value, _ = float(text), Printed(text).half_unit
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is no number; write it as it was printed") from None
    if finite and not math.isfinite(value):
        raise ValueError(f"{text!r} is not finite; leave out what was not printed")
    return text


def _list(value: object) -> object:
    return value.split(";") if isinstance(value, str) else value


Figure = Annotated[str, BeforeValidator(_printed), Field(max_length=40)]
Values = Annotated[list[Figure], BeforeValidator(_list)]
Count = Annotated[int, Field(ge=0)]
Kind = Literal["t_df", "summary", "one_sample", "values", "paired", "results", "percent", "p_only"]


class Claim(BaseModel):
    """One claim with its evidence; figures are text, since 20.10 says more than 20.1.

    ``kind`` names the evidence: ``t_df`` (t, df), ``summary`` (mean, spread and n of both arms),
    ``one_sample`` (one arm against ``target``), ``values`` and ``paired`` (the arms' raw values),
    ``results`` (a comparison of a results folder), ``percent`` (two means), ``p_only`` (nothing
    but the p). A spread kind or alternative that is not stated is tried in every reading.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: Annotated[str, Field(min_length=1)]
    kind: Kind
    text: str = ""
    source: str = ""
    t: Figure | None = None
    df: Figure | None = None
    mean_treatment: Figure | None = None
    spread_treatment: Figure | None = None
    n_treatment: Count | None = None
    mean_baseline: Figure | None = None
    spread_baseline: Figure | None = None
    n_baseline: Count | None = None
    spread_kind: Literal["sd", "se", "sd0", "ci95_t", "ci95_z", "unknown"] = "unknown"
    treatment: Values = Field(default_factory=list)
    baseline: Values = Field(default_factory=list)
    rounded: bool = True
    target: Figure | None = None
    results: str | None = None
    comparison: str | None = None
    test: Literal["welch", "student"] = "welch"
    alternative: Literal["less", "greater", "two-sided", "unknown"] = "unknown"
    claimed_p: Figure | None = None
    claimed_percent: Figure | None = None
    alpha: Annotated[float, Field(gt=0, lt=1)] = 0.05
    family_size: Annotated[int, Field(gt=0)] | None = None
    claimed_survives: bool | None = None

    @field_validator(
        *("t", "df", "mean_treatment", "spread_treatment", "mean_baseline", "spread_baseline"),
        *("target", "claimed_percent"),
    )
    @classmethod
    def _number(cls, text: str | None) -> str | None:
        return None if text is None else _figure(text)

    @field_validator("treatment", "baseline")
    @classmethod
    def _numbers(cls, texts: list[str]) -> list[str]:
        return [_figure(text, finite=False) for text in texts]

    @field_validator("spread_treatment", "spread_baseline")
    @classmethod
    def _no_negative_spread(cls, text: str | None) -> str | None:
        if text is not None and float(text) < 0:
            raise ValueError(f"a spread cannot be negative; got {text}")
        return text

    @field_validator("df")
    @classmethod
    def _positive_df(cls, text: str | None) -> str | None:
        if text is not None and float(text) <= 0:
            raise ValueError(f"degrees of freedom are positive; got {text}")
        return text

    @field_validator("claimed_p")
    @classmethod
    def _p_value(cls, text: str | None) -> str | None:
        if text is not None:
            claimed_p(text)
        return text

    @model_validator(mode="after")
    def _evidence_is_there(self) -> Claim:
        for name in _REQUIRED[self.kind]:
            if getattr(self, name) in (None, []):
                raise ValueError(f"a claim of kind {self.kind!r} needs {name}")
        if self.kind == "paired" and len(self.treatment) != len(self.baseline):
            raise ValueError(
                f"paired values come in pairs; got {len(self.treatment)} and {len(self.baseline)}"
            )
        return self


# A mean or t without which there is nothing to recompute; a missing n or spread is a verdict.
_REQUIRED: dict[str, tuple[str, ...]] = {
    "t_df": ("t",),
    "summary": ("mean_treatment", "mean_baseline"),
    "one_sample": ("target",),
    "values": ("treatment", "baseline"),
    "paired": ("treatment", "baseline"),
    "results": ("results", "comparison"),
    "percent": (),
    "p_only": ("claimed_p",),
}
