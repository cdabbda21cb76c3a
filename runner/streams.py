"""Counter-based random streams: a draw depends on its name, never on how much was drawn before it.

Resuming a run therefore needs no random state, and two arms of one seed that share a parameter
name or a data step share its randomness, however different the rest of the arms is.
"""

from __future__ import annotations

import hashlib


def fold(seed: int, *names: object) -> int:
    """Return the 63-bit seed of the stream that ``names`` spell under ``seed``.

    Names are joined with a separator that cannot occur inside their ``repr``, so
    ``fold(1, "a", "b")`` and ``fold(1, "ab")`` are different streams.

    >>> fold(1, "data", 0) == fold(1, "data", 0)
    True
    >>> fold(1, "data", 0) == fold(1, "data", 1)
    False
    """
    spelled = "\n".join(repr(name) for name in (int(seed), *names))
    digest = hashlib.sha256(spelled.encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
