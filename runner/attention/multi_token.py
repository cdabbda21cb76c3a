"""Multi-Token Attention: scores of neighbouring queries, keys and heads are mixed."""

from __future__ import annotations

import math
from functools import partial
from typing import Literal

import torch
from pydantic import NonNegativeInt, PositiveInt
from torch import Tensor, nn

from ..layers import Constant, Initial, Linear, RMSNorm
from ._blocks import in_blocks
from ._heads import HeadAttention, HeadOptions
from ._kernels import Correlate, Identity, convolve, correlate, correlate_naive
from ._scoring import masked_softmax, scores, spread, visible
from .base import Cache, MakeCoupling, Shape


class MultiTokenOptions(HeadOptions):
    """Settings of multi-token attention; the defaults are the released ones, in every layer."""

    query_kernel: PositiveInt = 6
    """Rows of a key-query kernel: the query itself and those before it."""
    key_kernel: PositiveInt = 11
    """Columns of a key-query kernel."""
    padding: Literal["both", "left", "right"] = "both"
    """Where a kernel's keys lie: around the key, up to it, or from it on."""
    before: bool = True
    """A key-query kernel on the scores."""
    after: bool = True
    """A key-query kernel on the weights."""
    kernel_layers: tuple[NonNegativeInt, ...] | None = None
    """Layers, 0-based, that have key-query kernels; all when not given."""
    mix_before: bool = True
    """Each head's scores become a mixture of all heads' scores."""
    mix_after: Literal["none", "grouped", "linear"] = "grouped"
    """Mixing of the heads' weights: inside groups of neighbours, or of all heads."""
    group: PositiveInt | None = None
    """Heads in a group of ``mix_after = "grouped"``; all when not given."""
    norm: bool = True
    """An RMS norm of each head's output, one weight for all heads."""
    depth_scale: bool = False
    """Multiplies head outputs by 1 - lambda_init of the layer, as differential attention does."""
    gate: Literal["none", "scalar", "vector"] = "scalar"
    """A sigmoid gate that each head's output opens for itself."""
    cut_documents: bool = True
    """Off, kernels reach over a document's border, as the official code's do in training."""
    rows: PositiveInt = 128
    """Query rows whose maps exist at once."""


