"""What the heads of a model do on a sample: how far a coupling moves them, and what they use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .attention.base import Attention
from .coupling.base import Coupling
from .diagnostics import maps, split_entropy
from .geometry import (
    effective_rank,
    energy_rank,
    interaction_spectrum,
    participation_ratio,
    relative_change,
)
from .layers import Rotary
from .model import Transformer

FIRST_POSITION = 8
"""Entropies are averaged over positions from here on: earlier ones have few keys to choose from."""
MAPPED_NUMBERS = 2**22
"""Weights of one layer's maps that are held at once."""

Heads = dict[str, Tensor]
"""Quantity -> one number per head, (heads,)."""


@torch.no_grad()
def anatomy(model: Transformer, ids_bt: Tensor) -> list[Heads]:
    """Return, for each layer, what :func:`of_coupling` and the others say of its heads.

    Queries and keys are those before rotary and before a method's own norm. A layer lacks what
    its variants do not let be read. Nothing is drawn at random and the model stays as it was.
    """
    was_training = model.training
    model.eval()
    try:
        return [_layer(*seen, model.rotary) for seen in _through(model, ids_bt)]
    finally:
        model.train(was_training)


@dataclass(frozen=True)
class Coupled:
    """Queries and keys as a coupling was given them and as it returned them."""

    before: tuple[Tensor, ...] = ()
    after: tuple[Tensor, ...] = ()

    @property
    def moved(self) -> bool:
        """Return whether anything but the arguments themselves was returned."""
        return any(new is not old for new, old in zip(self.after, self.before, strict=True))


def of_coupling(coupling: Coupling, seen: Coupled) -> Heads:
    """Return how far a coupling moves queries and keys; nothing where it returns its arguments.

    ``drift_query`` and ``drift_key`` are |q' - q| / |q| and |k' - k| / |k|. Of affine half-steps,
    which a coupling keeps in ``query_steps`` and ``key_steps``, ``exponent_*`` is the mean size of
    the bounded exponent and ``shift_*`` that of the shift, over coordinates, tokens and steps. Of
    an invertible map, ``log_det`` is the mean log|det| per token in nats, one for each key with its
    queries, and ``inverse_error_*`` what its inverse misses the arguments by, relative to them.
    """
    if not seen.moved:
        return {}
    found = _changes("drift", seen.before, seen.after)
    with _half_steps(coupling) as steps:
        if coupling.invertible:
            with suppress(NotImplementedError):
                found["log_det"] = coupling.with_log_det(*seen.before)[2].double().mean((0, 2))
        else:
            coupling.forward(*seen.before)
    for side, pairs in steps.items():
        for name, parts in zip(("exponent", "shift"), zip(*pairs, strict=True), strict=False):
            sizes = [part.abs().double().mean((0, 2, 3)) for part in parts]
            found[f"{name}_{side}"] = torch.stack(sizes).mean(0)
    if coupling.invertible:
        with suppress(NotImplementedError):
            undone = coupling.inverse(*seen.after)
            found |= _changes("inverse_error", seen.before, undone)
    return found


def of_vectors(seen: Coupled) -> Heads:
    """Return the participation ratios of queries and keys, before and after the coupling.

    ``pr_query`` and ``pr_key`` are of what the projections gave, per head, over all tokens of the
    sample, centred, before rotary; ``pr_query_coupled`` and ``pr_key_coupled`` of what a coupling
    made of it, absent where there is none.
    """
    stages = {"": seen.before, **({"_coupled": seen.after} if seen.moved else {})}
    return {
        f"pr_{side}{stage}": participation_ratio(x_bntd.transpose(0, 1).flatten(1, 2))
        for stage, pair in stages.items()
        for side, x_bntd in zip(("query", "key"), pair, strict=True)
    }


