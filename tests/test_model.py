"""The transformer: its start, its loss, its groups, and what it refuses."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from runner import attention
from runner.attention.base import Cache
from runner.model import Transformer, build
from runner.presets import PRESETS, Sizes

torch.set_num_threads(1)
SIZES = Sizes(layers=2, width=22, heads=4, head_dim=6, feed_forward=31)
VOCABULARY = 29


def model(**settings: object) -> Transformer:
    return build(SIZES, **{"vocab_size": VOCABULARY, "seed": 1} | settings)


def busy(made: Transformer) -> Transformer:
    """Give the zero projections values, so that every block does something."""
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for parameter in made.parameters():
            if not parameter.any():
                parameter.normal_(0.0, 0.2, generator=generator)
    return made


def tokens(rows: int = 3, length: int = 11) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(2)
    x_bt, y_bt = torch.randint(VOCABULARY, (2, rows, length), generator=generator)
    return x_bt, y_bt


def state(made: Transformer) -> dict[str, torch.Tensor]:
    return dict(made.state_dict())


def test_a_seed_decides_every_parameter_and_nothing_else_does() -> None:
    torch.manual_seed(1)
    first = state(model())
    torch.manual_seed(2)
    second, other = state(model()), state(model(seed=2))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["embedding.weight"], other["embedding.weight"])


def test_arms_share_the_start_of_what_they_share_by_name() -> None:
    plain = state(model())
    for settings in ({"attention": "differential"}, {"coupling": "affine"}, {"attention": "gated"}):
        arm = state(model(**settings))
        shared = plain.keys() & arm.keys()
        assert "blocks.1.attention.query.weight" in shared
        assert all(torch.equal(plain[name], arm[name]) for name in shared)


def test_start_is_width_to_the_minus_half_with_silent_blocks() -> None:
    made = build(PRESETS["tiny"], vocab_size=251, seed=1)
    width = PRESETS["tiny"].width
    for name in ("embedding.weight", "blocks.0.attention.key.weight"):
        assert made.get_parameter(name).std().item() == pytest.approx(width**-0.5, rel=0.05)
    x_bt = torch.arange(13)[None]
    embedded = made.embedding(x_bt)
    expected = F.linear(F.rms_norm(embedded, (width,), eps=1e-6), made.embedding.weight)
    torch.testing.assert_close(made(x_bt), expected)


def test_loss_is_the_cross_entropy_of_the_logits() -> None:
    made, (x_bt, y_bt) = busy(model()).double(), tokens()
    y_bt[:, ::3] = -100
    expected = F.cross_entropy(made(x_bt).flatten(0, 1), y_bt.flatten())
    grads = torch.autograd.grad(expected, list(made.parameters()))
    loss = made.loss(x_bt, y_bt)
    torch.testing.assert_close(loss, expected, rtol=1e-12, atol=0)
    ours = torch.autograd.grad(loss, list(made.parameters()))
    for one, other in zip(ours, grads, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-13)
    nats_bt = made.token_nats(x_bt, y_bt)
    assert nats_bt.shape == y_bt.shape
    assert (nats_bt.sum() / (y_bt >= 0).sum()).item() == pytest.approx(loss.item(), rel=1e-12)


@pytest.mark.parametrize("name", ["standard", "differential", "multi_token"])
def test_checkpointed_blocks_give_the_same_gradients_and_keep_less(name: str) -> None:
    x_bt, y_bt = tokens()
    results, kept = [], []
    for checkpoint_blocks in (False, True):
        made = busy(model(attention=name, coupling="affine", checkpoint_blocks=checkpoint_blocks))
        sizes: list[int] = []
        with torch.autograd.graph.saved_tensors_hooks(
            lambda t, sizes=sizes: sizes.append(t.numel()) or t, lambda t: t
        ):
            loss = made.loss(x_bt, y_bt)
        loss.backward()
        results.append([loss, *(p.grad for p in made.parameters())])
        kept.append(sum(sizes))
    for one, other in zip(*results, strict=True):
        assert torch.equal(one, other)
    assert kept[1] < 0.5 * kept[0]


def test_groups_hold_every_parameter_once_by_what_it_is() -> None:
    made = model(attention="differential", coupling="affine")
    groups = made.parameter_groups()
    names = [name for group in groups.values() for name, _ in group]
    assert sorted(names) == sorted(name for name, _ in made.named_parameters())
    held = {group: {name.split(".")[-1] for name, _ in pairs} for group, pairs in groups.items()}
    assert held["slow"] == {"lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2"}
    assert held["decay"] == {"weight", "inner", "outer"}
    assert held["no_decay"] == {"weight", "inner_bias", "outer_bias"}
    assert "embedding.weight" in dict(groups["decay"])
    assert all(parameter.ndim >= 2 for _, parameter in groups["decay"])
    assert all(parameter.ndim == 1 for _, parameter in groups["no_decay"])


@pytest.mark.parametrize("name", attention.names())
def test_decoding_token_by_token_gives_the_same_logits(name: str) -> None:
    made, (x_bt, _) = busy(model(attention=name, coupling="affine")).double(), tokens()
    caches = made.caches()
    with torch.no_grad():
        logits = [made(x_bt[:, :4], caches=caches)]
        logits += [made(token, caches=caches) for token in x_bt[:, 4:].split(1, dim=1)]
        torch.testing.assert_close(torch.cat(logits, dim=1), made(x_bt), rtol=1e-9, atol=1e-9)
    assert all(isinstance(cache, Cache) and cache.tokens == x_bt.shape[1] for cache in caches)


def test_documents_reach_every_layer() -> None:
    made, (x_bt, y_bt) = busy(model()).double(), tokens(rows=1)
    documents_bt = (torch.arange(11) >= 4).int()[None]
    packed = made(x_bt, documents_bt=documents_bt)
    torch.testing.assert_close(packed[:, 4:], made(x_bt[:, 4:]), rtol=1e-9, atol=1e-9)
    expected = F.cross_entropy(packed[0], y_bt[0])
    loss = made.loss(x_bt, y_bt, documents_bt=documents_bt)
    torch.testing.assert_close(loss, expected, rtol=1e-12, atol=0)


def test_autocast_leaves_logits_and_loss_in_float32() -> None:
    made, (x_bt, y_bt) = busy(model(coupling="affine")), tokens()
    exact = made.loss(x_bt, y_bt).item()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits, loss = made(x_bt), made.loss(x_bt, y_bt)
    loss.backward()
    assert logits.dtype == loss.dtype == torch.float32
    assert loss.item() == pytest.approx(exact, rel=0.02)
    assert all(torch.isfinite(p.grad).all() for p in made.parameters())


def test_counts_are_the_real_ones() -> None:
    made, (x_bt, _) = model(attention="gated"), tokens(rows=1)
    assert made.parameter_count() == sum(p.numel() for p in made.parameters())
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as flops:
        made(x_bt)
    assert made.forward_flops(x_bt.shape[1]) == flops.get_total_flops()


@pytest.mark.parametrize("name", attention.names())
def test_every_method_learns(name: str) -> None:
    """A sequence that repeats is learnt in a few steps, gates and slow vectors moving too."""
    made = model(attention=name, coupling="affine")
    start = {n: p.detach().clone() for n, p in made.named_parameters()}
    optimizer = torch.optim.Adam(made.parameters(), lr=1e-2)
    x_bt = torch.arange(12).repeat(2, 2)
    losses = []
    for _ in range(12):
        loss = made.loss(x_bt[:, :-1], x_bt[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    assert all(not torch.equal(p, start[n]) for n, p in made.named_parameters())


def test_meta_models_count_without_memory() -> None:
    made = build(PRESETS["455m"], vocab_size=50_257, device="meta")
    assert made.parameter_count() == 454_166_528
    assert all(parameter.is_meta for parameter in made.parameters())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"attention": "diferential"}, "unknown attention 'diferential': did you mean 'different"),
        ({"coupling": "afine"}, "unknown coupling 'afine': did you mean 'affine'?"),
        ({"attention_options": {"heads": 3}}, "heads\n"),
        ({"coupling": "affine", "coupling_options": {"hidden": -1}}, "greater than 0"),
        ({"attention": "grouped", "attention_options": {"kv_heads": 3}}, "must divide the 4 query"),
        ({"attention": "differential", "attention_options": {"kv_heads": 3}}, "the 2 differential"),
        ({"attention": "differential_v2", "attention_options": {"kv_heads": 8}}, "the 4 heads, so"),
        ({"attention": "multi_token", "attention_options": {"group": 3}}, "group must divide"),
        (
            {"attention": "multi_token", "attention_options": {"kernel_layers": [0, 2]}},
            "must lie below the 2 layers, got [0, 2]",
        ),
        (
            {"attention": "multi_token", "attention_options": {"group": 2, "mix_after": "none"}},
            "only mix_after 'grouped' reads `group`",
        ),
        (
            {"attention": "qk_norm", "attention_options": {"form": "l2", "scale": 1.0}},
            "form 'l2' learns its scale",
        ),
        ({"attention": "qk_norm", "attention_options": {"length": 9}}, "only form 'l2' reads"),
        ({"attention": "latent", "attention_options": {"rotary_dim": 3}}, "must be even"),
    ],
)
def test_what_cannot_be_built_is_refused_in_words(settings: dict, message: str) -> None:
    with pytest.raises(ValueError, match=r"\w") as refusal:
        model(**settings)
    assert message in str(refusal.value)


def test_latent_attention_counts_as_published() -> None:
    """One layer at the released sizes of DeepSeek-V3 owns 187,107,328 parameters."""
    sizes = Sizes(layers=1, width=7168, heads=128, head_dim=128, feed_forward=1)
    options = {"query_rank": 1536, "kv_rank": 512, "rotary_dim": 64}
    made = build(sizes, vocab_size=1, attention="latent", attention_options=options, device="meta")
    assert made.blocks[0].attention.parameter_count() == 187_107_328
    assert made.blocks[0].attention.cache_floats_per_token() == 512 + 64
