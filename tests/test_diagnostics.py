import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from runner import attention
from runner.attention.base import Shape
from runner.coupling.none import NoCoupling
from runner.diagnostics import maps, retrieval, split_entropy
from runner.layers import Rotary
from runner.model import build, fill
from runner.presets import Sizes
from runner.recall import Mqar

WITHOUT_MAPS = {"latent", "linear"}
SIZES = Sizes(layers=2, width=24, heads=4, head_dim=6, feed_forward=16)


def layer(name):
    kind = attention.load(name)
    shape = Shape(width=24, heads=4, head_dim=6, layer=1, layers=2)
    built = kind(shape, kind.Options(), lambda **heads: NoCoupling(NoCoupling.Options(), **heads))
    fill(built, 3)
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.add_(
                0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1))
            )
    return built


@pytest.mark.parametrize("name", sorted(set(attention.names()) - WITHOUT_MAPS))
def test_maps_weigh_the_values_as_the_method_itself_does(name):
    built, rotary = layer(name), Rotary()
    x_bte = torch.randn(2, 13, 24, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        weights = maps(built, x_bte, rotary)
        q, k = built.place(*built.project(x_bte), rotary, 0)
        v = built.split(built.value(x_bte))
        heads = built.score_naive(q, k, v, None)
    assert weights.shape[0] == 2
    assert weights.shape[2:] == (13, 13)
    assert torch.equal(weights, weights.tril())
    wide = v.unflatten(1, (-1, 2)).transpose(2, 3).flatten(3) if name == "differential" else v
    group = weights.shape[1] // wide.shape[1]
    again = weights @ wide.repeat_interleave(group, dim=1)
    torch.testing.assert_close(again, heads, rtol=1e-4, atol=1e-5)


def test_softmax_maps_are_probabilities_and_differences_are_not():
    x_bte = torch.randn(2, 13, 24, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        plain, difference = (maps(layer(n), x_bte, Rotary()) for n in ("standard", "differential"))
    torch.testing.assert_close(plain.sum(-1), torch.ones(2, 4, 13))
    assert plain.min() >= 0
    assert difference.min() < 0


@pytest.mark.parametrize("name", sorted(WITHOUT_MAPS))
def test_methods_without_maps_have_no_such_metrics(name):
    model = build(SIZES, vocab_size=40, attention=name, seed=1)
    assert retrieval(model, Mqar(vocabulary=40, pairs=3).draw(4, 20, 0)) == {}


shares = hnp.arrays(np.float64, st.integers(2, 9), elements=st.floats(0, 1e6)).filter(
    lambda w: w.sum() > 1e-3
)


@given(weights=shares)
def test_both_parts_add_up_to_the_entropy(weights):
    p = weights / weights.sum()
    entropy = -sum(x * math.log(x) for x in p if x > 0)
    sink, of_sink, of_content = (float(part) for part in split_entropy(torch.from_numpy(weights)))
    assert sink == pytest.approx(p[0], abs=1e-12)
    assert of_sink + of_content == pytest.approx(entropy, abs=1e-9)
    binary = -sum(x * math.log(x) for x in (p[0], 1 - p[0]) if x > 0)
    assert of_sink == pytest.approx(binary, abs=1e-9)
    rest = p[1:] / p[1:].sum() if p[1:].sum() else p[1:]
    within = -sum(x * math.log(x) for x in rest if x > 0)
    assert of_content == pytest.approx((1 - p[0]) * within, abs=1e-9)


class Pointed(torch.nn.Module):
    """Attention of two heads: one looks at given places, the other at the first token."""

    def __init__(self, places_bt):
        super().__init__()
        self.coupling, self.places_bt = (
            NoCoupling(NoCoupling.Options(), heads=2, kv_heads=2, head_dim=2),
            places_bt,
        )

    def forward(self, x_bte, rotary, cache=None, documents_bt=None):
        return torch.zeros_like(x_bte)

    def project(self, x_bte):
        q_bhtd = torch.zeros(len(x_bte), 2, x_bte.shape[1], 2)
        return q_bhtd, q_bhtd

    def place(self, q_bhtd, k_bgtd, rotary, offset):
        return q_bhtd, k_bgtd

    def score_naive(self, q_bhtd, k_bgtd, v_bgtv, documents_bt):
        tokens = q_bhtd.shape[2]
        looked = torch.nn.functional.one_hot(self.places_bt[: len(q_bhtd)], tokens).float()
        first = torch.zeros(tokens, dtype=torch.long)
        other = torch.nn.functional.one_hot(first, tokens).float().expand(len(q_bhtd), -1, -1)
        return torch.stack((0.75 * looked + 0.25 * other, other), 1) @ v_bgtv


def test_the_head_that_looks_at_the_pair_is_the_one_reported():
    rows = Mqar(vocabulary=40, pairs=3, order="shuffled").draw(10, 20, 0)
    model = build(
        Sizes(layers=2, width=4, heads=2, head_dim=2, feed_forward=4), vocab_size=40, seed=1
    )
    nowhere = torch.zeros(10, 20, dtype=torch.long)
    model.blocks[0].attention = Pointed(nowhere)
    model.blocks[1].attention = Pointed(torch.from_numpy(rows.found_bt).clamp(min=0))
    found = retrieval(model, rows)
    assert found["attention_relevant"] == pytest.approx(0.75)
    assert found["attention_sink"] == pytest.approx(0.25)
    binary = -0.25 * math.log(0.25) - 0.75 * math.log(0.75)
    assert found["entropy_sink"] == pytest.approx(binary, abs=1e-6)
    assert found["entropy_content"] == pytest.approx(0.0, abs=1e-6)
    assert found["entropy"] == pytest.approx(found["entropy_sink"] + found["entropy_content"])


@pytest.mark.parametrize("name", ["standard", "differential", "multi_token", "qk_norm"])
def test_an_untrained_model_attends_broadly_and_scoring_changes_nothing(name):
    model = build(SIZES, vocab_size=40, attention=name, coupling="affine", seed=1)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    rows = Mqar(vocabulary=40, pairs=3).draw(70, 20, 0)
    found = retrieval(model, rows)
    assert set(found) == {"attention_relevant", "attention_sink", "entropy", "entropy_sink",
                          "entropy_content"}  # fmt: skip
    assert 0.05 < found["attention_relevant"] < 0.5
    assert found["entropy"] > 1.0
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
    assert not model.blocks[0].attention._forward_pre_hooks
