import hashlib
import lzma

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner import corpora


@pytest.fixture(autouse=True)
def private_folders(tmp_path, monkeypatch):
    monkeypatch.setenv("CQK_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("CQK_DATA_DIR", raising=False)


@pytest.fixture
def data_folder(tmp_path, monkeypatch):
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("CQK_DATA_DIR", str(folder))
    return folder


@pytest.mark.parametrize("name", corpora.names())
def test_every_name_has_a_line_that_says_what_it_is(name):
    assert len(corpora.describe(name)) > 20
    assert "\n" not in corpora.describe(name)


def test_published_corpora_state_source_and_licence():
    for name in set(corpora.names()) - {"path:FILE"}:
        what, source, licence = corpora.describe(name).split(" | ")
        assert what
        assert source
        assert licence in {"PSF-2.0", "CC BY-SA 3.0", "public domain"}


@pytest.mark.parametrize("ask", [corpora.load, corpora.describe])
def test_an_unknown_name_is_answered_with_the_nearest_and_all(ask):
    with pytest.raises(ValueError, match=r"'wikitext2' \(did you mean wikitext-2\?\)") as caught:
        ask("wikitext2")
    for name in corpora.names():
        assert name in str(caught.value)


def test_pydocs_needs_no_file_and_counts_no_words():
    corpus = corpora.load("pydocs")
    assert corpus.n_words is None
    assert corpus.n_bytes == {s: len(corpus.text[s].encode()) for s in corpora.SPLITS}
    assert corpora.read_split("pydocs", "test") == corpus.text["test"]


def test_the_identity_is_what_sha256sum_prints_of_its_own_output(tmp_path):
    parts = {"train": "a é\n" * 7, "valid": "b\n", "test": "c"}
    for split, text in parts.items():
        (tmp_path / f"{split}.txt").write_bytes(text.encode())
    corpus = corpora.load(f"path:{tmp_path}")
    lines = [f"{hashlib.sha256(parts[s].encode()).hexdigest()}  {s}\n" for s in parts]
    assert corpus.sha256 == hashlib.sha256("".join(lines).encode()).hexdigest()
    assert dict(corpus.text) == parts
    (tmp_path / "test.txt").write_bytes(b"d")
    assert corpora.load(f"path:{tmp_path}").sha256 != corpus.sha256


def test_a_text_keeps_its_line_ends_and_may_be_packed(tmp_path):
    data = b"one\r\ntwo \x0b\x85\xc2\xa0\n".replace(b"\x85", b"") * 97
    (tmp_path / "text.txt").write_bytes(data)
    (tmp_path / "text.txt.xz").write_bytes(lzma.compress(data))
    plain = corpora.load(f"path:{tmp_path / 'text.txt'}")
    packed = corpora.load(f"path:{tmp_path / 'text.txt.xz'}")
    assert "".join(plain.text[s] for s in corpora.SPLITS).encode() == data
    assert packed.sha256 == plain.sha256


lines = st.lists(st.text("ab é漢", max_size=13), min_size=1, max_size=97)


@given(lines=lines, ends_in_newline=st.booleans())
def test_a_cut_loses_nothing_and_lies_at_the_first_line_end_after_its_share(lines, ends_in_newline):
    data = ("\n".join(lines) + "\n" * ends_in_newline).encode()
    line_ends = [i + 1 for i, byte in enumerate(data) if byte == ord("\n")]
    first, second = (
        min((end for end in line_ends if end >= len(data) * share // 100), default=len(data))
        for share in (90, 95)
    )
    if 0 < first < second < len(data):
        parts = corpora.cut(data, "the text")
        wanted = data[:first], data[first:second], data[second:]
        assert [parts[split].encode() for split in corpora.SPLITS] == list(wanted)
    else:
        with pytest.raises(ValueError, match="the text has too few lines"):
            corpora.cut(data, "the text")


def test_a_file_that_is_no_text_names_the_byte(tmp_path):
    (tmp_path / "text.txt").write_bytes(b"good\n" * 20 + b"\xff")
    with pytest.raises(ValueError, match=r"text\.txt is not UTF-8 text \(byte 100\)"):
        corpora.load(f"path:{tmp_path / 'text.txt'}")


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"no text file .*nowhere\.txt"):
        corpora.load(f"path:{tmp_path / 'nowhere.txt'}")


def test_a_folder_must_hold_three_texts(tmp_path):
    (tmp_path / "valid.txt").write_text("")
    with pytest.raises(ValueError, match=r"lacks train\.txt, test\.txt"):
        corpora.load(f"path:{tmp_path}")
    (tmp_path / "train.txt").write_text("a")
    (tmp_path / "test.txt").write_text("a")
    with pytest.raises(ValueError, match=r"valid\.txt is empty"):
        corpora.load(f"path:{tmp_path}")


def test_a_data_folder_that_does_not_exist_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("CQK_DATA_DIR", str(tmp_path / "gone"))
    with pytest.raises(ValueError, match=r"CQK_DATA_DIR names .*gone, which is no folder"):
        corpora.load("austen")


def test_a_file_nowhere_says_where_to_put_it(data_folder, tmp_path):
    sentence = (
        f"austen/austen.txt is neither in {data_folder} nor in {tmp_path / 'cache' / 'files'}, "
        "and it is not among the files we can download; place the published file "
        "(SHA-256 49e55f4936b4a0835f04c5d885f6f56cc19b6a55679df4164f91c49ba14e6992) "
        f"by hand as {data_folder / 'austen' / 'austen.txt'}"
    )
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the whole sentence is compared)
        corpora.load("austen")
    assert str(caught.value) == sentence


def test_a_wrong_or_torn_file_is_refused(data_folder):
    (data_folder / "austen").mkdir()
    (data_folder / "austen" / "austen.txt").write_text("another text\n" * 50)
    with pytest.raises(ValueError, match=r"austen\.txt is not the published file"):
        corpora.load("austen")
    (data_folder / "austen" / "austen.txt").unlink()
    (data_folder / "austen" / "austen.txt.xz").write_bytes(lzma.compress(b"a" * 999)[:-9])
    with pytest.raises(ValueError, match=r"austen\.txt\.xz is not a whole xz file"):
        corpora.load("austen")
