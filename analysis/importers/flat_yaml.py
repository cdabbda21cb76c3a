"""The flat part of a YAML file: ``key: value`` lines. Tags, nesting and lists are never built.

A key whose value is anything but one plain or quoted word or number is named, not read; asking for
it is then an error that says so. So no tag can construct anything, and no alias can grow.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from .contract import require_file, shown

LARGEST = 16 * 2**20
_LINE = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_./ -]*?)\s*:(?:[ \t]+(.*))?")
_QUOTED = re.compile(r"""'((?:[^']|'')*)'|"([^"\\]*)\"""")


@dataclass(frozen=True)
class FlatYaml:
    """The values read, and the keys whose values are of a kind that is not read."""

    values: dict[str, str]
    unread: frozenset[str]

    def missing(self, path: Path, key: str) -> str:
        """Return why there is no value for a key."""
        if key in self.unread:
            return f"{path}: the value of {shown(key)} is no plain word or number"
        return f"{path}: has no key {shown(key)}"


def flat_yaml(path: Path) -> FlatYaml:
    """Read the top level of a YAML file.

    Raises:
        ValueError: The file is too large or no UTF-8 text.
    """
    require_file(path)
    if path.stat().st_size > LARGEST:
        raise ValueError(f"{path}: is larger than {LARGEST // 2**20} MiB")
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{path}: is not UTF-8 text") from None
    return parse(text)


def parse(text: str) -> FlatYaml:
    """Read the top level of a YAML text.

    >>> found = parse("attn: base\\nseed: 1  # first\\nopt: !!python/name:x\\nnet:\\n  d: 2\\n")
    >>> found.values, sorted(found.unread)
    ({'attn': 'base', 'seed': '1'}, ['net', 'opt'])
    """
    values: dict[str, str] = {}
    unread: set[str] = set()
    last = ""
    for line in text.splitlines():
        if not line.strip() or line.startswith(("#", "---", "...", "%")):
            continue
        found = _LINE.fullmatch(line)
        if found is None:  # the inside of a nested value, or a kind of line that is not read
            unread.add(last)
            continue
        last = found[1]
        value = _scalar(found[2] or "")
        if value is None or last in values:
            unread.add(last)
        else:
            values[last] = value
    return FlatYaml({k: v for k, v in values.items() if k not in unread}, frozenset(unread - {""}))


def _scalar(text: str) -> str | None:
    text = text.strip()
    quoted = _QUOTED.match(text)
    if quoted and re.fullmatch(r"\s*(#.*)?", text[quoted.end() :]):
        return quoted[2] if quoted[1] is None else quoted[1].replace("''", "'")
    plain = re.split(r"\s#", text)[0].strip()
    if not plain or (plain[0] in "&*!|>{}[]'\"%@`#,?-" and not re.match(r"-[\d.]", plain)):
        return None
    return None if ": " in plain else plain
