import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner import tokenizers

WIKITEXT = " \n = Title = \n \n a b <unk> , a \n"


@pytest.fixture(autouse=True)
def private_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CQK_CACHE_DIR", str(tmp_path))


@given(text=st.text(st.characters(exclude_categories=["Cs"])))
def test_bytes_are_the_utf8_bytes_and_come_back(text):
    byte = tokenizers.load("byte", "")
    ids = byte.encode(text)
    assert ids.tolist() == list(text.encode())
    assert byte.decode(ids) == text
    assert byte.decode(ids.astype(np.int64)) == text


def test_a_torn_character_is_shown_and_not_refused():
    byte = tokenizers.load("byte", "")
    assert byte.decode(byte.encode("é")[:1]) == "\ufffd"


def test_words_are_numbered_by_first_appearance_and_every_line_ends_once():
    word = tokenizers.load("word", WIKITEXT)
    assert word.vocabulary == ("<eos>", "=", "Title", "a", "b", "<unk>", ",")
    assert word.encode(WIKITEXT).tolist() == [0, 1, 2, 1, 0, 0, 3, 4, 5, 6, 3, 0]
    assert word.encode(WIKITEXT).size == len(WIKITEXT.split()) + WIKITEXT.count("\n")
    assert word.vocab_size == 7


words = st.lists(st.lists(st.sampled_from(["a", "b", ",", "é\xa0", "<unk>"])), min_size=1)


@given(lines=words)
def test_text_in_the_published_form_comes_back(lines):
    text = "".join(" " + "".join(f"{word} " for word in line) + "\n" for line in lines)
    word = tokenizers.load("word", text)
    assert word.decode(word.encode(text)) == text


def test_an_unknown_word_is_unk_as_published():
    word = tokenizers.load("word", WIKITEXT)
    assert word.encode(" zebra \n").tolist() == [5, 0]


def test_an_unknown_word_without_unk_is_named():
    word = tokenizers.load("word", " a \n")
    with pytest.raises(ValueError, match="the word 'zebra' is not in the train split"):
        word.encode(" a zebra \n")


@pytest.mark.parametrize(
    "text", ["", "a", " a", " a \n b", "a \n", " a\n", " a  b \n", " a \n\n", " a <eos> \n", "\n"]
)
def test_text_in_another_form_has_no_word_tokens(text):
    with pytest.raises(ValueError, match="the tokenizer word needs word-level WikiText"):
        tokenizers.load("word", text)


def test_the_identity_follows_the_vocabulary():
    first, second = (tokenizers.load("word", text) for text in (" a b \n", " b a \n"))
    assert first.sha256 == tokenizers.load("word", " a b a \n").sha256
    assert len({first.sha256, second.sha256, tokenizers.load("byte", "").sha256}) == 3


@pytest.mark.parametrize("name", ["bytes", "bpe", "bpe-", "bpe-4k", "bpe-0", "bpe--7", "BYTE", ""])
def test_an_unknown_name_is_answered_with_all(name):
    with pytest.raises(ValueError, match="use one of byte, bpe-N, gpt2, word"):
        tokenizers.load(name, "text")
