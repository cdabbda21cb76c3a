"""WikiText as published: the counts that papers print, from the files of ``CQK_DATA_DIR``."""

import lzma
import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from runner import corpora, data, hub, placed, tokenizers, wikitext

PLACED = os.environ.get("CQK_DATA_DIR")


@pytest.fixture(scope="module", autouse=True)
def private_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("CQK_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def published():
    """The folder that holds the published files; without it these tests have nothing to say."""
    if not PLACED and os.environ.get("CQK_REQUIRE_DATA") == "1":
        pytest.fail("CQK_REQUIRE_DATA is 1 and CQK_DATA_DIR is not set")
    if not PLACED:
        pytest.skip("CQK_DATA_DIR is not set")
    return Path(PLACED)


@pytest.fixture(scope="module")
def wikitext_2(published):
    return corpora.load("wikitext-2")


@pytest.fixture
def own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("CQK_DATA_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def offline(monkeypatch):
    def fetch(corpus, split):
        raise ConnectionError("no network")

    monkeypatch.setattr(hub, "fetch", fetch)


def test_word_counts_are_those_of_the_paper(wikitext_2):
    assert wikitext_2.n_words == {"train": 2_088_628, "valid": 217_646, "test": 245_569}
    assert wikitext_2.n_bytes == {"train": 10_797_148, "valid": 1_121_681, "test": 1_256_449}


def test_word_tokens_are_those_of_the_paper(wikitext_2):
    word = tokenizers.load("word", wikitext_2.text["train"])
    assert word.vocab_size == 33_278
    tokens = data.prepare(wikitext_2, word)
    assert tokens.n_tokens == wikitext_2.n_words
    unknown = word.encode(" <unk> \n")[0]
    counts = {s: int(np.sum(getattr(tokens, s) == unknown)) for s in corpora.SPLITS}
    assert counts == {"train": 54_625, "valid": 11_718, "test": 15_218}
    assert word.decode(tokens.valid) == wikitext_2.text["valid"]


def test_gpt2_tokens_of_wikitext_2(wikitext_2):
    tokens = data.prepare(wikitext_2, tokenizers.load("gpt2", ""))
    assert tokens.n_tokens == {"train": 2_448_382, "valid": 258_659, "test": 295_877}
    assert tokens.train.dtype == np.uint16


@pytest.mark.parametrize(("split", "n_tokens"), [("valid", 249_887), ("test", 286_221)])
def test_gpt2_tokens_of_the_raw_text(published, split, n_tokens):
    text = corpora.read_split("wikitext-2-raw", split)
    assert text == corpora.read_split("wikitext-103-raw", split)
    gpt2 = tokenizers.load("gpt2", "")
    assert len(gpt2.encode(text)) == n_tokens
    # The hub's rows joined by blank lines, the text behind many published perplexities.
    joined = "\n\n".join("" if line == " \n" else line for line in text.splitlines(keepends=True))
    assert len(gpt2.encode(joined)) == {"valid": 251_048, "test": 287_644}[split]


def test_wikitext_103_has_the_words_of_wikitext_2_and_fewer_unknown(published, wikitext_2):
    for split, n_unknown in (("valid", 1_657), ("test", 2_492)):
        text = corpora.read_split("wikitext-103", split)
        assert wikitext.count(text.encode())[1] == wikitext_2.n_words[split]
        assert text.split().count("<unk>") == n_unknown


def test_a_learned_encoding_gives_the_text_back(wikitext_2):
    encoding = tokenizers.load("bpe-4096", wikitext_2.text["train"])
    tokens = data.prepare(wikitext_2, encoding)
    assert encoding.decode(tokens.test) == wikitext_2.text["test"]
    # 2.1 M words of 5.2 bytes: a vocabulary of this size spends 3.5 bytes a token on its own text.
    assert 3.4 < wikitext_2.n_bytes["train"] / tokens.n_tokens["train"] < 3.7


def test_packed_and_plain_files_are_one_corpus(published, wikitext_2, own_folder):
    folder = own_folder / "wikitext-2"
    shutil.copytree(published / "wikitext-2", folder)
    for split in corpora.SPLITS:
        plain = folder / f"wiki.{split}.tokens"
        plain.write_bytes(wikitext_2.text[split].encode())
        if split != "valid":
            plain.with_name(f"{plain.name}.xz").write_bytes(
                lzma.compress(plain.read_bytes(), preset=0)
            )
            plain.unlink()
    assert corpora.load("wikitext-2").sha256 == wikitext_2.sha256


def test_crlf_line_ends_are_refused_by_name(published, wikitext_2, own_folder):
    path = own_folder / "wikitext-2" / "wiki.valid.tokens"
    path.parent.mkdir()
    path.write_bytes(wikitext_2.text["valid"].encode().replace(b"\n", b"\r\n"))
    with pytest.raises(
        ValueError, match=r"valid\.tokens is not the published .*1,125,441 bytes inst.*CRLF"
    ):
        corpora.read_split("wikitext-2", "valid")


def test_a_file_that_changes_in_use_is_refused(published, wikitext_2, own_folder):
    shutil.copytree(published / "wikitext-2", own_folder / "wikitext-2")
    corpus = corpora.load("wikitext-2")
    (own_folder / "wikitext-2" / "wiki.valid.tokens").chmod(0o644)
    with open(own_folder / "wikitext-2" / "wiki.valid.tokens", "ab") as file:
        file.write(b" \n")
    assert corpus.text["test"] == wikitext_2.text["test"]
    with pytest.raises(ValueError, match=r"valid\.tokens changed while it was in use"):
        corpus.text["valid"]


def test_the_hubs_rows_become_the_published_file(published, own_folder, tmp_path, monkeypatch):
    lines = placed.read(published / "wikitext-raw" / "wiki.valid.raw").decode().splitlines(True)
    rows = ["" if line == " \n" else line for line in lines]
    asked = []

    def download(repository, shard, *, repo_type, revision):
        asked.append((repository, shard, repo_type, revision))
        path = tmp_path / "shard.parquet"
        pyarrow.parquet.write_table(pyarrow.table({"text": rows}), path)
        return str(path)

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    monkeypatch.setenv("CQK_CACHE_DIR", str(tmp_path / "cache"))
    for _ in range(2):
        assert corpora.read_split("wikitext-2-raw", "valid") == "".join(lines)
    shard = "wikitext-2-raw-v1/validation-00000-of-00001.parquet"
    assert asked == [("Salesforce/wikitext", shard, "dataset", hub.REVISION)]
    monkeypatch.setenv("CQK_CACHE_DIR", str(tmp_path / "second"))
    rows[7] += " "
    with pytest.raises(ValueError, match=r"is not the published wiki\.valid\.raw"):
        corpora.read_split("wikitext-2-raw", "valid")
    assert not [path for path in (tmp_path / "second" / "files").rglob("*.raw") if path.is_file()]


def test_a_damaged_shard_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "shard.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"text": [" a \n"]}), path)
    monkeypatch.setattr("huggingface_hub.hf_hub_download", lambda *_, **__: str(path))
    with pytest.raises(OSError, match=r"00000-of-00002\.parquet arrived damaged; remove"):
        hub.fetch("wikitext-103-raw", "train")


@pytest.mark.parametrize("corpus", wikitext.FILES)
def test_without_file_and_network_the_sentence_says_what_to_place(corpus, own_folder, offline):
    with pytest.raises(ValueError, match=r"download .* failed \(ConnectionError\)") as caught:
        corpora.load(corpus)
    kind = "raw" if corpus.endswith("raw") else "tokens"
    place = own_folder / corpus / f"wiki.train.{kind}"
    assert str(caught.value).endswith(f"by hand as {place}")
    known = wikitext.FILES[corpus]["train"].sha256
    assert (known is None) or (known in str(caught.value))


@pytest.mark.parametrize(
    ("corpus", "content", "fault"),
    [
        ("wikitext-2", b" a \n", "36,718"),
        ("wikitext-103", b" a \n", "2 words instead of 103,227,021"),
        ("wikitext-103-raw", b" a \n", "1 lines instead of 1,801,350"),
        ("wikitext-2-raw", b"", "0 bytes instead of 10,940,747"),
    ],
)
def test_a_train_file_that_is_not_the_published_one_is_refused(
    corpus, content, fault, own_folder, offline
):
    place = own_folder / wikitext.places(corpus, "train")[0]
    place.parent.mkdir()
    place.write_bytes(content)
    with pytest.raises(ValueError, match=fault) as caught:
        corpora.load(corpus)
    assert str(place) in str(caught.value)
