"""What every section of a study file is: frozen, strict about its keys, with one canonical hash."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

Positive = Annotated[int, Field(gt=0)]
Name = Annotated[str, Field(min_length=1, max_length=80, pattern=r"^[^\s/\\][^/\\\n]*$")]


class Section(BaseModel):
    """A frozen section of the study file in which an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def canonical_hash(value: Any) -> str:
    """Return the SHA-256 of a JSON value written in its one canonical form.

    >>> canonical_hash({"b": 1, "a": 2}) == canonical_hash({"a": 2, "b": 1})
    True
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
