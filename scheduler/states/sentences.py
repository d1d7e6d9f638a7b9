"""Sentences with slots for facts."""

from __future__ import annotations

from collections.abc import Mapping


class _Gaps(dict[str, object]):
    def __missing__(self, key: str) -> str:
        return "?"


def fill(sentence: str, facts: Mapping[str, object]) -> str:
    """The sentence with its facts; a slot without one shows "?"."""
    return sentence.format_map(_Gaps(facts))
