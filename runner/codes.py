"""Input vectors that are given instead of learned, for ids whose likeness a task controls."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .model import Embedding, Transformer


class CodedEmbedding(Embedding):
    """Looks ids with a code up there and all others in the learned weight, which it shares.

    On the way out the weight is used as it is: a coded id still has a learned row there.
    """

    def __init__(self, learned: Embedding, codes_ve: Tensor) -> None:
        nn.Module.__init__(self)
        self.weight, self.initial = learned.weight, learned.initial
        # Not persistent: a checkpoint need not hold what follows from the run's settings.
        self.register_buffer("codes_ve", codes_ve, persistent=False)
        self.register_buffer("coded_v", codes_ve.any(dim=1), persistent=False)

    def forward(self, x_bt: Tensor) -> Tensor:
        """Look tokens up: (B, T) to (B, T, E)."""
        learned_bte, code_bte = F.embedding(x_bt, self.weight), F.embedding(x_bt, self.codes_ve)
        return torch.where(self.coded_v[x_bt][..., None], code_bte, learned_bte)


def give_codes(model: Transformer, codes_ve: np.ndarray) -> None:
    """Fix the input vectors of the ids whose row in ``codes_ve`` (ids, width) is not zero."""
    weight = model.embedding.weight
    assert codes_ve.shape == weight.shape
    codes = torch.from_numpy(codes_ve).to(weight.device, weight.dtype)
    model.embedding = CodedEmbedding(model.embedding, codes)
