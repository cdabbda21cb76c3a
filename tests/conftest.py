"""What every test relies on: one thread, a cache of its own, a study that trains in a second."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from runner.folder import RunFolder

settings.register_profile(
    "cqk", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("cqk")

SMALL_STUDY = """
[study]
name = "small"
question = "Does the machinery work?"

[data]
corpus = "path:{text}"

[model]
layers = 1
width = 16
heads = 2
head_dim = 8
feed_forward = 24

[train]
seq_len = 16
batch = 4
tokens = 768
lr = 1e-2
log_every = 2

[seeds]
values = [1, 2, 3]

[[arms]]
name = "plain"

[[arms]]
name = "coupled"
coupling = "affine"

[family]
metric = "loss"
split = "valid"
replicate_on = "test"

[[family.comparisons]]
name = "coupling"
treatment = "coupled"
baseline = "plain"
"""


@pytest.fixture(scope="session", autouse=True)
def _one_thread_and_own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep the processes of a test at one thread, and the user's cache untouched."""
    os.environ["OMP_NUM_THREADS"] = "1"
    if "CQK_CACHE_DIR" not in os.environ:
        os.environ["CQK_CACHE_DIR"] = str(tmp_path_factory.mktemp("cache"))
    try:
        import torch
    except ModuleNotFoundError:
        return
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def small_text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text of 12 kB with some structure, the same on every machine."""
    rng = random.Random(20240607)
    words = "seed arm loss query key value token head layer test family verdict".split()
    lines = (" ".join(rng.choices(words, k=9)) for _ in range(200))
    path = tmp_path_factory.mktemp("text") / "small.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def small_study_toml(small_text: Path) -> str:
    """The small study as it stands in its file."""
    return SMALL_STUDY.format(text=small_text)


@pytest.fixture
def small_study(tmp_path: Path, small_study_toml: str) -> Callable[..., Path]:
    """Writes the small study, with texts replaced, and returns its path."""

    def write(*replacements: tuple[str, str], name: str = "small.toml") -> Path:
        text = small_study_toml
        for old, new in replacements:
            assert old in text, f"the small study has no {old!r}"
            text = text.replace(old, new)
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


@pytest.fixture
def strict_torch() -> Iterator[None]:
    """Set torch up as a run does, and leave it as it was."""
    import torch

    from runner import device

    device.prepare("cpu", 1, "strict")
    # A run leaves unwritten memory as it is; here it is NaN, so that nobody can read it unseen.
    torch.utils.deterministic.fill_uninitialized_memory = True
    yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture
def make_run(small_study: Callable[..., Path], tmp_path: Path) -> Callable[..., RunFolder]:
    """Makes the folder of one run of the small study, with other lines in [train]."""
    from runner.launch import create_folder
    from runner.study_run import read

    count = itertools.count()
    usual = ("lr = 1e-2", "log_every = 2")

    def making(train: str = "", seed: int = 1, arm: str = "coupled") -> RunFolder:
        lines = [train, *(line for line in usual if line.split()[0] not in train)]
        study = small_study(("\n".join(usual), "\n".join(lines)))
        plan = read(str(study), tmp_path / f"results{next(count)}")
        run = next(run for run in plan.runs if (run.arm, run.seed) == (arm, seed))
        return create_folder(plan.results, run)

    return making
