"""Freed memory that is kept is not fetched again, and nobody's own settings are touched."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BLOCK_BYTES, TIMES = 40 * 2**20, 5
# Prints whether memory is kept, and the page faults of taking, filling and freeing a block again.
PROGRAM = f"""
import ctypes, resource, sys
from runner.allocator import keep_freed_memory

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]

def fill():
    block = libc.malloc(ctypes.c_size_t({BLOCK_BYTES}))
    ctypes.memset(block, 1, {BLOCK_BYTES})
    libc.free(block)

kept = sys.argv[1] == "keep" and keep_freed_memory()
fill()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range({TIMES}):
    fill()
print(kept, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""

on_glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the GNU C library's own")


def faults(mode, **environment):
    """Return whether memory was kept, and the faults of the second to last time round."""
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, mode],
        capture_output=True,
        check=True,
        cwd=ROOT,
        env=os.environ | environment,
        text=True,
    )
    kept, count = ran.stdout.split()
    return kept == "True", int(count)


@on_glibc
def test_kept_memory_is_not_fetched_again():
    kept, again = faults("keep")
    left, anew = faults("leave")
    assert (kept, left) == (True, False)
    assert 10 * again < anew


@on_glibc
@pytest.mark.parametrize(
    "own",
    [
        {"MALLOC_TRIM_THRESHOLD_": "131072"},
        {"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=1048576"},
        {"LD_PRELOAD": "libmimalloc-that-is-not-here.so"},
    ],
    ids=lambda own: next(iter(own)),
)
def test_what_the_user_has_settled_stays(own):
    assert faults("keep", **own)[0] is False
