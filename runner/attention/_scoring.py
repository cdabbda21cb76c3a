"""The arithmetic of scores that variants share: what may be seen, softmax, fused and written out.

Query head h reads key/value head h // (H/G). Axes as in base.py.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def visible(
    queries: int, keys: int, device: torch.device, documents_bt: Tensor | None = None
) -> Tensor:
    """Return what each query may see, True for yes: (Tq, Tk), or (B, 1, Tq, Tk) with documents.

    The queries are the last ones of the keys' tokens.

    >>> visible(2, 3, torch.device("cpu")).int()
    tensor([[1, 1, 0],
            [1, 1, 1]], dtype=torch.int32)
    """
    causal = torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)
    if documents_bt is None:
        return causal
    same = documents_bt[:, -queries:, None] == documents_bt[:, None, :]
    return (causal & same)[:, None]


def attend(
    q_bhtd: Tensor,
    k_bgtd: Tensor,
    v_bgtv: Tensor,
    *,
    scale: float | None = None,
    documents_bt: Tensor | None = None,
) -> Tensor:
    """Softmax attention that stores no score: (B, H, Tq, V). Query head h reads key h // (H/G).

    The fused kernels want one size for keys and values, so the smaller is padded with zeros.
    """
    queries, keys = q_bhtd.shape[-2], k_bgtd.shape[-2]
    scale = q_bhtd.shape[-1] ** -0.5 if scale is None else scale
    mask = None
    if documents_bt is not None or 1 < queries < keys:
        mask = visible(queries, keys, q_bhtd.device, documents_bt)
    size = v_bgtv.shape[-1]
    short = size - q_bhtd.shape[-1]
    if short > 0:
        q_bhtd, k_bgtd = F.pad(q_bhtd, (0, short)), F.pad(k_bgtd, (0, short))
    elif short < 0:
        v_bgtv = F.pad(v_bgtv, (0, -short))
    o_bhtv = F.scaled_dot_product_attention(
        q_bhtd,
        k_bgtd,
        v_bgtv,
        attn_mask=mask,
        is_causal=mask is None and queries > 1,
        scale=scale,
        enable_gqa=q_bhtd.shape[1] != k_bgtd.shape[1],
    )
    return o_bhtv if short >= 0 else o_bhtv[..., :size]


def scores(q_bhtd: Tensor, k_bgtd: Tensor, *, scale: float | None = None) -> Tensor:
    """Return every score, (B, H, Tq, Tk), scaled by D^-0.5 unless told otherwise."""
    scale = q_bhtd.shape[-1] ** -0.5 if scale is None else scale
    return (scale * q_bhtd) @ spread(k_bgtd, q_bhtd.shape[1]).mT


def spread(x_bgtd: Tensor, heads: int) -> Tensor:
    """Repeat each key/value head for its group of query heads: (B, G, T, D) to (B, H, T, D)."""
    group = heads // x_bgtd.shape[1]
    return x_bgtd if group == 1 else x_bgtd.repeat_interleave(group, dim=1)


def masked_softmax(scores_bhts: Tensor, visible_ts: Tensor) -> Tensor:
    """Return the weights of a softmax over what is visible."""
    return scores_bhts.masked_fill(~visible_ts, float("-inf")).softmax(-1)


def softmax_over_scores(
    q_bhtd: Tensor,
    k_bgtd: Tensor,
    v_bgtv: Tensor,
    *,
    scale: float | None = None,
    documents_bt: Tensor | None = None,
) -> Tensor:
    """Do what ``attend`` does, with every score written out."""
    seen = visible(q_bhtd.shape[-2], k_bgtd.shape[-2], q_bhtd.device, documents_bt)
    weights = masked_softmax(scores(q_bhtd, k_bgtd, scale=scale), seen)
    return weights @ spread(v_bgtv, q_bhtd.shape[1])
