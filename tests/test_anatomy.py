"""What the heads do: against the maps themselves, and nothing where a method cannot be read."""

import pytest
import torch

from runner import attention, coupling
from runner.anatomy import FIRST_POSITION, Coupled, anatomy, of_coupling
from runner.diagnostics import maps
from runner.model import build, fill
from runner.presets import Sizes

SIZES = Sizes(layers=2, width=24, heads=4, head_dim=6, feed_forward=16)
IDS = torch.randint(0, 40, (3, 13), generator=torch.Generator().manual_seed(2))
HALF_STEPS = {"affine", "uncoupled"}


def trained_look(model, seed=5):
    """Give every parameter a value that is neither zero nor its start."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return model


def coupled(name, options, heads=4, kv_heads=2, size=3, dtype=torch.float64):
    kind = coupling.load(name)
    built = kind(kind.Options(**options), heads=heads, kv_heads=kv_heads, head_dim=size).to(dtype)
    fill(built, seed=1)
    return trained_look(built)


def pair(heads=4, kv_heads=2, size=3, tokens=5, dtype=torch.float64):
    generator = torch.Generator().manual_seed(7)
    return tuple(
        torch.randn(2, n, tokens, size, generator=generator, dtype=dtype) for n in (heads, kv_heads)
    )


@pytest.mark.parametrize("name", [n for n in coupling.names() if n != "none"])
@pytest.mark.parametrize("kind", ["standard", "grouped", "latent"])
def test_at_the_start_nothing_is_moved_and_every_ratio_is_as_before(name, kind):
    model = build(SIZES, vocab_size=40, attention=kind, coupling=name, seed=1)
    for heads in anatomy(model, IDS):
        assert {"drift_query", "drift_key"} <= heads.keys()
        for quantity, values in heads.items():
            if quantity.startswith(("drift", "exponent", "shift", "log_det", "inverse_error")):
                assert not values.any(), quantity
        for side in ("query", "key"):
            assert torch.equal(heads[f"pr_{side}"], heads[f"pr_{side}_coupled"])
        assert ("exponent_key" in heads) == (name in HALF_STEPS)
        assert ("log_det" in heads) == coupling.load(name).invertible


@pytest.mark.parametrize("name", attention.names())
def test_without_a_coupling_there_is_no_drift_and_no_ratio_after_it(name):
    model = trained_look(build(SIZES, vocab_size=40, attention=name, seed=1))
    known = {"pr_query", "pr_key", "effective_rank", "energy_rank_99", "sink_weight",
             "entropy_sink", "entropy_content"}  # fmt: skip
    missing = {
        "latent": known - {"pr_query", "pr_key"},
        "linear": {"sink_weight", "entropy_sink", "entropy_content"},
    }
    for heads in anatomy(model, IDS):
        assert set(heads) == known - missing.get(name, set())
        assert all(values.isfinite().all() for values in heads.values())


def test_a_trained_coupling_has_drift_and_its_inverse_a_small_error():
    model = trained_look(build(SIZES, vocab_size=40, coupling="affine", seed=1))
    for heads in anatomy(model, IDS):
        for quantity in ("drift_query", "drift_key", "exponent_query", "exponent_key"):
            assert (heads[quantity] > 1e-3).all()
        assert (heads["inverse_error_query"] < 1e-5).all()
        assert not torch.equal(heads["pr_query"], heads["pr_query_coupled"])


@pytest.mark.parametrize("options", [{}, {"pairs": 2, "bound": 0.5}])
@pytest.mark.parametrize("kv_heads", [4, 2])
def test_the_log_determinant_is_that_of_the_jacobian(options, kv_heads):
    built = coupled("affine", options, kv_heads=kv_heads)
    before = pair(kv_heads=kv_heads, tokens=2)
    found = of_coupling(built, Coupled(before, built.forward_naive(*before)))["log_det"]
    group, size = 4 // kv_heads, 3
    for g in range(kv_heads):
        expected = []
        for b in range(2):
            for t in range(2):

                def moved(flat, b=b, t=t, g=g):
                    q, k = (x[b : b + 1, :, t : t + 1].clone() for x in before)
                    ours = flat.view(-1, size)
                    q[0, g * group : (g + 1) * group, 0] = ours[:-1]
                    k[0, g, 0] = ours[-1]
                    q, k = built.forward_naive(q, k)
                    return torch.cat(
                        (q[0, g * group : (g + 1) * group, 0].flatten(), k[0, g, 0].flatten())
                    )

                queries = before[0][b, g * group : (g + 1) * group, t].flatten()
                start = torch.cat((queries, before[1][b, g, t]))
                jacobian = torch.autograd.functional.jacobian(moved, start)
                expected.append(torch.linalg.slogdet(jacobian).logabsdet)
        assert float(found[g].detach()) == pytest.approx(
            float(torch.stack(expected).mean()), abs=1e-9
        )


def test_a_symplectic_map_keeps_volume_and_moves_all_the_same():
    built = coupled("symplectic", {"steps": 2})
    before = pair()
    found = of_coupling(built, Coupled(before, built(*before)))
    assert not found["log_det"].any()
    assert (found["drift_query"] > 0).all()
    assert (found["inverse_error_key"] < 1e-12).all()
    assert "exponent_key" not in found


@pytest.mark.parametrize("name", sorted(HALF_STEPS))
def test_exponent_and_shift_are_those_of_the_steps(name):
    built = coupled(name, {"pairs": 1})
    q, k = pair()
    moved_q, moved_k = built.forward_naive(q, k)
    found = of_coupling(built, Coupled((q, k), (moved_q, moved_k)))
    if name == "affine":
        read_k, read_q = built.mean_query(q), built.shared_key(moved_k)
    else:
        read_k, read_q = k, q
    for side, read in (("key", read_k), ("query", read_q)):
        exponent, shift = getattr(built, f"{side}_steps")[0].exponent_and_shift(read)
        for part, values in (("exponent", exponent), ("shift", shift)):
            expected = torch.stack([h.abs().mean() for h in values.unbind(1)])
            torch.testing.assert_close(found[f"{part}_{side}"], expected)
    assert ("log_det" in found) == (name == "affine")


def test_a_coupling_of_ones_own_needs_no_inverse_and_no_half_steps():
    class Doubled(coupling.load("none")):
        def forward(self, q_bhtd, k_bgtd):
            return 2.0 * q_bhtd, k_bgtd

        def with_log_det(self, q_bhtd, k_bgtd):
            raise NotImplementedError

        inverse = with_log_det

    built = Doubled(Doubled.Options(), heads=4, kv_heads=2, head_dim=3)
    before = pair()
    found = of_coupling(built, Coupled(before, built(*before)))
    assert set(found) == {"drift_query", "drift_key"}
    torch.testing.assert_close(found["drift_query"], torch.ones(4, dtype=torch.float64))
    assert not found["drift_key"].any()


def test_the_entropy_parts_are_those_of_the_maps_and_add_up():
    model = trained_look(build(SIZES, vocab_size=40, coupling="affine", seed=1))
    seen = []
    hooks = [
        block.attention.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
        for block in model.blocks
    ]
    model(IDS)
    for hook in hooks:
        hook.remove()
    found = anatomy(model, IDS)
    for heads, block, x_bte in zip(found, model.blocks, seen, strict=True):
        weights = maps(block.attention, x_bte, model.rotary)[:, :, FIRST_POSITION:].double()
        entropy = -(weights * weights.clamp(min=1e-300).log()).sum(-1).mean((0, 2))
        both = heads["entropy_sink"] + heads["entropy_content"]
        torch.testing.assert_close(both, entropy, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(
            heads["sink_weight"], weights[..., 0].mean((0, 2)), rtol=1e-5, atol=1e-7
        )


def test_rows_too_short_for_an_average_have_no_entropy():
    model = build(SIZES, vocab_size=40, seed=1)
    assert "entropy_sink" not in anatomy(model, IDS[:, :FIRST_POSITION])[0]
    assert "entropy_sink" in anatomy(model, IDS[:, : FIRST_POSITION + 1])[0]


@pytest.mark.parametrize("kv_heads", [4, 2])
@pytest.mark.parametrize("name", ["standard", "grouped", "qk_norm"])
def test_the_rank_is_of_the_projections_that_meet(name, kv_heads):
    options = {} if name == "standard" else {"kv_heads": kv_heads}
    model = build(SIZES, vocab_size=40, attention=name, attention_options=options, seed=1)
    trained_look(model)
    for heads, block in zip(anatomy(model, IDS), model.blocks, strict=True):
        w_q, w_k = (
            layer.weight.detach().double().unflatten(0, (-1, 6))
            for layer in (block.attention.query, block.attention.key)
        )
        for h in range(4):
            full = torch.linalg.svdvals(w_k[h // (4 // len(w_k))].T @ w_q[h])
            shares = (full / full.sum()).clamp(min=1e-300)
            expected = float((-(shares * shares.log()).sum()).exp())
            assert float(heads["effective_rank"][h]) == pytest.approx(expected, rel=1e-5)


def test_measuring_changes_neither_the_model_nor_the_random_streams():
    model = build(SIZES, vocab_size=40, attention="differential", coupling="affine", seed=1)
    model.train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state, logits = torch.get_rng_state(), model(IDS)
    first, again = anatomy(model, IDS), anatomy(model, IDS)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(model(IDS), logits)
    assert model.training
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    for one, other in zip(first, again, strict=True):
        assert one.keys() == other.keys()
        assert all(torch.equal(one[quantity], other[quantity]) for quantity in one)
