"""The public generator's own rows, reproduced; files also come from CQK_REFERENCE_DIR."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from runner import zoology

FOLDERS = [Path(__file__).parent / "reference"]
if os.environ.get("CQK_REFERENCE_DIR"):
    FOLDERS.append(Path(os.environ["CQK_REFERENCE_DIR"]))
FILES = {f"{d.name}/{path.stem}": path for d in FOLDERS for path in sorted(d.glob("mqar_*.npz"))}


def drawn_as(name, stored):
    """Draw what a file holds, by the settings that the file holds."""
    number = {key: array.item() for key, array in stored.items() if array.ndim == 0}
    pairs, seed = number["num_kv_pairs"], number["seed"]
    if "embeddings" in stored:
        return zoology.continuous(
            stored["embeddings"],
            examples=len(stored["labels"]),
            pairs=pairs,
            passes=number["num_passes"],
            seed=seed,
        )
    settings = {
        "vocabulary": number["vocab_size"],
        "examples": number["num_examples"],
        "length": number["input_seq_len"],
        "pairs": pairs,
        "seed": seed,
        "gap_power": number.get("power_a", 0.01),
        "filler_seed": number["torch_seed"] if number["torch_seed"] >= 0 else None,
    }
    if "num_updates" in number:
        return zoology.forgetting(**settings, updates=number["num_updates"])
    if "compositional" in name:
        return zoology.compositional(**settings)
    return zoology.multi_query(**settings)


@pytest.mark.parametrize("name", FILES)
def test_every_number_is_the_published_generator_s(name):
    with np.load(FILES[name]) as archive:
        stored = dict(archive)
    torch.manual_seed(99)
    np.random.seed(99)
    inputs, labels = drawn_as(name, stored)
    assert np.array_equal(inputs, stored["inputs"])
    assert np.array_equal(labels, stored["labels"])
    # The same again: neither global generator has a part in it.
    assert all(map(np.array_equal, drawn_as(name, stored), (inputs, labels)))


def test_every_kind_of_file_is_at_hand():
    stems = {path.stem for path in FILES.values()}
    for kind in ("zero_fill", "random_fill", "forgetting", "compositional", "continuous"):
        assert any(kind in stem for stem in stems), kind


def test_the_known_fault_comes_along_a_reassigned_key_may_keep_its_value():
    inputs, _ = zoology.forgetting(
        vocabulary=40, examples=200, length=32, pairs=4, updates=2, seed=1
    )
    first = [dict(row[:8].reshape(4, 2).tolist()) for row in inputs]
    kept = [
        first[i][key] == value
        for i, row in enumerate(inputs)
        for key, value in row[8:12].reshape(2, 2).tolist()
    ]
    assert 0 < np.mean(kept) < 0.1
