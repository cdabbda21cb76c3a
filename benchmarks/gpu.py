"""Model FLOPs utilisation on one device, for each method with and without the coupling, as JSON.

Utilisation is 3 x the operations of a forward pass, over the time of a step, over the peak rate of
the device. Sizes that are left when the time is up are listed, not dropped.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from section import machine

from runner import attention, device
from runner.measure import interleave
from runner.model import Transformer, build
from runner.presets import find

COUPLINGS = ("none", "affine")
TOKENS_PER_STEP = 8192


def model_of(preset: str, method: str, coupling: str, vocab_size: int, where: str) -> Transformer:
    """Return a model whose weights are drawn on the device, which takes a moment."""
    model = build(
        find(preset), vocab_size=vocab_size, attention=method, coupling=coupling, device=where
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, 0.02)
    return model


def step_of(model: Transformer, ids_bt: torch.Tensor, where: str) -> Callable[[], None]:
    """Return what takes a training step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def take() -> None:
        with device.autocast(where, "bfloat16"):
            loss = model.loss(ids_bt[:, :-1], ids_bt[:, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return take


def measure(preset: str, method: str, seq_len: int, settings: argparse.Namespace) -> dict[str, Any]:
    """Measure one method at one size with and without the coupling."""
    where = device.choose()
    batch = max(1, settings.tokens // seq_len)
    ids_bt = torch.randint(settings.vocab_size, (batch, seq_len + 1), device=where)
    models = {c: model_of(preset, method, c, settings.vocab_size, where) for c in COUPLINGS}
    calls = {name: step_of(model, ids_bt, where) for name, model in models.items()}
    for call in calls.values():
        call()  # the first step chooses kernels
    times = interleave(calls, "none", rounds=settings.rounds)
    row: dict[str, Any] = {"preset": preset, "attention": method, "seq_len": seq_len}
    row |= {"batch": batch, "affine_over_none": asdict(times["affine"])}
    for name, model in models.items():
        flops = 3 * batch * model.forward_flops(seq_len)
        rate = flops / times[name].seconds
        row[name] = {
            "step_seconds": times[name].seconds,
            "tokens_per_second": batch * seq_len / times[name].seconds,
            "teraflops": rate / 1e12,
            "utilisation": rate / (settings.peak_teraflops * 1e12),
        }
    return row


def rows(settings: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Measure every size of every method until the time is up; a failure is a row, too."""
    end = time.monotonic() + settings.seconds
    for seq_len in settings.lengths:
        for preset in settings.presets:
            for method in settings.methods or attention.names():
                about = {"preset": preset, "attention": method, "seq_len": seq_len}
                if time.monotonic() > end:
                    yield about | {"left_out": "the time was up"}
                    continue
                try:
                    yield measure(preset, method, seq_len, settings)
                except torch.OutOfMemoryError as error:
                    yield about | {"left_out": str(error).splitlines()[0]}


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("gpu.json"))
    parser.add_argument("--presets", nargs="+", default=["60m", "150m", "455m"])
    parser.add_argument("--lengths", nargs="+", type=int, default=[1024, 512, 2048])
    parser.add_argument("--methods", nargs="+", help="attention methods; all by default")
    parser.add_argument("--tokens", type=int, default=TOKENS_PER_STEP, help="tokens of a step")
    parser.add_argument("--vocab-size", type=int, default=50_257)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=440.0)
    parser.add_argument("--peak-teraflops", type=float, default=989.0, help="989: H100, H200 bf16")
    return parser.parse_args()


if __name__ == "__main__":
    given = arguments()
    measured = []
    for found in rows(given):
        print(json.dumps(found), file=sys.stderr, flush=True)
        measured.append(found)
    document = {
        "machine": machine(),
        "command": sys.argv,
        "peak_teraflops": given.peak_teraflops,
        "rows": measured,
    }
    given.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
