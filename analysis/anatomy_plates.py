"""The figures of what the heads do: which rows each is drawn from, and what it says of them."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from . import figures
from .anatomy import CELL, by, last_step
from .plate import Plate

SECTION = "heads"

_DRIFT = {
    "drift_query": "query: |q' - q| / |q|",
    "drift_key": "key: |k' - k| / |k|",
    "exponent_query": "query: mean |exponent|",
    "exponent_key": "key: mean |exponent|",
    "shift_query": "query: mean |shift|",
    "shift_key": "key: mean |shift|",
    "log_det": "log|det| per token, nats",
}
_SPREAD = {
    "pr_query": "queries (PR Q)",
    "pr_key": "keys (PR K)",
    "pr_difference": "PR Q - PR K",
}
_RANK = {
    "effective_rank": "effective rank of W_K^T W_Q",
    "energy_rank_99": "rank that holds 99 % of the energy",
}
_ENTROPY = ("entropy_sink", "entropy_content")


def plates(values: pd.DataFrame) -> list[Plate]:
    """Return the figures that the rows allow, each with its own rows."""
    last = last_step(values)
    arms = list(values["arm"].unique())
    several = values["step"].nunique() > 1
    drifts = {q: label for q, label in _DRIFT.items() if q.startswith("drift")}
    made = [
        _lines("coupling_by_layer", "How far the coupling moves queries and keys",
               f"At the end of training, by layer. Drift is relative to the vectors' own length; "
               f"exponent and shift are those of affine half-steps, absolute. {_RANGE}",
               by(last, _DRIFT, "layer"), arms, _LAYER),
        _lines("coupling_over_training", "Drift of the coupling over training",
               f"Mean over layers; 0 at the start, unless a coupling's options let it start as "
               f"something else than the identity. {_RANGE}",
               by(values, drifts, "step") if several else None, arms, "step"),
        _lines("participation_by_layer", "Directions that queries and keys use",
               f"Participation ratio per head at the end of training, before rotary and before a "
               f"method's own norm: 1 means one direction, the head's size all of them evenly. "
               f"{_STAGES} {_RANGE}",
               by(last, _SPREAD, "layer"), arms, _LAYER),
        _lines("participation_over_training", "Directions in use over training",
               f"Participation ratios as above, mean over layers. {_STAGES} {_RANGE}",
               by(values, _SPREAD, "step") if several else None, arms, "step"),
        _lines("rank_by_layer", "Rank of the query-key product",
               f"At the end of training, of each head's W_K^T W_Q; rotary, coupling and norms are "
               f"not in it. {_RANGE}",
               by(last, _RANK, "layer"), arms, _LAYER),
        _entropy(last),
    ]  # fmt: skip
    return [plate for plate in made if plate is not None]


_LAYER = "layer, counted from 0"
_RANGE = "Line: mean over seeds; band: lowest and highest seed."
_STAGES = "Solid: what is scored; dashed: the same vectors before the coupling."


def _lines(
    name: str,
    title: str,
    caption: str,
    rows: pd.DataFrame | None,
    arms: Sequence[str],
    label: str,
) -> Plate | None:
    if rows is None or rows.empty:
        return None
    return Plate(name, title, caption, figures.lines(rows, arms, label), SECTION, rows)


def _entropy(last: pd.DataFrame) -> Plate | None:
    parts = last[last["quantity"].isin(_ENTROPY)].pivot_table(
        index=[*CELL, "run_id", "layer"], columns="quantity", values="value", sort=False
    )
    if parts.empty:
        return None
    parts = parts.assign(entropy=parts[list(_ENTROPY)].sum(axis="columns"))
    seeds = parts.groupby([*CELL, "layer"], sort=False)
    rows = seeds.mean().assign(
        n=seeds["entropy"].count(), low=seeds["entropy"].min(), high=seeds["entropy"].max()
    )
    rows = rows.rename(columns={"entropy_sink": "sink", "entropy_content": "content"}).reset_index()
    rows = rows[[*CELL, "layer", "n", "sink", "content", "entropy", "low", "high"]]
    return Plate(
        "entropy_by_layer",
        "Entropy of attention, split at the first token",
        "At the end of training, nats, over positions and heads. The lower part is the entropy of "
        "looking at the first token or not, the upper one that among the other tokens; together "
        "they are exactly the entropy of the row. Line: lowest and highest seed of the sum.",
        figures.stacks(rows),
        SECTION,
        rows,
    )
