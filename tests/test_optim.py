import math

import pytest
import torch

from runner import attention
from runner.model import build
from runner.optim import build_optimizer, learning_rate, set_learning_rate
from runner.presets import Sizes
from runner.settings import Train


def schedule(**settings):
    return Train(**{"seq_len": 1, "tokens": 200, "batch": 1, "lr": 0.5, **settings})


@pytest.mark.parametrize("warmup", [0.0, 0.01, 0.05, 0.37, 0.99])
def test_the_rate_rises_to_its_peak_and_falls_to_its_floor(warmup):
    train = schedule(warmup_fraction=warmup, final_lr_fraction=0.2)
    rates = [learning_rate(step, train) for step in range(train.steps)]
    top = rates.index(max(rates))
    assert max(rates) == 0.5
    assert rates[:top] == sorted(rates[:top])
    assert rates[top:] == sorted(rates[top:], reverse=True)
    assert min(rates) > 0
    if round(warmup * train.steps) < train.steps - 1:
        assert rates[-1] == pytest.approx(0.1, abs=1e-15)


def test_the_cosine_is_the_published_one():
    train = schedule(warmup_fraction=0.0, final_lr_fraction=0.0)
    for step in range(train.steps):
        expected = 0.25 * (1 + math.cos(math.pi * step / 199))
        assert learning_rate(step, train) == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_a_run_of_hardly_any_steps_has_a_rate(steps):
    train = schedule(tokens=steps)
    assert all(0 < learning_rate(step, train) <= 0.5 for step in range(steps))


@pytest.fixture
def model():
    sizes = Sizes(layers=1, width=8, heads=2, head_dim=4, feed_forward=12)
    return build(sizes, vocab_size=11, coupling="affine", seed=3)


def test_every_parameter_is_in_exactly_one_group_and_only_matrices_decay(model):
    optimizer = build_optimizer(model, schedule(weight_decay=0.3))
    grouped = [id(p) for group in optimizer.param_groups for p in group["params"]]
    assert sorted(grouped) == sorted(id(p) for p in model.parameters())
    for group in optimizer.param_groups:
        if group["weight_decay"]:
            assert group["weight_decay"] == 0.3
            assert all(parameter.ndim >= 2 for parameter in group["params"])


def test_slow_parameters_learn_at_a_tenth(model):
    optimizer = build_optimizer(model, schedule())
    set_learning_rate(optimizer, 0.04)
    slow = {id(p) for _, p in model.parameter_groups()["slow"]}
    for group in optimizer.param_groups:
        is_slow = {id(p) in slow for p in group["params"]}
        assert is_slow in ({True}, {False})
        assert group["lr"] == pytest.approx(0.004 if is_slow == {True} else 0.04)


def test_a_step_is_adamw_of_the_published_algorithm(model):
    train = schedule(lr=0.1, weight_decay=0.2, beta1=0.8, beta2=0.9)
    optimizer = build_optimizer(model, train)
    weight = model.embedding.weight
    before = weight.detach().double().clone()
    first, second = torch.zeros_like(before), torch.zeros_like(before)
    torch.manual_seed(0)
    for step in (1, 2):
        gradient = torch.randn_like(weight)
        weight.grad = gradient.clone()
        optimizer.step()
        first = 0.8 * first + 0.2 * gradient.double()
        second = 0.9 * second + 0.1 * gradient.double() ** 2
        before *= 1 - 0.1 * 0.2
        root = (second / (1 - 0.9**step)).sqrt() + 1e-8
        before -= 0.1 * first / (1 - 0.8**step) / root
    torch.testing.assert_close(weight.detach().double(), before, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", attention.names())
def test_queries_and_keys_learn_at_a_multiple_of_the_rate_and_nothing_else_does(name):
    sizes = Sizes(layers=2, width=12, heads=2, head_dim=6, feed_forward=12)
    made = build(sizes, vocab_size=11, attention=name, coupling="affine", seed=3)
    optimizer = build_optimizer(made, schedule(qk_lr_factor=2.0))
    set_learning_rate(optimizer, 0.04)
    rate = {id(p): group["lr"] for group in optimizer.param_groups for p in group["params"]}
    plain = build_optimizer(made, schedule())
    set_learning_rate(plain, 0.04)
    usual = {id(p): group["lr"] for group in plain.param_groups for p in group["params"]}
    assert sorted(rate) == sorted(usual) == sorted(id(p) for p in made.parameters())
    faster = {n for n, p in made.named_parameters() if rate[id(p)] != usual[id(p)]}
    made_of = {"query", "key"}
    wanted = {f"blocks.{i}.attention.{part}.weight" for i in range(2) for part in made_of}
    assert faster == wanted
    for parameter_name, parameter in made.named_parameters():
        times = 2.0 if parameter_name in wanted else 1.0
        assert rate[id(parameter)] == pytest.approx(times * usual[id(parameter)])


def test_a_low_rank_query_speeds_up_both_of_its_factors():
    sizes = Sizes(layers=1, width=12, heads=2, head_dim=6, feed_forward=12)
    options = {"query_rank": 5}
    made = build(sizes, vocab_size=11, attention="latent", attention_options=options, seed=3)
    optimizer = build_optimizer(made, schedule(qk_lr_factor=0.5))
    names = {id(p): n for n, p in made.named_parameters()}
    slower = {
        names[id(p)] for g in optimizer.param_groups for p in g["params"] if g["lr_factor"] == 0.5
    }
    parts = ("query_down", "query_up", "key")
    assert slower == {f"blocks.0.attention.{part}.weight" for part in parts}
