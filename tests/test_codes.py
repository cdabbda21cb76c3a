import numpy as np
import pytest
import torch

from runner.codes import give_codes
from runner.model import build
from runner.optim import build_optimizer
from runner.presets import Sizes
from runner.settings import Train
from runner.sharpness import Sharpness

SIZES = Sizes(layers=1, width=12, heads=2, head_dim=6, feed_forward=8)
TASK = Sharpness(vocabulary=40, group=6, pairs=3, angle_degrees=25.0)


@pytest.fixture
def coded():
    model = build(SIZES, vocab_size=40, seed=5)
    give_codes(model, TASK.codes(12, seed=1))
    return model


def test_coded_ids_get_their_code_and_all_others_what_is_learned(coded):
    ids = torch.arange(40)[None]
    seen = coded.embedding(ids)[0].detach().numpy()
    codes = TASK.codes(12, seed=1)
    assert np.allclose(seen[1:19], codes[1:19], atol=1e-6)
    assert np.array_equal(seen[19:], coded.embedding.weight.detach().numpy()[19:])
    assert np.array_equal(seen[0], coded.embedding.weight.detach().numpy()[0])


def test_training_leaves_the_angle_as_it_was(coded):
    optimizer = build_optimizer(coded, Train(seq_len=16, tokens=160, batch=2, lr=0.1))
    before = coded.embedding(torch.arange(1, 19)).detach().clone()
    for step in range(3):
        rows = TASK.draw(4, 16, 0, step)
        coded.loss(torch.from_numpy(rows.inputs_bt), torch.from_numpy(rows.labels_bt)).backward()
        optimizer.step()
        optimizer.zero_grad()
    assert torch.equal(coded.embedding(torch.arange(1, 19)), before)
    assert not torch.equal(coded.embedding.weight[1:19], before)  # the rows on the way out do move


def test_weights_are_named_saved_and_counted_as_without_codes(coded):
    plain = build(SIZES, vocab_size=40, seed=5)
    assert list(coded.state_dict()) == list(plain.state_dict())
    assert coded.parameter_count() == plain.parameter_count()
    weights = {name: tensor + 1.0 for name, tensor in plain.state_dict().items()}
    coded.load_state_dict(weights)
    assert torch.equal(coded.embedding.weight, weights["embedding.weight"])
    groups = {kind: [n for n, _ in named] for kind, named in coded.parameter_groups().items()}
    assert groups == {k: [n for n, _ in v] for k, v in plain.parameter_groups().items()}
