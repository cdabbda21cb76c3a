"""What the studies at the paper's sizes would cost: their dry runs as one table in results/."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from runner.dry_run import SUSTAINED_FLOPS

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "results" / "dry-runs.md"
STUDIES = ("composition-60m", "composition-150m", "composition-455m")
HEAD = (
    "study", "runs", "parameters", "tokens a run", "FLOPs in all", "GiB a device",
    f"hours at {SUSTAINED_FLOPS / 1e12:g} TFLOP/s sustained",
)  # fmt: skip


def look(study: str) -> dict[str, Any]:
    """Return what the dry run of a study says."""
    command = [Path(sys.executable).with_name("cqk"), "run", study, "--dry-run", "--json"]
    said = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    return json.loads(said.stdout)


def rows(study: str, kinds: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    """Yield one row per cell: least and most over its arms, and sums."""
    cells = {repr(kind["cell"]): kind["cell"] for kind in kinds}
    for key, cell in cells.items():
        here = [kind for kind in kinds if repr(kind["cell"]) == key]
        flops = sum(kind["runs"] * kind["cost"]["flops"] for kind in here)
        axes = "".join(f", {axis} {value}" for axis, value in cell.items())
        millions = [kind["cost"]["parameters"] / 1e6 for kind in here]
        gib = [kind["cost"]["memory_bytes"] / 2**30 for kind in here]
        yield (
            f"`{study}`{axes}",
            str(sum(kind["runs"] for kind in here)),
            f"{min(millions):.1f} to {max(millions):.1f} M",
            f"{here[0]['cost']['tokens']:.3g}",
            f"{flops:.2e}",
            f"{min(gib):.1f} to {max(gib):.1f}",
            f"{flops / SUSTAINED_FLOPS / 3600:,.1f}",
        )


def table() -> str:
    """Return the Markdown table of all three studies."""
    lines = [HEAD, ["---"] * len(HEAD)]
    lines += [row for study in STUDIES for row in rows(study, look(study)["kinds"])]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    TABLE.write_text(table(), encoding="utf-8")
    print(TABLE.read_text(encoding="utf-8"))
