import json
import os

import pytest
import torch

from runner.checkpoint import Checkpoints, named_tensors, restore
from runner.writing import CannotWrite

TENSORS = {"model.a": torch.arange(7.0), "optimizer.step.a": torch.tensor(3.0)}


@pytest.fixture
def checkpoints(tmp_path):
    return Checkpoints(tmp_path / "checkpoint")


def test_what_was_saved_is_loaded_bit_for_bit(checkpoints):
    odd = torch.tensor([float("nan"), float("inf"), -0.0, 1e-45, 3.1])
    strided = torch.arange(12.0).view(3, 4).T
    checkpoints.save(5, {"x": odd, "y": strided, "z": torch.tensor(2)}, {"note": [1, "two"]})
    found = checkpoints.latest()
    assert (found.step, found.state, found.passed_over) == (5, {"note": [1, "two"]}, [])
    assert found.tensors["x"].numpy().tobytes() == odd.numpy().tobytes()
    assert torch.equal(found.tensors["y"], strided)
    assert found.tensors["z"].dtype == torch.int64


def test_none_was_saved_yet(checkpoints):
    assert checkpoints.latest() is None


def test_the_last_two_are_kept(checkpoints):
    for step in (3, 20, 100, 1000):
        checkpoints.save(step, TENSORS, {})
    names = sorted(path.name for path in checkpoints.folder.iterdir())
    assert names == ["step-000000100", "step-000001000"]
    assert checkpoints.latest().step == 1000
    assert checkpoints.at(100).step == 100


@pytest.mark.parametrize("cut", [0, 1, 7, 8, 9, 60, -1])
def test_a_truncated_one_is_passed_over_at_any_length(checkpoints, cut):
    checkpoints.save(1, TENSORS, {})
    checkpoints.save(2, TENSORS, {})
    for name in ("tensors.safetensors", "state.json"):
        path = checkpoints.folder / "step-000000002" / name
        whole = path.read_bytes()
        path.write_bytes(whole[:cut])
        found = checkpoints.latest()
        assert (found.step, found.passed_over) == (1, ["step-000000002"])
        path.write_bytes(whole)
    assert checkpoints.latest().step == 2


def test_one_that_was_renamed_or_edited_is_passed_over(checkpoints):
    checkpoints.save(1, TENSORS, {})
    checkpoints.save(2, TENSORS, {})
    (checkpoints.folder / "step-000000002").rename(checkpoints.folder / "step-000000009")
    assert checkpoints.latest().step == 1
    state = checkpoints.folder / "step-000000001" / "state.json"
    record = json.loads(state.read_text(encoding="utf-8"))
    state.write_text(json.dumps([record]), encoding="utf-8")
    assert checkpoints.latest() is None


def test_a_pickle_is_never_loaded(checkpoints, tmp_path):
    class Bomb:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "executed"),))

    checkpoints.save(1, TENSORS, {})
    torch.save(Bomb(), checkpoints.folder / "step-000000001" / "tensors.safetensors")
    assert checkpoints.latest() is None
    assert not (tmp_path / "executed").exists()


def test_what_a_kill_left_half_written_is_removed_by_the_next(checkpoints):
    left = checkpoints.folder / ".writing-000000003"
    left.mkdir(parents=True)
    (left / "tensors.safetensors").write_bytes(b"half")
    assert checkpoints.latest() is None
    checkpoints.save(4, TENSORS, {})
    assert [path.name for path in checkpoints.folder.iterdir()] == ["step-000000004"]


def test_a_failed_write_leaves_the_last_one_and_no_rubbish(checkpoints, monkeypatch):
    checkpoints.save(1, TENSORS, {})

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("runner.checkpoint.json.dump", full)
    with pytest.raises(CannotWrite, match=r"No space left on device.*there is kept"):
        checkpoints.save(2, TENSORS, {})
    assert [path.name for path in checkpoints.folder.iterdir()] == ["step-000000001"]
    assert checkpoints.latest().step == 1


def test_one_that_could_not_be_read_is_replaced_by_the_same_step(checkpoints):
    checkpoints.save(1, TENSORS, {})
    (checkpoints.folder / "step-000000001" / "state.json").write_text("{", encoding="utf-8")
    checkpoints.save(1, TENSORS, {"again": True})
    assert checkpoints.latest().state == {"again": True}


def two_layers():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Linear(5, 2))


def optimizer_of(model):
    vectors, matrices = (
        [p for p in model.parameters() if (p.ndim < 2) == is_vector] for is_vector in (True, False)
    )
    groups = [{"params": vectors, "weight_decay": 0.0}, {"params": matrices, "weight_decay": 0.5}]
    return torch.optim.AdamW(groups, lr=0.1)


def advance(model, optimizer, steps):
    for step in range(steps):
        torch.manual_seed(step)
        model(torch.randn(4, 3)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def test_model_and_optimizer_go_on_as_if_nothing_had_happened(checkpoints):
    model = two_layers()
    optimizer = optimizer_of(model)
    advance(model, optimizer, 5)
    checkpoints.save(5, named_tensors(model, optimizer), {})
    again = two_layers()
    optimizer_again = optimizer_of(again)
    restore(again, optimizer_again, checkpoints.latest().tensors)
    advance(model, optimizer, 3)
    advance(again, optimizer_again, 3)
    for one, other in zip(model.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)


def test_optimizer_state_goes_by_parameter_name_not_by_order():
    model = two_layers()
    optimizer = optimizer_of(model)
    advance(model, optimizer, 2)
    tensors = named_tensors(model, optimizer)
    assert "optimizer.exp_avg.0.weight" in tensors
    assert tensors["optimizer.exp_avg.1.bias"].shape == (2,)
    reversed_groups = torch.optim.AdamW(list(model.parameters())[::-1], lr=0.1)
    restore(model, reversed_groups, tensors)
    last = reversed_groups.state[model[1].bias]["exp_avg"]
    assert torch.equal(last, tensors["optimizer.exp_avg.1.bias"])
