"""The difference of two softmax maps, by blocks of query rows, with a way back written by hand.

No map outlives its block, autograd records none, and all blocks share their memory. On a CPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

from ..layers import wide

ROWS = 64
"""Query rows whose maps exist at once."""
SCORES = 2**17
"""About how many scores of first maps exist at once, of as many heads as that allows."""


class Given(NamedTuple):
    """What is scored; the queries are the last of the keys' tokens.

    ``pairs_2p`` holds the query heads that make the first and the second map of each pair. Query
    head h reads key h // (H/G), and pair p the value that neighbours 2 (p // (H/G)) and the next
    make when joined.
    """

    q_bhtd: Tensor
    k_bgtd: Tensor
    v_bgtd: Tensor
    documents_bt: Tensor | None
    lambda_now: Tensor
    pairs_2p: Tensor

    def blocks(self) -> list[tuple[slice, int]]:
        """Return rows and how many keys they see."""
        queries, keys = self.q_bhtd.shape[2], self.k_bgtd.shape[2]
        ends = [(start, min(start + ROWS, queries)) for start in range(0, queries, ROWS)]
        return [(slice(start, end), keys - queries + end) for start, end in ends]

    @property
    def scale(self) -> float:
        """What scores are multiplied by."""
        return float(self.q_bhtd.shape[-1] ** -0.5)


def difference(given: Given) -> Tensor:
    """Return (softmax(q1 k1) - lambda softmax(q2 k2)) v: (B, H/2, Tq, 2D). Differentiable once.

    Inside it is float32 at least, whatever comes in; what comes out has the dtype of the values.
    """
    if torch.is_autocast_enabled("cpu"):
        dtype = torch.get_autocast_dtype("cpu")
        q, k, v = (x if x.dtype == torch.float64 else x.to(dtype) for x in given[:3])
        given = given._replace(q_bhtd=q, k_bgtd=k, v_bgtd=v)
    return _Difference.apply(*given)


def joined(v_bgtd: Tensor) -> Tensor:
    """View neighbouring value heads side by side: (B, G, T, D) to (B, G/2, T, 2, D)."""
    return v_bgtd.unflatten(1, (-1, 2)).transpose(2, 3)


class _Part:
    """Some pairs of heads of some sequences, whose maps exist at once; N counts both.

    Queries, keys and maps are stacked: all first ones, then all second ones. They are copies, which
    cost little beside the products, so that any pairing of heads takes the same products.
    """

    def __init__(self, given: Given, sequences: slice, pairs: slice, memory: list[Tensor]) -> None:
        self.given, self.sequences, self.memory = given, sequences, memory
        group = given.q_bhtd.shape[1] // given.k_bgtd.shape[1]
        self.queries_2p = given.pairs_2p[:, pairs]
        self.keys_2p = self.queries_2p // group
        self.pairs_1p = torch.arange(given.pairs_2p.shape[1])[None, pairs]
        self.values_1p = self.pairs_1p // group
        self.q_ntd = self.take(given.q_bhtd, self.queries_2p).mul_(given.scale)
        self.k_ntd = self.take(given.k_bgtd, self.keys_2p)
        self.v_ntv = self.take(joined(given.v_bgtd), self.values_1p).flatten(2)
        self.bound_rr = torch.full((ROWS, ROWS), math.inf)
        self.bound_rr[torch.ones(ROWS, ROWS, dtype=torch.bool).triu_(1)] = -math.inf

    def take(self, x_bh: Tensor, heads_mp: Tensor) -> Tensor:
        """Copy heads: (B, H, ...) to (M N, ...), at least in float32."""
        taken = x_bh[self.sequences].index_select(1, heads_mp.flatten())
        return wide(taken.unflatten(1, heads_mp.shape).transpose(0, 1).flatten(0, 2))

    def put(self, total_bh: Tensor, x_n: Tensor, heads_mp: Tensor, *, add: bool = False) -> None:
        """Write heads where ``take`` takes them from, or add to what is there."""
        maps, pairs = heads_mp.shape
        x_bh = x_n.unflatten(0, (maps, -1, pairs)).transpose(0, 1).flatten(1, 2)
        write = torch.Tensor.index_add_ if add else torch.Tensor.index_copy_
        write(total_bh[self.sequences], 1, heads_mp.flatten(), x_bh.to(total_bh.dtype))

    def room(self, number: int, *shape: int) -> Tensor:
        """Return one of the three pieces of memory, with what was last written there."""
        return self.memory[number][: math.prod(shape)].view(shape)

    def maps(self, rows: slice, keys: int) -> Tensor:
        """Return the softmax of all scores of a block, (2 N, R, S)."""
        q_nrd, k_nsd = self.q_ntd[:, rows], self.k_ntd[:, :keys]
        count = q_nrd.shape[1]
        shape = len(q_nrd), count, keys
        scores = torch.bmm(q_nrd, k_nsd.mT, out=self.room(0, *shape))
        # A bound of -inf masks, at a quarter of the time that filling in takes.
        scores[:, :, keys - count :].clamp_max_(self.bound_rr[:count, :count])
        if self.given.documents_bt is not None:
            seen_bs = self.given.documents_bt[self.sequences, :keys]
            other = seen_bs[:, None, keys - count :, None] != seen_bs[:, None, None]
            scores.view(2, len(seen_bs), -1, count, keys).masked_fill_(other, -math.inf)
        return torch.softmax(scores, -1, out=self.room(1, *shape))


def _parts(given: Given) -> Iterator[Callable[[], _Part]]:
    """Yield what makes each part, so that the one before can be gone by then."""
    batch, _, queries = given.q_bhtd.shape[:3]
    n_pairs, one = given.pairs_2p.shape[1], min(ROWS, queries) * given.k_bgtd.shape[2]
    at_once = min(max(1, SCORES // one), batch * n_pairs)
    sequences, pairs = max(1, at_once // n_pairs), min(at_once, n_pairs)
    like = wide(given.q_bhtd.new_empty(0))
    memory = [like.new_empty(n * sequences * pairs * one) for n in (2, 2, 1)]
    for b in range(0, batch, sequences):
        for p in range(0, n_pairs, pairs):
            yield partial(_Part, given, slice(b, b + sequences), slice(p, p + pairs), memory)


def _output(*tensors: Tensor | None) -> Tensor:
    given = Given(*tensors)
    batch, heads, tokens, size = given.q_bhtd.shape
    # In the order of the layer's width, so that joining the heads again is no copy.
    return given.v_bgtd.new_empty(batch, tokens, heads // 2, 2 * size).transpose(1, 2)


def _forward(*tensors: Tensor | None) -> Tensor:
    given, o_bptv = Given(*tensors), _output(*tensors)
    for part in _parts(given):
        _weigh(part(), given.lambda_now.item(), o_bptv)
    return o_bptv


def _weigh(part: _Part, lambda_now: float, o_bptv: Tensor) -> None:
    """Write a part's outputs."""
    o_ntv = part.v_ntv.new_empty(len(part.v_ntv), *o_bptv.shape[2:])
    for rows, keys in part.given.blocks():
        first, second = part.maps(rows, keys).chunk(2)
        first.sub_(second, alpha=lambda_now)
        torch.bmm(first, part.v_ntv[:, :keys], out=o_ntv[:, rows])
    part.put(o_bptv, o_ntv, part.pairs_1p)


