"""Sentences with slots for facts."""

from __future__ import annotations

from collections.abc import Mapping


class _Gaps(dict[str, object]):
    def __missing__(self, key: str) -> str:
        return "?"


def spoken_s(seconds: int) -> str:
    """Whole seconds as people read them: `30 s`, `4 min`."""
    return f"{seconds} s" if seconds < 120 or seconds % 60 else f"{seconds // 60} min"


def fill(sentence: str, facts: Mapping[str, object]) -> str:
    """The sentence with its facts; a slot without one shows "?"."""
    return sentence.format_map(_Gaps(facts))
