"""Query-key norm in its documented forms."""

from __future__ import annotations

import math
from typing import Literal, Self

import torch
from pydantic import PositiveFloat, PositiveInt, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from ..layers import Constant, Initial, Rotary, wide
from ._heads import HeadAttention, HeadOptions
from ._scoring import attend, softmax_over_scores
from .base import MakeCoupling, Shape

Form = Literal["rms", "rms_offset", "whole", "layer", "l2"]


class QKNormOptions(HeadOptions):
    """Settings of query-key norm."""

    form: Form = "rms"
    """rms: over each head, one weight for all heads (Qwen3). rms_offset: times 1 + weight
    (Gemma3). whole: over the whole projection, before it is cut into heads (OLMo2). layer: mean and
    variance over each head, a weight row per head, no bias (Cohere). l2: unit length and one
    learned scale instead of D^-0.5 (Henry et al.)."""
    place: Literal["before_rotary", "after_rotary"] = "before_rotary"
    """After rotary, a free weight makes scores depend on absolute positions (HunYuan)."""
    eps: PositiveFloat = 1e-6
    """Added to the mean square; l2 clamps the length at 1e-12 instead."""
    scale: PositiveFloat | None = None
    """Multiplies scores; D^-0.5 when not given."""
    length: PositiveInt | None = None
    """Only for l2: the training length L in its start log2(L^2 - L); 512 when not given."""

    @model_validator(mode="after")
    def _refuse_unused(self) -> Self:
        if self.form == "l2" and self.scale is not None:
            raise ValueError("form 'l2' learns its scale: leave `scale` out, or set `length`")
        if self.form != "l2" and self.length is not None:
            raise ValueError(f"only form 'l2' reads `length`; form {self.form!r} does not")
        return self


class HeadNorm(nn.Module):
    """A norm of (B, N, T, D) in one of the weighted forms; the weight is stored flat."""

    def __init__(self, form: Form, heads: int, size: int, eps: float) -> None:
        super().__init__()
        self.form, self.heads, self.size, self.eps = form, heads, size, eps
        rows = heads if form in ("whole", "layer") else 1
        self.weight = nn.Parameter(torch.empty(rows * size))
        self.initial: dict[str, Initial] = {
            "weight": Constant(0.0 if form == "rms_offset" else 1.0)
        }

    def forward(self, x_bntd: Tensor) -> Tensor:
        """Normalise, at least in float32; the dtype stays."""
        x, weight = wide(x_bntd), self.weight
        if self.form == "layer":
            normed = F.layer_norm(x, (self.size,), eps=self.eps) * weight.view(-1, 1, self.size)
        elif self.form == "whole":
            joined = x.transpose(1, 2).flatten(2)
            normed = F.rms_norm(joined, weight.shape, weight, self.eps)
            normed = normed.unflatten(-1, (self.heads, self.size)).transpose(1, 2)
        else:
            weight = 1.0 + weight if self.form == "rms_offset" else weight
            normed = F.rms_norm(x, weight.shape, weight, self.eps)
        return normed.to(x_bntd.dtype)


class UnitLength(nn.Module):
    """x / |x| over the last axis."""

    def forward(self, x_bntd: Tensor) -> Tensor:
        """Normalise, at least in float32; the dtype stays."""
        return F.normalize(wide(x_bntd), dim=-1).to(x_bntd.dtype)


class QKNorm(HeadAttention):
    """Softmax attention over normalised queries and keys, which bounds the scores."""

    summary = "queries and keys are normalised per head before rotary"
    source = (
        "Query-Key Normalization for Transformers, A. Henry et al., 2020, "
        "https://arxiv.org/abs/2010.04245; per-head RMS form of Qwen3 Technical Report, A. Yang et "
        "al., 2025, https://arxiv.org/abs/2505.09388"
    )
    Options = QKNormOptions
    examples = (
        {},
        {"form": "rms_offset", "scale": 0.25, "kv_heads": 3},
        {"form": "whole", "eps": 1e-5, "kv_heads": 2},
        {"form": "layer", "kv_heads": 2},
        {"form": "l2", "length": 70},
        {"form": "l2", "place": "after_rotary"},
        {"place": "after_rotary"},
    )

    def __init__(self, shape: Shape, options: QKNormOptions, make_coupling: MakeCoupling) -> None:
        super().__init__(shape, make_coupling, kv_heads=options.kv_heads)
        self.options = options
        self.shift_invariant = options.place == "before_rotary" or options.form == "l2"
        if options.form == "l2":
            length = options.length or 512
            self.query_norm, self.key_norm = UnitLength(), UnitLength()
            self.scale = nn.Parameter(torch.empty(()))
            self.initial: dict[str, Initial] = {"scale": Constant(math.log2(length**2 - length))}
        else:
            self.query_norm, self.key_norm = (
                HeadNorm(options.form, heads, shape.head_dim, options.eps)
                for heads in (self.heads, self.kv_heads)
            )
            self.scale = options.scale or shape.head_dim**-0.5

    def normalise(self, q_bhtd: Tensor, k_bgtd: Tensor) -> tuple[Tensor, Tensor]:
        """Normalise both."""
        return self.query_norm(q_bhtd), self.key_norm(k_bgtd)

    def place(
        self, q_bhtd: Tensor, k_bgtd: Tensor, rotary: Rotary, offset: int
    ) -> tuple[Tensor, Tensor]:
        """Normalise and rotate in the chosen order, with the scale put into the query."""
        after = self.options.place == "after_rotary"
        if not after:
            q_bhtd, k_bgtd = self.normalise(q_bhtd, k_bgtd)
        q_bhtd, k_bgtd = rotary(q_bhtd, offset=offset), rotary(k_bgtd, offset=offset)
        if after:
            q_bhtd, k_bgtd = self.normalise(q_bhtd, k_bgtd)
        return q_bhtd * self.scale, k_bgtd

    def score(
        self, q_bhtd: Tensor, k_bgtd: Tensor, v_bgtd: Tensor, documents_bt: Tensor | None
    ) -> Tensor:
        """Score with the scale that the query already carries."""
        return attend(q_bhtd, k_bgtd, v_bgtd, scale=1.0, documents_bt=documents_bt)

    def score_naive(
        self, q_bhtd: Tensor, k_bgtd: Tensor, v_bgtd: Tensor, documents_bt: Tensor | None
    ) -> Tensor:
        """Score with the scale that the query already carries."""
        return softmax_over_scores(q_bhtd, k_bgtd, v_bgtd, scale=1.0, documents_bt=documents_bt)

    def extra_parameter_count(self) -> int:
        """Count the norms' weights, or the one scale."""
        size, form = self.shape.head_dim, self.options.form
        if form == "l2":
            return 1
        return (self.heads + self.kv_heads if form in ("whole", "layer") else 2) * size
