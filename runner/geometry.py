"""How many directions a head uses: spectra of its vectors and of its query-key product."""

from __future__ import annotations

import torch
from torch import Tensor


def participation_ratio(x_nrd: Tensor) -> Tensor:
    """Return (sum lambda)^2 / sum lambda^2 of each head's centred covariance, (N,), in float64.

    From (N heads, R vectors, D): 1 for vectors on a line, D for vectors that spread evenly. R
    vectors of an even spread give about D / (1 + D / R). NaN where all vectors are the same.
    Source: the definition usual in neuroscience, applied to queries and keys in "Query Expansion
    and Key Specialization in Transformer Attention Geometry", Gupta et al., 2026,
    https://arxiv.org/abs/2609.34273.

    >>> participation_ratio(torch.tensor([[[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]]))
    tensor([2.], dtype=torch.float64)
    """
    x_nrd = x_nrd.double()
    x_nrd = x_nrd - x_nrd.mean(1, keepdim=True)
    scatter_ndd = x_nrd.mT @ x_nrd  # the covariance but for a factor, which cancels
    trace_n = scatter_ndd.diagonal(dim1=-2, dim2=-1).sum(-1)
    return trace_n.square() / scatter_ndd.square().sum((-2, -1))


def interaction_spectrum(query_hed: Tensor, key_ged: Tensor) -> Tensor:
    """Return the singular values of W_K^T W_Q of each query head, falling, (H, min(E, D)).

    Given are W_Q^T and W_K^T of each head, (H, E, D) and (G, E, D); query head h reads key head
    h // (H / G). They are sqrt(eig((W_K W_K^T)(W_Q W_Q^T))), a problem of head size; it is solved
    on triangular factors, which keeps the digits that products of a matrix with itself lose. NaN
    where a weight is not finite. Rotary, the coupling and a method's norm are not in it.
    Source: "Autonomy-of-Heads", Yang et al., 2026, https://arxiv.org/abs/2608.06849.
    """
    of_query, of_key = (
        torch.linalg.qr(maps.to("cpu", torch.float64), mode="r").R for maps in (query_hed, key_ged)
    )
    of_key = of_key.repeat_interleave(len(of_query) // len(of_key), 0)
    product_hrr = of_key @ of_query.mT
    finite_h11 = product_hrr.isfinite().all(-1, keepdim=True).all(-2, keepdim=True)
    values_hr = torch.linalg.svdvals(torch.where(finite_h11, product_hrr, 0.0))
    return torch.where(finite_h11[..., 0], values_hr, torch.nan)


def effective_rank(values_hr: Tensor) -> Tensor:
    """Return exp of the entropy of singular values as shares of their sum, (H,).

    Source: "The Effective Rank: A Measure of Effective Dimensionality", O. Roy and M. Vetterli,
    2007, https://ieeexplore.ieee.org/document/7098875.

    >>> effective_rank(torch.tensor([[3.0, 3.0, 3.0, 0.0]]))
    tensor([3.])
    """
    return torch.special.entr(values_hr / values_hr.sum(-1, keepdim=True)).sum(-1).exp()


def energy_rank(values_hr: Tensor, share: float = 0.99) -> Tensor:
    """Return how many of the largest singular values hold that share of the sum of squares, (H,).

    >>> energy_rank(torch.tensor([[3.0, 1.0, 0.1]]), share=0.95)
    tensor([2.])
    """
    energy_hr = values_hr.square().cumsum(-1)
    total_h1 = energy_hr[..., -1:]
    below_h = (energy_hr < share * total_h1).sum(-1).to(values_hr.dtype)
    return torch.where(total_h1[..., 0] > 0, below_h + 1.0, torch.nan)


def relative_change(before_bntd: Tensor, after_bntd: Tensor) -> Tensor:
    """Return |after - before| / |before| of each head, (N,), in float64.

    The norms are over all of a head's vectors at once, so that short vectors count for little.
    """
    before, after = before_bntd.double(), after_bntd.double()
    axes = (0, 2, 3)
    return ((after - before).square().sum(axes) / before.square().sum(axes)).sqrt()