def of_weights(attention: Attention, width: int) -> Heads:
    """Return effective rank and 99 % energy rank of each query head's W_K^T W_Q.

    The weights are read off by projecting unit vectors, so that heads come in the order in which
    they share keys. Empty where a method has no such projections, or where they are not linear.
    """
    if not hasattr(attention, "project"):
        return {}
    unit_e1e = torch.eye(width).to(next(attention.parameters()))[:, None]
    once, twice = attention.project(unit_e1e), attention.project(2.0 * unit_e1e)
    if not all(torch.allclose(2.0 * a, b, rtol=1e-4) for a, b in zip(once, twice, strict=True)):
        return {}
    values_hr = interaction_spectrum(*(x_en1d[:, :, 0].transpose(0, 1) for x_en1d in once))
    return {"effective_rank": effective_rank(values_hr), "energy_rank_99": energy_rank(values_hr)}


def of_attention(attention: Attention, x_bte: Tensor, rotary: Rotary) -> Heads:
    """Return each map's weight on the first token, and the two parts of its entropy in nats.

    ``entropy_sink`` and ``entropy_content`` add up to the entropy of a row of weights
    (:func:`~runner.diagnostics.split_entropy`); all are means over rows and positions. Empty where
    a method has no maps to read, or the rows are no longer than ``FIRST_POSITION``.
    """
    tokens, measured = x_bte.shape[1], []
    if tokens <= FIRST_POSITION:
        return {}
    heads = getattr(attention, "heads", 1)
    for rows_bte in x_bte.split(max(1, MAPPED_NUMBERS // (heads * tokens**2))):
        maps_bhts = maps(attention, rows_bte, rotary)
        if maps_bhts is None:
            return {}
        measured.append(torch.stack(split_entropy(maps_bhts[:, :, FIRST_POSITION:])))
    means_3h = torch.cat(measured, dim=1).double().mean((1, 3))
    return dict(zip(("sink_weight", "entropy_sink", "entropy_content"), means_3h, strict=True))


def _changes(name: str, before: tuple[Tensor, ...], after: tuple[Tensor, ...]) -> Heads:
    return {
        f"{name}_{side}": relative_change(old, new)
        for side, old, new in zip(("query", "key"), before, after, strict=True)
    }


def _layer(attention: Attention, x_bte: Tensor, seen: Coupled, rotary: Rotary) -> Heads:
    found: Heads = {}
    if seen.before:  # a method may do without the call that the contract describes
        found |= of_coupling(attention.coupling, seen) | of_vectors(seen)
    found |= of_weights(attention, x_bte.shape[-1]) | of_attention(attention, x_bte, rotary)
    return {quantity: values.cpu() for quantity, values in found.items()}


def _through(model: Transformer, ids_bt: Tensor) -> Iterator[tuple[Attention, Tensor, Coupled]]:
    """Yield each layer's attention, its input and its coupled pair; one layer is held at a time."""
    x_bte = model.embedding(ids_bt)
    for block in model.blocks:
        seen = _Watched(block.attention)
        try:
            x_bte = block(x_bte, model.rotary, None, None)
        finally:
            seen.release()
        yield block.attention, seen.x_bte, seen.coupled


class _Watched:
    """What goes into an attention, and into and out of its coupling, until it is released."""

    def __init__(self, attention: Attention) -> None:
        self.x_bte, self.coupled = torch.empty(0), Coupled()
        self._hooks = (
            attention.register_forward_pre_hook(self._note_input),
            attention.coupling.register_forward_hook(self._note_pair),
        )

    def _note_input(self, _: nn.Module, given: tuple) -> None:
        self.x_bte = given[0]

    def _note_pair(self, _: nn.Module, given: tuple, returned: tuple) -> None:
        self.coupled = Coupled(given, returned)

    def release(self) -> None:
        for hook in self._hooks:
            hook.remove()


@contextmanager
def _half_steps(coupling: Coupling) -> Iterator[dict[str, list[tuple[Tensor, Tensor]]]]:
    """Gather exponent and shift of every affine half-step that is taken meanwhile, by side."""
    found: dict[str, list[tuple[Tensor, Tensor]]] = {}
    hooks = []
    for side in ("query", "key"):
        for step in getattr(coupling, f"{side}_steps", ()):

            def note(step: nn.Module, given: tuple, _: Tensor, side: str = side) -> None:
                found.setdefault(side, []).append(step.exponent_and_shift(given[1]))

            if hasattr(step, "exponent_and_shift"):
                hooks.append(step.register_forward_hook(note))
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()
