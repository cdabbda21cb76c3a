import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from runner import cache


def built(path, content):
    return cache.content(cache.sealed(path, lambda: content))


def test_folder_is_the_named_one_then_the_xdg_one(monkeypatch):
    monkeypatch.setenv("CQK_CACHE_DIR", "/a/b")
    assert cache.folder() == Path("/a/b")
    monkeypatch.delenv("CQK_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert cache.folder() == Path("/x/cqk")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/h")
    assert cache.folder() == Path("/h/.cache/cqk")


@pytest.mark.parametrize("content", [b"", b"x", bytes(range(256)) * 37])
def test_an_intact_file_is_not_built_again(tmp_path, content):
    path = tmp_path / "deep" / "er" / "file"
    assert built(path, content) == content
    assert built(path, b"something else") == content


def test_every_torn_length_and_every_flipped_byte_is_seen(tmp_path):
    path = tmp_path / "file"
    whole = cache.sealed(path, lambda: b"seven7!").read_bytes()
    damaged = [whole[:n] for n in range(len(whole))]
    damaged += [whole[:i] + bytes([whole[i] ^ 1]) + whole[i + 1 :] for i in range(len(whole))]
    damaged.append(whole + b"\n")
    for data in damaged:
        path.write_bytes(data)
        assert not cache.intact(path)
        assert built(path, b"seven7!") == b"seven7!"


BUILDER = """
import sys, time
from pathlib import Path
from runner import cache
def build():
    with open(sys.argv[2], "a") as log:
        log.write("built\\n")
    time.sleep(float(sys.argv[3]))
    return b"content"
print(cache.content(cache.sealed(Path(sys.argv[1]), build)).decode())
"""


def builder(path, log, seconds):
    command = [sys.executable, "-c", BUILDER, str(path), str(log), str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_of_three_processes_at_once_one_builds(tmp_path):
    path, log = tmp_path / "file", tmp_path / "log"
    processes = [builder(path, log, 0.5) for _ in range(3)]
    assert [process.communicate()[0] for process in processes] == ["content\n"] * 3
    assert log.read_text() == "built\n"


def test_a_killed_builder_leaves_neither_a_file_nor_a_lock(tmp_path):
    path, log = tmp_path / "file", tmp_path / "log"
    process = builder(path, log, 60)
    while not log.exists():
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not path.exists()
    assert built(path, b"second") == b"second"


def test_a_full_disk_ends_in_a_sentence_and_leaves_nothing_half_written(tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    path = tmp_path / "file"
    with pytest.raises(ValueError, match=r"No space left.*another folder in CQK_CACHE_DIR"):
        cache.sealed(path, lambda: b"content")
    assert [p.name for p in tmp_path.iterdir()] == ["file.lock"]


def test_a_cache_folder_that_is_a_file_ends_in_a_sentence(tmp_path):
    (tmp_path / "cache").write_text("")
    with pytest.raises(ValueError, match=r"cannot use .*cache/file .*CQK_CACHE_DIR"):
        cache.sealed(tmp_path / "cache" / "file", lambda: b"content")


def test_what_the_builder_raises_passes_through_and_frees_the_lock(tmp_path):
    def fail():
        raise OSError("of the source, not of the cache")

    path = tmp_path / "file"
    with pytest.raises(OSError, match="of the source"):
        cache.sealed(path, fail)
    assert built(path, b"next") == b"next"
