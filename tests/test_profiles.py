import pytest

from runner import profiles
from runner.profiles import Profile
from runner.study_run import choose_profile


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Writes a profiles file into the current folder, or into the user's own."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "config" / "cqk").mkdir(parents=True)

    def write(text, *, own=False):
        path = tmp_path / "config" / "cqk" / "profiles.toml"
        (path if own else tmp_path / "here" / "cqk.profiles.toml").write_text(text, "utf-8")

    return write


LAB = """
[lab]
partition = "gpu"
time = "08:00:00"
gpus_per_run = 1
cpus_per_run = 4
mem = "16G"
max_parallel = 32
signal_s = 60
setup = ["module load cuda", "source venv/bin/activate"]
extra = { account = "abc", exclusive = true, nice = 5 }
"""


def test_a_profile_is_read_whole(place):
    place(LAB)
    lab = profiles.load("lab")
    assert (lab.executor, lab.partition, lab.time, lab.gpus_per_run) == (
        "slurm", "gpu", "08:00:00", 1,
    )  # fmt: skip
    assert lab.setup == ["module load cuda", "source venv/bin/activate"]
    assert lab.extra == {"account": "abc", "exclusive": True, "nice": 5}


def test_the_current_folder_goes_before_the_users_own_and_both_are_searched(place):
    place('[lab]\npartition = "near"')
    place('[lab]\npartition = "far"\n[home]\npartition = "own"', own=True)
    assert profiles.load("lab").partition == "near"
    assert profiles.load("home").partition == "own"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[lab]\npartion = 'x'", 'partion: unknown key; did you mean "partition"?'),
        ("[lab]\ncpus_per_run = 0", "cpus_per_run: input should be greater than 0"),
        ("[lab]\nexecutor = 'pbs'", "executor: input should be 'local' or 'slurm'"),
        ("[lba]\n", r"unknown profile 'lab' in .*; did you mean \"lba\"\?"),
        ("[lab\n", "is no readable TOML"),
        ("lab = 3", "lab"),
    ],
)
def test_a_faulty_profile_is_named_with_its_file(place, text, said):
    place(text)
    with pytest.raises(ValueError, match=said) as refused:
        profiles.load("lab")
    assert "cqk.profiles.toml" in str(refused.value)


def test_without_any_file_the_places_are_named(place):
    with pytest.raises(ValueError, match=r"cqk\.profiles\.toml or .*no profile is there"):
        profiles.load("lab")


def test_the_executor_follows_from_the_profile_unless_it_contradicts(place):
    place(LAB + '\n[desk]\nexecutor = "local"')
    assert choose_profile(None, None) == Profile(executor="local")
    assert choose_profile("slurm", None) == Profile(executor="slurm")
    assert choose_profile(None, "lab").executor == "slurm"
    assert choose_profile("slurm", "lab").partition == "gpu"
    assert choose_profile(None, "desk").executor == "local"
    with pytest.raises(ValueError, match="'lab' is for --executor slurm, not local"):
        choose_profile("local", "lab")