class MultiToken(HeadAttention):
    """Softmax attention with kernels over (query, key) and mixtures over heads around the softmax.

    A kernel reaches back over queries and both ways over keys. Scores of later keys are set to
    zero before each kernel, so that none leaks into an earlier query, and again masked after it.
    """

    summary = "kernels over neighbouring queries and keys, and mixing of heads, around the softmax"
    source = "Multi-Token Attention, O. Golovneva et al., 2025, https://arxiv.org/abs/2504.00927"
    Options = MultiTokenOptions
    examples = (
        {},
        {"rows": 4, "query_kernel": 3, "key_kernel": 4, "padding": "left", "group": 3},
        {"rows": 5, "kv_heads": 2, "padding": "right", "gate": "vector", "depth_scale": True},
        {"rows": 3, "after": False, "mix_before": False, "mix_after": "none", "gate": "none"},
        {"kernel_layers": (1,), "mix_after": "linear", "norm": False},
    )

    def __init__(
        self, shape: Shape, options: MultiTokenOptions, make_coupling: MakeCoupling
    ) -> None:
        super().__init__(shape, make_coupling, kv_heads=options.kv_heads)
        self.options, self.initial = options, {}
        if max(options.kernel_layers or (0,)) >= shape.layers:
            raise ValueError(
                f"kernel_layers count from 0 and must lie below the {shape.layers} layers, "
                f"got {list(options.kernel_layers)}"
            )
        here = options.kernel_layers is None or shape.layer in options.kernel_layers
        self.left = {"both": (options.key_kernel - 1) // 2, "left": options.key_kernel - 1}.get(
            options.padding, 0
        )
        taps = (self.heads, options.query_kernel, options.key_kernel)
        kernel = Identity((options.query_kernel - 1, self.left))
        self.kernel_before = self._own("kernel_before", taps, kernel, options.before and here)
        self.kernel_after = self._own("kernel_after", taps, kernel, options.after and here)
        self._build_mixtures(options)
        self._build_output(shape, options)

    def _own(self, name: str, size: tuple[int, ...], start: Initial, wanted: bool) -> Tensor | None:
        if not wanted:
            return None
        self.initial[name] = start
        return nn.Parameter(torch.empty(size))

    def _build_mixtures(self, options: MultiTokenOptions) -> None:
        heads, group = self.heads, options.group or self.heads
        if heads % group:
            raise ValueError(f"group must divide the {heads} query heads, got {group}")
        if options.group is not None and options.mix_after != "grouped":
            raise ValueError(f"only mix_after 'grouped' reads `group`, got {options.mix_after!r}")
        size = {"grouped": (heads // group, group, group)}.get(options.mix_after, (heads, heads))
        self.head_mix_before = self._own(
            "head_mix_before", (heads, heads), Identity(), options.mix_before
        )
        self.head_mix_after = self._own(
            "head_mix_after", size, Identity(), options.mix_after != "none"
        )

    def _build_output(self, shape: Shape, options: MultiTokenOptions) -> None:
        size = shape.head_dim
        lambda_init = 0.8 - 0.6 * math.exp(-0.3 * shape.layer)
        self.depth_factor = 1.0 - lambda_init if options.depth_scale else 1.0
        self.head_norm = RMSNorm(size, eps=1e-5) if options.norm else None
        self.gate = None
        if options.gate != "none":
            gates = 1 if options.gate == "scalar" else size
            self.gate = Linear(size, gates)
            self.gate_bias = nn.Parameter(torch.empty(gates))
            self.initial["gate_bias"] = Constant(0.0)

    def recall(
        self, cache: Cache, q_bhtd: Tensor, k_bgtd: Tensor, v_bgtd: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Keep the queries that a kernel still reaches, too."""
        if self._reach():
            q_bhtd = cache.extend("query", q_bhtd, last=self._reach())
        return super().recall(cache, q_bhtd, k_bgtd, v_bgtd)

    def score(
        self, q_bhtd: Tensor, k_bgtd: Tensor, v_bgtd: Tensor, documents_bt: Tensor | None
    ) -> Tensor:
        """Take blocks of query rows, each with the rows above that its kernels reach."""
        return in_blocks(
            partial(self._score, correlate),
            q_bhtd,
            k_bgtd,
            v_bgtd,
            documents_bt,
            *self._kernels_and_mixtures(),
            rows=self.options.rows,
            reach=self._reach(),
        )

    def score_naive(
        self, q_bhtd: Tensor, k_bgtd: Tensor, v_bgtd: Tensor, documents_bt: Tensor | None
    ) -> Tensor:
        """Take every step on whole maps."""
        own = self._kernels_and_mixtures()
        return self._score(correlate_naive, q_bhtd, k_bgtd, v_bgtd, documents_bt, *own)

    def _kernels_and_mixtures(self) -> tuple[Tensor | None, ...]:
        return self.kernel_before, self.head_mix_before, self.kernel_after, self.head_mix_after

    def _score(
        self,
        correlate: Correlate,
        q_bhtd: Tensor,
        k_bgtd: Tensor,
        v_bgtd: Tensor,
        documents_bt: Tensor | None,
        kernel_before: Tensor | None,
        mix_before: Tensor | None,
        kernel_after: Tensor | None,
        mix_after: Tensor | None,
    ) -> Tensor:
        """Take every step, for queries that are the last of the keys' tokens."""
        seen = visible(q_bhtd.shape[-2], k_bgtd.shape[-2], q_bhtd.device, documents_bt)
        cut = documents_bt if self.options.cut_documents else None
        maps = scores(q_bhtd, k_bgtd).masked_fill(~seen, 0.0)
        if kernel_before is not None:
            maps = convolve(maps, kernel_before, self.left, cut, correlate=correlate)
        if mix_before is not None:
            maps = (mix_before @ maps.flatten(2)).view_as(maps)
        maps = masked_softmax(maps, seen)
        if kernel_after is not None:
            maps = convolve(maps, kernel_after, self.left, cut, correlate=correlate)
            maps = maps.masked_fill(~seen, 0.0)
        if mix_after is not None:
            maps = self._mix_after(maps, mix_after)
        return maps @ spread(v_bgtd, self.heads)

    def _mix_after(self, maps_bhst: Tensor, mixture: Tensor) -> Tensor:
        if self.options.mix_after == "linear":
            return (mixture @ maps_bhst.flatten(2)).view_as(maps_bhst)
        grouped = maps_bhst.flatten(2).unflatten(1, (len(mixture), -1))
        return (mixture.mT @ grouped).view_as(maps_bhst)

    def finish(self, o_bhtd: Tensor, x_bte: Tensor) -> Tensor:
        """Normalise, scale by depth, gate, join, project."""
        if self.head_norm is not None:
            o_bhtd = self.head_norm(o_bhtd)
        o_bhtd = o_bhtd * self.depth_factor
        if self.gate is not None:
            o_bhtd = o_bhtd * (self.gate(o_bhtd) + self.gate_bias).sigmoid()
        return super().finish(o_bhtd, x_bte)

    def extra_parameter_count(self) -> int:
        """Count kernels, mixtures, norm and gate."""
        options, heads, size = self.options, self.heads, self.shape.head_dim
        gates = {"none": 0, "scalar": 1, "vector": size}[options.gate]
        return (
            self._kernels() * heads * options.query_kernel * options.key_kernel
            + heads * self._mixed_heads()
            + size * options.norm
            + gates * (size + 1)
        )

    def extra_forward_flops(self, tokens: int) -> int:
        """Count kernels and mixtures on the whole square, and the gate."""
        options, size = self.options, self.shape.head_dim
        taps = self._kernels() * options.query_kernel * options.key_kernel
        gates = {"none": 0, "scalar": 1, "vector": size}[options.gate]
        per_token = tokens * (taps + self._mixed_heads()) + gates * size
        return 2 * tokens * self.heads * per_token

    def cache_floats_fixed(self) -> int:
        """Count the queries that a kernel still reaches."""
        return self._reach() * self.heads * self.shape.head_dim

    def _kernels(self) -> int:
        return (self.kernel_before is not None) + (self.kernel_after is not None)

    def _reach(self) -> int:
        """Return how many earlier query rows decide a row's output."""
        return self._kernels() * (self.options.query_kernel - 1)

    def _mixed_heads(self) -> int:
        """Return how many heads a head's maps are mixed from, before and after added up."""
        options = self.options
        after = {"none": 0, "grouped": options.group or self.heads}.get(
            options.mix_after, self.heads
        )
        return self.heads * options.mix_before + after
