import hashlib
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner import corpora, data, tokenizers
from runner.data import Batches


@pytest.fixture(scope="module", autouse=True)
def private_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("CQK_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


class Counted:
    """Byte tokens that remember what they encoded, with room for ids above 16 bits."""

    name = "counted"

    def __init__(self, vocab_size=256):
        self.vocab_size = vocab_size
        self.sha256 = hashlib.sha256(b"%d" % vocab_size).hexdigest()
        self.encoded = []

    def encode(self, text):
        self.encoded.append(text)
        ids = np.frombuffer(text.encode(), dtype=np.uint8).astype(np.int64)
        return ids * (self.vocab_size - 1) // 255

    def decode(self, ids):
        raise NotImplementedError


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    for split, text in {"train": "one\ntwo é\n" * 11, "valid": "three\n", "test": "x"}.items():
        (tmp_path / f"{split}.txt").write_text(text)
    monkeypatch.setenv("CQK_CACHE_DIR", str(tmp_path / "cache"))
    return corpora.load(f"path:{tmp_path}")


@pytest.mark.parametrize(("vocab_size", "dtype"), [(256, "u2"), (65_536, "u2"), (65_537, "u4")])
def test_token_files_hold_the_ids_and_nothing_else(corpus, vocab_size, dtype):
    tokenizer = Counted(vocab_size)
    tokens = data.prepare(corpus, tokenizer)
    for split in corpora.SPLITS:
        ids = getattr(tokens, split)
        assert ids.dtype == np.dtype(dtype)
        assert ids.tolist() == tokenizer.encode(corpus.text[split]).tolist()
        assert tokens.n_tokens[split] == ids.size
        with pytest.raises(ValueError, match="read-only"):
            ids[0] = 0
    assert tokens.vocab_size == vocab_size
    assert tokens.n_bytes == corpus.n_bytes


def test_a_corpus_is_encoded_once_and_in_one_call_a_split(corpus):
    first, second = Counted(), Counted()
    data.prepare(corpus, first)
    data.prepare(corpus, second)
    assert sorted(first.encoded) == sorted(corpus.text.values())
    assert second.encoded == []


def test_the_identity_follows_corpus_and_tokenizer(corpus, tmp_path):
    tokens = data.prepare(corpus, Counted())
    (tmp_path / "test.txt").write_text("y")
    other = corpora.load(f"path:{tmp_path}")
    assert tokens.sha256 == data.prepare(corpus, Counted()).sha256
    several = [tokens, data.prepare(other, Counted()), data.prepare(corpus, Counted(300))]
    assert len({each.sha256 for each in several}) == 3
    assert [each.test[0] for each in several] == [120, 121, 120 * 299 // 255]


def test_a_torn_or_edited_token_file_is_made_again(corpus, tmp_path):
    whole = data.prepare(corpus, Counted()).train.tolist()
    (path,) = (tmp_path / "cache").rglob("train.bin")
    content = path.read_bytes()
    for damaged in (content[:-2], content[:70], b"", content[:99] + b"\x01" + content[100:]):
        path.write_bytes(damaged)
        tokenizer = Counted()
        assert data.prepare(corpus, tokenizer).train.tolist() == whole
        assert tokenizer.encoded == [corpus.text["train"]]


PREPARE = """
import sys, time
from runner import corpora, data, tokenizers
class Slow(tokenizers.Byte):
    def encode(self, text):
        with open(sys.argv[2], "a") as log:
            log.write(f"{len(text)}\\n")
        time.sleep(0.2)
        return super().encode(text)
tokens = data.prepare(corpora.load(sys.argv[1]), Slow())
print(tokens.sha256, tokens.train.sum(), tokens.valid.sum(), tokens.test.sum())
"""


def test_two_processes_at_once_encode_each_split_once(corpus, tmp_path):
    command = [sys.executable, "-c", PREPARE, corpus.name, str(tmp_path / "log")]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    first, second = (process.communicate()[0] for process in processes)
    assert first == second != ""
    lengths = sorted(len(corpus.text[split]) for split in corpora.SPLITS)
    assert sorted(map(int, (tmp_path / "log").read_text().split())) == lengths


def starts_of(batches, steps):
    """Where the windows of the first steps start, for tokens that are their own positions."""
    return np.concatenate([batches.at(step)[0][:, 0] for step in range(steps)])


sizes = st.tuples(st.integers(1, 13), st.integers(1, 7), st.integers(0, 200), st.integers(0, 2**40))


@given(sizes=sizes)
def test_an_epoch_holds_every_window_once_and_overlaps_by_one(sizes):
    seq_len, batch, extra, seed = sizes
    ids = np.arange(seq_len * (batch + 1) + 1 + extra)
    batches = Batches(ids, batch=batch, seq_len=seq_len, seed=seed)
    n_windows = batches.n_windows
    x_bt, y_bt = batches.at(3)
    assert x_bt.shape == y_bt.shape == (batch, seq_len)
    assert x_bt.dtype == y_bt.dtype == np.int64
    assert np.array_equal(y_bt, x_bt[:, :1] + np.arange(1, seq_len + 1))
    epochs = starts_of(batches, 3 * n_windows)[: 3 * n_windows].reshape(3, n_windows)
    for starts in epochs:
        assert np.array_equal(np.diff(np.sort(starts)), np.full(n_windows - 1, seq_len))
        assert starts.min() >= 0
        assert starts.max() + seq_len < ids.size
    assert ids.size - 1 - n_windows * seq_len < 2 * seq_len


def test_every_offset_and_every_token_has_its_turn():
    for n_tokens in range(7 * 13, 7 * 14):
        ids = np.arange(n_tokens)
        batches = Batches(ids, batch=1, seq_len=7, seed=11)
        epochs = starts_of(batches, 97 * batches.n_windows).reshape(97, -1)
        spare = n_tokens - 1 - 7 * batches.n_windows
        assert 6 <= spare <= 12
        assert set(epochs.min(axis=1)) == set(range(spare + 1))
        assert len({tuple(starts - starts.min()) for starts in epochs}) == 97
        scored = np.unique(epochs[:, :, None] + np.arange(1, 8))
        assert np.array_equal(scored, ids[1:])


def test_a_step_is_a_pure_function_of_seed_and_step():
    ids = np.random.default_rng(0).integers(0, 256, 4_001).astype(np.uint16)
    make = {"batch": 5, "seq_len": 17, "seed": 3}
    in_order, jumping = Batches(ids, **make), Batches(ids, **make)
    wanted = [in_order.at(step) for step in range(200)]
    np.random.seed(1)
    for step in np.random.permutation(200):
        np.random.rand(7)
        for got, want in zip(jumping.at(int(step)), wanted[step], strict=True):
            assert np.array_equal(got, want)


def test_the_fingerprint_follows_the_seed_and_the_text_and_the_number_of_steps():
    ids = np.random.default_rng(0).integers(0, 256, 4_001).astype(np.uint16)

    def fingerprint(ids=ids, steps=8, **changed):
        settings = {"batch": 5, "seq_len": 17, "seed": 3} | changed
        return Batches(ids, **settings).fingerprint(steps)

    assert fingerprint() == fingerprint(ids.astype(np.int32))
    several = [fingerprint(), fingerprint(ids[::-1]), fingerprint(steps=7), fingerprint(seed=4)]
    several += [fingerprint(batch=4), fingerprint(seq_len=16)]
    assert len(set(several)) == 6


def test_the_order_of_a_seed_never_changes_between_versions():
    # Recorded when the order was defined: another value means that every seed of every study
    # already run now stands for other batches.
    batches = Batches(np.arange(1_000), batch=4, seq_len=31, seed=7)
    assert starts_of(batches, 2).tolist() == [939, 753, 629, 908, 567, 350, 133, 71]


@pytest.mark.parametrize(
    ("n_tokens", "batch", "seq_len", "n_windows"),
    [(0, 1, 4, 0), (1, 1, 4, 0), (4, 1, 4, 0), (5, 2, 4, 1), (11, 2, 4, 1), (16, 4, 4, 3)],
)
def test_a_split_too_short_for_a_batch_is_refused(n_tokens, batch, seq_len, n_windows):
    with pytest.raises(
        ValueError, match=rf"{n_tokens} tokens of .* hold {n_windows} windows: take"
    ):
        Batches(np.zeros(n_tokens, np.uint16), batch=batch, seq_len=seq_len, seed=0)


def test_the_shortest_split_gives_its_one_window():
    x_bt, y_bt = Batches(np.arange(5), batch=1, seq_len=4, seed=0).at(10**6)
    assert x_bt.tolist() == [[0, 1, 2, 3]]
    assert y_bt.tolist() == [[1, 2, 3, 4]]


def test_byte_tokens_of_the_built_in_corpus_come_back_from_disk():
    corpus = corpora.load("pydocs")
    byte = tokenizers.load("byte", "")
    tokens = data.prepare(corpus, byte)
    assert tokens.n_tokens == corpus.n_bytes
    assert byte.decode(tokens.test) == corpus.text["test"]
