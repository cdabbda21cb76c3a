"""What `cqk list` prints: the names that a study file may use, each with one line about it."""

from __future__ import annotations

from typing import Any

VOCABULARY = 50_257  # GPT-2's, at which the sizes of the presets are named


def rows(what: str) -> list[dict[str, Any]]:
    """Return one row per name; the first value is the name itself."""
    return {
        "attention": lambda: _variants("attention"),
        "coupling": lambda: _variants("coupling"),
        "presets": _presets,
        "studies": _studies,
        "corpora": _corpora,
        "formats": _formats,
    }[what]()


def _variants(kind: str) -> list[dict[str, Any]]:
    from . import attention, coupling

    folder = attention if kind == "attention" else coupling
    plain = _parameters(**{kind: "standard" if kind == "attention" else "none"})
    listed = []
    for name in folder.names():
        variant = folder.load(name)
        extra = _parameters(**{kind: name}) - plain
        listed.append(
            {
                "name": name,
                "summary": variant.summary,
                "extra_parameters_at_60m": f"{extra:+,} ({extra / plain:+.2%}) at 60m",
                "source": variant.source,
            }
        )
    return listed


def _parameters(**variants: str) -> int:
    from . import model
    from .presets import PRESETS

    built = model.build(PRESETS["60m"], vocab_size=VOCABULARY, device="meta", **variants)
    return sum(parameter.numel() for parameter in built.parameters())


def _presets() -> list[dict[str, Any]]:
    from .presets import PRESETS

    return [{"name": name, "sizes": str(sizes)} for name, sizes in PRESETS.items()]


def _studies() -> list[dict[str, Any]]:
    from analysis.study import load_study

    from .plan import shipped_studies

    return [
        {"name": name, "question": load_study(path).study.question}
        for name, path in shipped_studies().items()
    ]


def _corpora() -> list[dict[str, Any]]:
    from . import corpora, tasks

    texts = [{"name": name, "about": corpora.describe(name)} for name in corpora.names()]
    return texts + [{"name": name, "about": tasks.describe(name)} for name in tasks.names()]


def _formats() -> list[dict[str, Any]]:
    from analysis import importers

    foreign = [{"name": name, "about": importers.load(name).SUMMARY} for name in importers.FORMATS]
    return [*foreign, {"name": "parquet", "about": "a tidy table for cqk analyze; needs pyarrow"}]
