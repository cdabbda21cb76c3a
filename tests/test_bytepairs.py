import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import decoders, models, pre_tokenizers, trainers

from runner import bytepairs, pydocs
from runner.tokenizers import load


@pytest.fixture(scope="module", autouse=True)
def private_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("CQK_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def text():
    return pydocs.splits()["test"]


@pytest.fixture(scope="module")
def learned(text):
    return load("bpe-509", text)


def hugging_face(text, vocab_size):
    """The encoding that the library which learns the merges builds of them by itself."""
    encoding = tokenizers.Tokenizer(models.BPE())
    encoding.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    encoding.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    encoding.train_from_iterator(
        [text], trainers.BpeTrainer(vocab_size=vocab_size, initial_alphabet=alphabet)
    )
    return encoding


@pytest.mark.parametrize("vocab_size", [257, 509, 2003])
def test_ids_are_those_of_the_library_that_learned_the_merges(text, vocab_size):
    ours, theirs = load(f"bpe-{vocab_size}", text), hugging_face(text, vocab_size)
    for sample in (
        text,
        pydocs.splits()["valid"],
        " \t\n\r\x00 Zürich 漢字 🏳️‍🌈 it'll've  \n\n 1234.5e6",
    ):
        assert ours.encode(sample).tolist() == theirs.encode(sample).ids
    assert ours.vocab_size == theirs.get_vocab_size() == vocab_size


@given(sample=st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_comes_back(learned, sample):
    ids = learned.encode(sample)
    assert learned.decode(ids) == sample
    assert ids.size == 0 or ids.max() < learned.vocab_size


def test_markers_of_other_models_are_plain_text(learned):
    for sample in ("<|endoftext|>", "<unk>", "<|fim_prefix|>"):
        assert learned.decode(learned.encode(sample)) == sample
        assert learned.encode(sample).size > 1


LEARN = """
import sys
from runner.tokenizers import load
print(load("bpe-509", sys.stdin.read()).sha256)
"""


@pytest.mark.parametrize("threads", ["1", "2"])
def test_another_process_learns_the_same_tokens(text, learned, tmp_path, threads):
    environment = {**os.environ, "CQK_CACHE_DIR": str(tmp_path), "RAYON_NUM_THREADS": threads}
    run = subprocess.run(
        [sys.executable, "-X", "utf8", "-c", LEARN],
        env=environment,
        input=text,
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert run.stdout.strip() == learned.sha256


def test_the_second_load_learns_nothing_and_a_damaged_file_is_learned_again(
    text, learned, tmp_path, monkeypatch
):
    monkeypatch.setenv("CQK_CACHE_DIR", str(tmp_path))
    assert load("bpe-509", text) == learned
    with monkeypatch.context() as patched:
        patched.setattr(bytepairs, "_learn", lambda *_: pytest.fail("learned again"))
        assert load("bpe-509", text) == learned
    (path,) = (tmp_path / "tokenizers").glob("*[0-9a-f]")
    path.write_bytes(path.read_bytes()[:-1])
    assert load("bpe-509", text) == learned


def test_the_train_split_decides(text, learned):
    assert load("bpe-509", text[: len(text) // 2]).sha256 != learned.sha256
    assert load("bpe-503", text).sha256 != learned.sha256


def test_a_text_too_short_to_teach_so_much_is_refused_with_what_it_can():
    with pytest.raises(ValueError, match=r"bpe-509: .*only 258 tokens to learn: use bpe-258"):
        load("bpe-509", "ab " * 9)
    assert load("bpe-258", "ab " * 9).tokens[256:] == (b"ab", b" ab")


@pytest.mark.parametrize("n", [1, 7, 255, 256])
def test_fewer_tokens_than_bytes_and_a_merge_are_refused(n):
    with pytest.raises(ValueError, match=rf"bpe-{n} has no room for merges"):
        load(f"bpe-{n}", "text")


def test_gpt2_without_file_and_network_says_what_to_place(tmp_path, monkeypatch):
    monkeypatch.setenv("CQK_DATA_DIR", str(tmp_path))

    def fail(address, sha256):
        raise ConnectionError("no network")

    monkeypatch.setattr(bytepairs.tiktoken.load, "read_file_cached", fail)
    with pytest.raises(
        ValueError, match=r"could not download .*/vocab\.bpe \(ConnectionError\)"
    ) as caught:
        load("gpt2", "")
    assert str(caught.value).endswith(f"by hand as {tmp_path / 'gpt2' / 'vocab.bpe'}")
    assert bytepairs.GPT2_SHA256 in str(caught.value)


def test_a_file_that_is_not_gpt2s_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("CQK_DATA_DIR", str(tmp_path))
    (tmp_path / "gpt2").mkdir()
    (tmp_path / "gpt2" / "vocab.bpe").write_text("#version: 0.2\na b\n")
    with pytest.raises(ValueError, match=r"vocab\.bpe is not GPT-2's"):
        load("gpt2", "")


@pytest.fixture
def gpt2_folder():
    placed = os.environ.get("CQK_DATA_DIR")
    if not placed and os.environ.get("CQK_REQUIRE_DATA") == "1":
        pytest.fail("CQK_REQUIRE_DATA is 1 and CQK_DATA_DIR is not set")
    if not placed:
        pytest.skip("CQK_DATA_DIR is not set")
    return os.path.join(placed, "gpt2")


def test_gpt2_is_what_tiktoken_and_the_published_files_say(gpt2_folder, text):
    ours = load("gpt2", "")
    files = [os.path.join(gpt2_folder, name) for name in ("vocab.bpe", "encoder.json")]
    theirs = bytepairs.tiktoken.load.data_gym_to_mergeable_bpe_ranks(*files)
    assert {token: rank for rank, token in enumerate(ours.tokens)} == theirs
    assert ours.vocab_size == 50_257
    assert ours.encode("Hello world").tolist() == [15496, 995]
    sample = text + " \t\n\r\x00 Zürich 漢字 🏳️‍🌈 it'll've  \n\n 1234.5e6"
    reference = tokenizers.ByteLevelBPETokenizer(files[1], files[0], add_prefix_space=False)
    assert ours.encode(sample).tolist() == reference.encode(sample).ids


def test_gpt2_may_lie_in_tiktokens_own_cache(gpt2_folder, tmp_path, monkeypatch):
    here = load("gpt2", "")
    with open(os.path.join(gpt2_folder, "vocab.bpe"), "rb") as file:
        merges = file.read()
    key = hashlib.sha1(bytepairs.GPT2_ADDRESS.encode()).hexdigest()
    (tmp_path / key).write_bytes(merges)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("CQK_DATA_DIR")
    assert load("gpt2", "") == here


def test_ids_may_be_any_integers(learned):
    ids = learned.encode("the help")
    for dtype in (np.uint16, np.int64):
        assert learned.decode(ids.astype(dtype)) == "the help"
