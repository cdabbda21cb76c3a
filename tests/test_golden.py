"""Official programs' figures, reproduced: outputs and gradients, float64 and float32.

Every file is served by an adaptor that its name's pattern selects; what the adaptor builds follows
from the arrays and settings stored in the file. Files come from tests/reference and, when it is
set, from the folder that CQK_REFERENCE_DIR names.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from runner import attention, coupling
from runner.attention.base import Attention, Shape
from runner.coupling._half_step import scale_shift, undo_scale_shift
from runner.layers import Rotary

torch.set_num_threads(1)
FOLDERS = [Path(__file__).parent / "reference"]
if os.environ.get("CQK_REFERENCE_DIR"):
    FOLDERS.append(Path(os.environ["CQK_REFERENCE_DIR"]))
FILES = {
    f"{folder.name}/{path.stem}": path
    for folder in FOLDERS
    for path in sorted(folder.glob("*.npz"))
}
PREFIXES = ("diff_", "mta_", "qknorm_")
LAYERS = [name for name, path in FILES.items() if path.stem.startswith(PREFIXES)]
RULES = [name for name, path in FILES.items() if path.stem == "coupling_affine_rules"]


class StoredRotary(Rotary):
    """Rotates by tables read from a file."""

    def __init__(self, cos: np.ndarray, sin: np.ndarray, layout: str) -> None:
        super().__init__(layout=layout)
        self.cos, self.sin = torch.from_numpy(cos), torch.from_numpy(sin)

    def tables(self, x_bhtd: torch.Tensor, offset: int) -> tuple[torch.Tensor, torch.Tensor]:
        rows = slice(offset, offset + x_bhtd.shape[-2])
        return self.cos[rows].to(x_bhtd), self.sin[rows].to(x_bhtd)


@dataclass
class Case:
    """What a file asks us to build, and which of its weights is which of ours."""

    variant: str
    rotary: Rotary
    names: dict[str, str]
    head_dim: int
    heads: int
    options: dict[str, Any]
    layer: int = 0
    documents_bt: torch.Tensor | None = None

    def build(self, stored: dict[str, np.ndarray], dtype: torch.dtype) -> Attention:
        variant, plain = attention.load(self.variant), coupling.load("none")
        width = stored["x"].shape[-1]
        shape = Shape(width=width, heads=self.heads, head_dim=self.head_dim, layer=self.layer)
        layer = variant(
            shape, variant.Options(**self.options), lambda **h: plain(plain.Options(), **h)
        ).to(dtype)
        given = {}
        for theirs, array in weights(stored).items():
            ours = self.names[theirs]
            given[ours] = torch.from_numpy(array).to(dtype).view_as(layer.get_parameter(ours))
        layer.load_state_dict(given)
        return layer


def weights(stored: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the file's weights by name; one stacked matrix is cut into its four."""
    found = {key[2:]: array for key, array in stored.items() if key.startswith("w_")}
    if "weights" in found:
        parts = np.split(found.pop("weights"), 4)
        found |= dict(zip(("q_proj", "k_proj", "v_proj", "o_proj"), parts, strict=True))
    return {key.removesuffix(".weight"): array for key, array in found.items()}