def _differentiate(part: _Part, lambda_now: float, grad_bptv: Tensor, totals: Given) -> None:
    """Write a part's gradients of queries, and add those of keys, values and lambda."""
    k_ntd, v_ntv, grad_ntv = part.k_ntd, part.v_ntv, part.take(grad_bptv, part.pairs_1p)
    grad_q_ntd = torch.empty_like(part.q_ntd)
    grad_k_ntd, grad_v_ntv = torch.zeros_like(k_ntd), torch.zeros_like(v_ntv)
    for rows, keys in part.given.blocks():
        grad_nrv, maps = grad_ntv[:, rows], part.maps(rows, keys)
        first, second = maps.chunk(2)
        weights = torch.sub(first, second, alpha=lambda_now, out=part.room(2, *first.shape))
        grad_v_ntv[:, :keys].baddbmm_(weights.mT, grad_nrv)
        grad_weights = torch.bmm(grad_nrv, v_ntv[:, :keys].mT, out=weights)
        products = part.room(0, 2, *first.shape)
        torch.mul(maps.view_as(products), grad_weights, out=products)
        sums = products.sum(-1, keepdim=True)
        totals.lambda_now.sub_(sums[1].sum())
        grad_scores = products.flatten(0, 1).addcmul_(maps, sums.flatten(0, 1), value=-1)
        torch.bmm(grad_scores, k_ntd[:, :keys], out=grad_q_ntd[:, rows])
        grad_k_ntd[:, :keys].baddbmm_(grad_scores.mT, part.q_ntd[:, rows])
    for grad in (grad_q_ntd, grad_k_ntd):  # linear in those of the scores, so lambda could wait
        grad.chunk(2)[1].mul_(-lambda_now)
    part.put(totals.q_bhtd, grad_q_ntd.mul_(part.given.scale), part.queries_2p)
    part.put(totals.k_bgtd, grad_k_ntd, part.keys_2p, add=True)
    grad_v_ntpd = grad_v_ntv.unflatten(2, (2, -1))
    part.put(joined(totals.v_bgtd), grad_v_ntpd, part.values_1p, add=True)


# An operator, because it can say what it returns when a dry run hands it fake tensors. By
# torch.library.custom_op it would be shorter, but the first call of such a one imports torch's
# compiler: a second and 80 MiB.
_LIBRARY = torch.library.Library("cqk", "FRAGMENT")
_LIBRARY.define(
    "difference(Tensor q, Tensor k, Tensor v, Tensor? documents, Tensor factor, Tensor pairs)"
    " -> Tensor"
)
_LIBRARY.impl("difference", _output, "Meta")
_LIBRARY.impl("difference", _forward, "CPU")


class _Difference(torch.autograd.Function):
    @staticmethod
    def forward(ctx: FunctionCtx, *tensors: Tensor | None) -> Tensor:
        ctx.save_for_backward(*tensors)
        with torch.autocast("cpu", enabled=False):
            return torch.ops.cqk.difference(*tensors)

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad_bptv: Tensor) -> tuple[Tensor | None, ...]:
        given = Given(*ctx.saved_tensors)
        q, k, v, _, lambda_now, _ = given
        added = [torch.zeros_like(x, dtype=wide(x[:0]).dtype) for x in (k, v, lambda_now[None])]
        totals = Given(torch.empty_like(q), *added[:2], None, added[2], given.pairs_2p)
        with torch.autocast("cpu", enabled=False):
            for part in _parts(given):
                _differentiate(part(), lambda_now.item(), grad_bptv, totals)
        grad_lambda = totals.lambda_now[0].to(lambda_now.dtype)
        return totals.q_bhtd, added[0].to(k.dtype), added[1].to(v.dtype), None, grad_lambda, None
