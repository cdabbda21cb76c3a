"""What the heads do, summarised: means over heads, and mean and range over seeds.

All of it is descriptive: nothing here is tested, and nothing here reaches a verdict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from . import digits, tables

INTRODUCTION = (
    "What the heads were measured to do on a fixed sample of the validation text: "
    "descriptive, and no part of any verdict. The table gives each arm at the end of training, "
    "mean ± sd over seeds (number of seeds), after a mean over heads and layers. Drift is how far "
    "the coupling moves queries and keys, relative to their length; PR is the participation ratio, "
    "the number of directions in use; effective rank is that of W_K^T W_Q; entropies are in nats. "
    "A dash: the method does not let it be read. A difference between arms here explains no "
    "difference in loss by itself."
)

_TABULATED = {
    "drift_query": "query drift",
    "drift_key": "key drift",
    "log_det": "log|det|",
    "pr_query": "PR Q",
    "pr_key": "PR K",
    "pr_query_coupled": "PR Q coupled",
    "pr_key_coupled": "PR K coupled",
    "effective_rank": "effective rank",
    "entropy_sink": "entropy: sink",
    "entropy_content": "entropy: content",
}
CELL = ["cell", "arm"]


def per_run(diagnostics: pd.DataFrame | None, runs: pd.DataFrame) -> pd.DataFrame | None:
    """Return the mean over heads of each done run's quantities; None when there are none.

    `runs` has the columns run_id, status and cell. Columns: cell, arm, run_id, step, layer,
    quantity, value; `pr_difference` is that of queries and keys. A quantity that a head lacks is
    missing for the layer.
    """
    if diagnostics is None:
        return None
    done = runs.loc[runs["status"] == "done", ["run_id", "cell"]].drop_duplicates()
    known = done.merge(diagnostics, on="run_id")
    if known.empty:
        return None
    keys = [*CELL, "run_id", "step", "layer"]
    heads = known.groupby([*keys, "quantity"], sort=False)["value"]
    means = heads.mean().where(heads.count() == heads.size()).dropna().reset_index()
    return pd.concat([means, *(_differences(means, keys, s) for s in ("", "_coupled"))])


def summary(values: pd.DataFrame) -> pd.DataFrame:
    """Return each arm's quantities at the end, averaged over layers: n, mean, sd, low and high."""
    by_run = last_step(values).groupby([*CELL, "run_id", "quantity"], sort=False)["value"].mean()
    seeds = by_run.groupby([*CELL, "quantity"], sort=False)
    return seeds.agg(n="count", mean="mean", sd="std", low="min", high="max").reset_index()


def table(rows: pd.DataFrame) -> tables.Table:
    """Return the summary as a table, `mean ± sd (n)`, a line per arm and a column per quantity."""
    shown = {
        (row["cell"], row["arm"], row["quantity"]): digits.format_mean(
            row["mean"], row["sd"], row["n"]
        )
        for row in tables.records(rows)
    }
    places = list(dict.fromkeys(key[:2] for key in shown))
    celled = any(cell for cell, _ in places)
    present = {key[2] for key in shown}
    quantities = [quantity for quantity in _TABULATED if quantity in present]
    lines = []
    for cell, arm in places:
        about = [arm, cell or digits.DASH] if celled else [arm]
        lines.append((*about, *(shown.get((cell, arm, q), digits.DASH) for q in quantities)))
    header = ("arm", *(["cell"] if celled else []), *(_TABULATED[q] for q in quantities))
    return tables.Table(header, tuple(lines))


def _differences(means: pd.DataFrame, keys: Sequence[str], stage: str) -> pd.DataFrame:
    query, key = (
        means[means["quantity"] == f"pr_{side}{stage}"].set_index(list(keys))["value"]
        for side in ("query", "key")
    )
    return (query - key).dropna().reset_index().assign(quantity=f"pr_difference{stage}")


def last_step(values: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of each run's last step."""
    return values[values["step"] == values.groupby("run_id")["step"].transform("max")]


def by(values: pd.DataFrame, labels: Mapping[str, str], x: str) -> pd.DataFrame:
    """Return mean and range over seeds of some quantities against `x`, layer or step.

    Columns: cell, panel, arm, stage, x, n, mean, low, high. A quantity measured after the coupling
    too has the stages `scored` and `projected`, any other only `scored`.
    """
    plain = values["quantity"].str.removesuffix("_coupled")
    chosen = values.assign(plain=plain, coupled=plain != values["quantity"])
    chosen = chosen[plain.isin(list(labels))]
    keys = [*CELL, "plain"]
    twice = chosen.groupby(keys)["coupled"].transform("any")
    scored = chosen["coupled"] | ~twice
    chosen = chosen.assign(stage=scored.map({True: "scored", False: "projected"}))
    by_run = chosen.groupby([*keys, "stage", "run_id", x], sort=False)["value"].mean()
    seeds = by_run.groupby([*keys, "stage", x], sort=False)
    rows = seeds.agg(n="count", mean="mean", low="min", high="max").reset_index()
    ranks = {"cell": list(values["cell"].unique()), "plain": list(labels)}
    rows = rows.sort_values(
        ["cell", "plain", "arm", "stage", x],
        key=lambda column: column.map(ranks[column.name].index) if column.name in ranks else column,
    )
    rows = rows.assign(panel=rows["plain"].map(labels)).rename(columns={x: "x"})
    return rows[["cell", "panel", "arm", "stage", "x", "n", "mean", "low", "high"]]
