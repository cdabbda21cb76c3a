"""The C library's allocator, told to keep what one training step frees for the next.

Left alone, it hands large blocks back to the system as soon as they are free, and the system clears
every page of them again, which costs about a tenth of a small model's step.
"""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Mapping

# The numbers that malloc.h gives to mallopt's parameters.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4
_SETTINGS = {_MMAP_MAX: 0, _TRIM_THRESHOLD: 2**31 - 1, _TOP_PAD: 2**26}


def keep_freed_memory() -> bool:
    """Keep freed memory in this process; return whether that was done.

    Only the GNU C library is told so, and only where the environment says nothing of its own.

    >>> import platform
    >>> keep_freed_memory() == (platform.libc_ver()[0] == "glibc" and not _is_tuned(os.environ))
    True
    """
    if platform.libc_ver()[0] != "glibc" or _is_tuned(os.environ):
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return all(mallopt(which, value) == 1 for which, value in _SETTINGS.items())


def _is_tuned(environment: Mapping[str, str]) -> bool:
    """Tell whether somebody has settled how the allocator works.

    >>> _is_tuned({"MALLOC_ARENA_MAX": "1"}), _is_tuned({"LD_PRELOAD": "/usr/lib/libjemalloc.so"})
    (False, True)
    """
    named = ("MALLOC_MMAP_MAX_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_")
    return (
        any(name in environment for name in named)
        or "glibc.malloc" in environment.get("GLIBC_TUNABLES", "")
        or "malloc" in environment.get("LD_PRELOAD", "")
    )
