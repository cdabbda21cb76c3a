import ast
import hashlib
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner import pydocs

PARTS = ("train", "valid", "test")
LONG = "This paragraph is long enough to count as a repetition wherever else it may turn up, is it"
TOPICS = f"topics = {{'b': 'Topic b.\\n\\n{LONG}', 'a': 'Topic a.'}}\n"


@pytest.fixture(scope="module", autouse=True)
def private_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("CQK_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def library(tmp_path, monkeypatch):
    """A standard library of our own, as (write a source, read the splits)."""

    def write(name, source):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)

    write("pydoc_data/topics.py", TOPICS)
    monkeypatch.setattr(pydocs.sysconfig, "get_paths", lambda: {"stdlib": str(tmp_path)})
    return write


def documents():
    return pydocs.documents(sorted(pydocs._sources(pydocs.library())))


def test_the_text_of_this_python_is_large_enough_and_the_held_out_parts_are_small():
    size = {part: len(text.encode()) for part, text in pydocs.splits().items()}
    assert 1_000_000 < size["train"] < 3_000_000
    for part in ("valid", "test"):
        assert pydocs.HELD_OUT_BYTES <= size[part] < 62_000


def test_no_paragraph_of_this_python_is_in_two_splits():
    def paragraphs(text):
        found = {" ".join(p.split()) for p in re.split(r"\n\s*\n", text)}
        return {p for p in found if len(p) >= pydocs.SHORTEST_REPEAT}

    train, valid, test = (paragraphs(pydocs.splits()[part]) for part in PARTS)
    assert min(len(train), len(valid), len(test)) > 100
    assert not train & valid
    assert not train & test
    assert not valid & test


def test_another_process_reads_the_same_text(tmp_path):
    source = (
        "import hashlib; from runner import pydocs\n"
        "text = repr(sorted(pydocs.splits().items()))\n"
        "print(hashlib.sha256(text.encode()).hexdigest())"
    )
    environment = {"PYTHONHASHSEED": "17", "CQK_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", source]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    here = repr(sorted(pydocs.splits().items()))
    assert run.stdout.strip() == hashlib.sha256(here.encode()).hexdigest()


def test_nothing_is_imported_or_run(library, tmp_path):
    library("trap.py", f'"""Read me."""\nopen({str(tmp_path / "sprung")!r}, "w")\nimport nothing')
    assert documents()["trap.py"] == "Read me."
    assert not (tmp_path / "sprung").exists()


def test_documents_hold_topics_and_docstrings_in_source_order(library):
    library(
        "pack/mod.py",
        '"""Module."""\n'
        "class A:\n"
        '    """Class.\n\n    Second."""\n'
        "    def f(self):\n"
        '        """Method."""\n'
        '        return "not a docstring"\n'
        "if 1:\n"
        "    async def g():\n"
        '        """Branch."""\n',
    )
    assert documents() == {
        "topics/a": "Topic a.",
        "topics/b": f"Topic b.\n\n{LONG}",
        "pack/mod.py": "Module.\n\nClass.\n\nSecond.\n\nMethod.\n\nBranch.",
    }


def test_tests_caches_and_separately_packaged_folders_are_left_out(library):
    for name in sorted(pydocs.LEFT_OUT - {"pydoc_data"}):
        library(f"{name}/mod.py", '"""Left out."""')
        library(f"kept/{name}/mod.py", '"""Left out too."""')
    assert set(documents()) == {"topics/a", "topics/b"}


def test_a_long_paragraph_is_kept_once_and_a_short_one_each_time(library):
    library("one.py", f'"""Short.\n\n{LONG}"""')
    library("two.py", f'"""Short.\n\n   {LONG.replace(" is ", "  is ")}"""')
    library("zoo.py", f'"""{LONG}"""')
    found = documents()
    assert found["one.py"] == f"Short.\n\n{LONG}"
    assert found["two.py"] == "Short."
    assert "zoo.py" not in found
    assert found["topics/b"] == "Topic b."


def test_a_source_with_an_old_escape_or_another_encoding_is_read_without_a_warning(library):
    library("old.py", '"""A \\d escape."""')
    Path(pydocs.library(), "latin.py").write_bytes(b'# coding: latin-1\n"""caf\xe9"""')
    found = documents()
    assert found["old.py"] == "A \\d escape."
    assert found["latin.py"] == "café"


def test_the_second_call_reads_no_source_and_a_changed_source_is_read_again(library, monkeypatch):
    first = pydocs.splits()
    with monkeypatch.context() as patched:
        patched.setattr(ast, "parse", lambda *_: pytest.fail("a source was read again"))
        assert pydocs.splits() == first
    library("new.py", '"""News."""')
    assert "News." in "".join(pydocs.splits().values())


def test_a_python_without_sources_is_refused_with_a_remedy(library):
    Path(pydocs.library(), "pydoc_data/topics.py").unlink()
    with pytest.raises(ValueError, match=r"needs the sources .*or another corpus"):
        pydocs.splits()


texts = st.dictionaries(
    st.text("abcdefgh/", min_size=1, max_size=9), st.text("xyzé", min_size=1), max_size=20
)


@given(texts=texts, scale=st.sampled_from([1, 97, 1009]))
def test_every_document_is_whole_in_exactly_one_split(texts, scale):
    texts = {name: f"<{name}:{text * scale}>" for name, text in texts.items()}
    parts = pydocs.split(texts)
    owner = {}
    for part, text in parts.items():
        for document in text.removesuffix("\n").split("\n\n\n") if text != "\n" else ():
            assert document not in owner
            owner[document] = part
    assert set(owner) == set(texts.values())
    for document, part in owner.items():
        assert part == "train" or len(document.encode()) <= pydocs.LONGEST_HELD_OUT_BYTES


def test_held_out_documents_are_drawn_by_the_hash_of_their_names_only():
    names = [f"mod{i}.py" for i in range(1009)]
    first = pydocs.split({name: f"{name} {'x' * 500}" for name in names})
    again = pydocs.split({name: f"{name} {'y' * 500}" for name in reversed(names)})
    for part in PARTS:
        assert re.findall(r"mod\d+", first[part]) == re.findall(r"mod\d+", again[part])
        assert len(re.findall(r"mod\d+", first[part])) > 90