def gradients(stored: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the file's gradients of weights by the weight's name."""
    found = {key[5:]: array for key, array in stored.items() if key.startswith("grad_")}
    del found["x"]
    return {key.removesuffix(".weight").removesuffix("_weight"): a for key, a in found.items()}


def differential(name: str, stored: dict[str, np.ndarray]) -> Case:
    rotary = StoredRotary(stored["cos"], stored["sin"], "interleaved")
    projections = {"q_proj": "query.weight", "k_proj": "key.weight", "v_proj": "value.weight"}
    projections |= {"out_proj": "output.weight", "o_proj": "output.weight"}
    heads, head_dim = int(stored["num_heads"]), int(stored["head_dim"])
    options: dict[str, Any] = {"kv_heads": int(stored.get("num_kv_heads", heads))}
    lambdas = {f"lambda_{v}": f"lambda_{v}" for v in ("q1", "k1", "q2", "k2")}
    if "lambda_init" in stored:
        names = projections | lambdas | {"subln": "head_norm.weight"}
        options["grouping"] = "naive"
        depth = int(stored["depth"])
        return Case("differential", rotary, names, head_dim, 2 * heads, options, layer=depth)
    if "lambda_logits" in stored:
        names = projections | {"lambda_proj": "lambda_gate.weight"}
        return Case("differential_v2", rotary, names, head_dim, heads, options)
    return Case("grouped", rotary, projections, head_dim, heads, options)


def multi_token(name: str, stored: dict[str, np.ndarray]) -> Case:
    found = weights(stored)
    kernel = found.get("mta_kernel", found.get("mta_kernel_after_sm"))
    options = {
        "kv_heads": int(stored["n_kv_heads"]),
        "before": "mta_kernel" in found,
        "after": "mta_kernel_after_sm" in found,
        "padding": str(stored["pad_key"]),
        "mix_before": "wpsm" in found,
        "mix_after": "none",
        "norm": "subln" in found,
        "depth_scale": "depth_rescale" in name,
        "gate": "none",
        "cut_documents": False,
    }
    if kernel is not None:
        options["query_kernel"], options["key_kernel"] = kernel.shape[-2:]
    if "head_kernel" in found:
        options |= {"mix_after": "grouped", "group": found["head_kernel"].shape[-1]}
    if "wposm" in found:
        options["mix_after"] = "linear"
    if "gate" in found:
        options["gate"] = "scalar" if len(found["gate"]) == 1 else "vector"
    names = {
        "wq": "query.weight",
        "wk": "key.weight",
        "wv": "value.weight",
        "wo": "output.weight",
        "mta_kernel": "kernel_before",
        "mta_kernel_after_sm": "kernel_after",
        "wpsm": "head_mix_before",
        "wposm": "head_mix_after",
        "head_kernel": "head_mix_after",
        "subln": "head_norm.weight",
        "gate": "gate.weight",
        "gate.bias": "gate_bias",
    }
    documents_bt = None
    if "mask" in stored:
        first_visible = torch.from_numpy(stored["mask"][0, 0]).float().argmax(-1)
        documents_bt = first_visible.expand(len(stored["x"]), -1)
    return Case(
        "multi_token",
        StoredRotary(stored["rope_cos"], stored["rope_sin"], "interleaved"),
        names,
        int(stored["head_dim"]),
        int(stored["n_heads"]),
        options,
        layer=int(stored["layer_id"]),
        documents_bt=documents_bt,
    )


FORMS = {"qwen3": "rms", "hunyuan": "rms", "olmo2": "whole", "gemma3": "rms_offset"}
FORMS |= {"cohere": "layer", "henry": "l2"}


def qk_norm(name: str, stored: dict[str, np.ndarray]) -> Case:
    family = name.split("_")[1]
    heads, head_dim = int(stored["num_heads"]), int(stored["head_dim"])
    options = {"form": FORMS[family], "kv_heads": int(stored.get("num_kv_heads", heads))}
    if "eps" in stored:
        options["eps"] = float(stored["eps"])
    if "scaling" in stored:
        options["scale"] = float(stored["scaling"])
    if "after_rope" in name:
        options["place"] = "after_rotary"
    names = {"q_proj": "query.weight", "k_proj": "key.weight", "v_proj": "value.weight"}
    names |= {"o_proj": "output.weight", "scale_g": "scale"}
    names |= dict.fromkeys(("q_norm", "query_layernorm"), "query_norm.weight")
    names |= dict.fromkeys(("k_norm", "key_layernorm"), "key_norm.weight")
    if "cos" not in stored:
        tokens, pairs = stored["x"].shape[1], head_dim // 2
        rotary = StoredRotary(np.ones((tokens, pairs)), np.zeros((tokens, pairs)), "half")
    elif family == "cohere":
        rotary = StoredRotary(stored["cos"][:, 0::2], stored["sin"][:, 0::2], "interleaved")
    else:
        half = head_dim // 2
        rotary = StoredRotary(stored["cos"][:, :half], stored["sin"][:, :half], "half")
    return Case("qk_norm", rotary, names, head_dim, heads, options)


ADAPTORS = {"diff": differential, "mta": multi_token, "qknorm": qk_norm}


def read(name: str) -> tuple[Case, dict[str, np.ndarray]]:
    path = FILES[name]
    with np.load(path) as archive:
        stored = dict(archive)
    return ADAPTORS[path.stem.split("_")[0]](path.stem, stored), stored


def close(ours: torch.Tensor, theirs: np.ndarray, tolerance: float) -> None:
    expected = torch.from_numpy(np.asarray(theirs)).to(ours.dtype).view_as(ours)
    torch.testing.assert_close(ours.detach(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("form", ["forward", "forward_naive"])
@pytest.mark.parametrize("name", LAYERS)
def test_official_output_and_gradients_in_float64(name: str, form: str) -> None:
    case, stored = read(name)
    layer = case.build(stored, torch.float64)
    x = torch.from_numpy(stored["x"]).double().requires_grad_()
    out = getattr(layer, form)(x, case.rotary, documents_bt=case.documents_bt)
    close(out, stored["out"], 1e-10)
    if "cotangent" in stored:
        (out * torch.from_numpy(stored["cotangent"])).sum().backward()
        close(x.grad, stored["grad_x"], 1e-10)
        for theirs, array in gradients(stored).items():
            close(layer.get_parameter(case.names[theirs]).grad, array, 1e-10)


@pytest.mark.parametrize("name", LAYERS)
def test_official_output_in_float32(name: str) -> None:
    case, stored = read(name)
    layer = case.build(stored, torch.float32)
    x = torch.from_numpy(stored["x"]).float()
    with torch.no_grad():
        out = layer(x, case.rotary, documents_bt=case.documents_bt)
    close(out, stored["out_float32_run"], 1e-5)


@pytest.mark.parametrize("name", [name for name in LAYERS if "diff_v1" in name])
def test_differential_groups_as_the_official_flash_files_and_has_their_lambda(name: str) -> None:
    case, stored = read(name)
    case.options["grouping"] = "flash"
    layer = case.build(stored, torch.float64)
    assert layer.lambda_init == pytest.approx(float(stored["lambda_init"]), abs=1e-12)
    assert layer.lambda_now().item() == pytest.approx(float(stored["lambda_full"]), abs=1e-12)
    x = torch.from_numpy(stored["x"]).double()
    for form in (layer, layer.forward_naive):
        out = form(x, case.rotary).detach()
        for official in ("out_flash1", "out_flash2"):
            if official in stored:
                close(out, stored[official], 1e-10)


# The exponent that each library's rule gives the raw number u: y = x * exp(exponent) + shift.
EXPONENTS = {
    "nflows": lambda u: torch.log(torch.sigmoid(u + 2.0) + 1e-3),
    "normflows_exp": lambda u: u,
    "normflows_sigmoid": lambda u: -torch.nn.functional.logsigmoid(u + 2.0),
    "normflows_sigmoid_inv": lambda u: torch.nn.functional.logsigmoid(u + 2.0),
    "zuko": lambda u: u / (1.0 + (u / np.log(1e-3)).abs()),
    "freia_glow_atan": lambda u: 2.0 * 0.636 * torch.atan(u),
    "freia_glow_tanh": lambda u: 2.0 * torch.tanh(u),
    "freia_glow_sigmoid": lambda u: 2.0 * (2.0 * torch.sigmoid(u) - 1.0),
}


@pytest.mark.parametrize("rule", EXPONENTS)
@pytest.mark.parametrize("name", RULES)
def test_scale_and_shift_agree_with_flow_libraries(name: str, rule: str) -> None:
    """Splines are not among our couplings, so the file's rqs arrays have no counterpart."""
    with np.load(FILES[name]) as archive:
        stored = {key: torch.from_numpy(array).double() for key, array in archive.items()}
    first, second = stored["x"][:, :4], stored["x"][:, 4:]
    raw = stored["raw_params"]
    log_det = torch.zeros(len(raw), dtype=torch.float64)
    if rule.startswith("freia"):
        u, shift = stored["freia_raw_params_first"].chunk(2, dim=-1)
        log_det += EXPONENTS[rule](u).sum(-1)
        first = scale_shift(first, EXPONENTS[rule](u), shift)
        u, shift = raw.chunk(2, dim=-1)
    elif rule == "nflows":
        shift, u = raw.chunk(2, dim=-1)
    else:
        shift, u = raw[:, 0::2], raw[:, 1::2]
    exponent = EXPONENTS[rule](u)
    moved = scale_shift(second, exponent, shift)
    expected = stored.get(f"{rule}_y2")
    expected = stored[f"{rule}_y"][:, 4:] if expected is None else expected
    close(moved, expected.numpy(), 1e-10)
    if f"{rule}_y" in stored:
        close(first, stored[f"{rule}_y"][:, :4].numpy(), 1e-10)
    close(log_det + exponent.sum(-1), stored[f"{rule}_logdet"].numpy(), 1e-10)
    close(undo_scale_shift(moved, exponent, shift), second.numpy(), 1e-10)


def test_every_family_of_files_is_at_hand() -> None:
    stems = [FILES[name].stem for name in (*LAYERS, *RULES)]
    for family in ("diff_v1_", "diff_v2_", "diff_baseline", "mta_", "qknorm_", "coupling_affine"):
        assert any(stem.startswith(family) for stem in stems), family
