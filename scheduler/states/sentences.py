"""Sentences with slots for facts."""

from __future__ import annotations

import re
from collections.abc import Mapping

# Characters of the word that somebody gives who ends, holds or pauses a job.
MOST_REASON = 200
_WHO = re.compile(r"\{who\}[.:]")
_STOPS = (".", "!", "?", "…")


class _Gaps(dict[str, object]):
    def __missing__(self, key: str) -> str:
        return "?"


def spoken_s(seconds: int) -> str:
    """Whole seconds as people read them: `30 s`, `4 min`."""
    return f"{seconds} s" if seconds < 120 or seconds % 60 else f"{seconds // 60} min"


def fill(sentence: str, facts: Mapping[str, object]) -> str:
    """The sentence with its facts; a slot without one shows "?". Who did it is followed by the word
    they gave (`because`): `Cancelled by Lena: it writes to the wrong bucket.`"""
    if because := str(facts.get("because") or ""):
        because = because if because.endswith(_STOPS) else f"{because}."
        sentence = _WHO.sub("{who}: {because}", sentence)
        facts = {**facts, "because": because}
    return sentence.format_map(_Gaps(facts))
