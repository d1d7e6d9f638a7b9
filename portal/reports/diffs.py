"""Before and after of an audit event, side by side."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from scheduler.states import hours_words, whole_span

_LONGEST = 200
# More seconds than these are a moment; terms that hold in every month, as they are kept.
_MOST_S, _FIRST_MONTH = 400 * 86_400, "1970-01"
_NOTHING = {None, "none", "empty", "no"}
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[0-9.]*\+00:00")
# As sums and prices are stored; nobody reads zeros behind the cents.
_SUM = re.compile(r"(-?\d+\.\d\d\d*?)0+")


@dataclass(frozen=True, slots=True)
class Change:
    """One field; None where it was not there before, or is not afterwards."""

    field: str
    before: str | None
    after: str | None

    @property
    def is_nothing(self) -> bool:
        """Whether it says only that something is not there."""
        return {self.before, self.after} <= _NOTHING


def changes(before: str, after: str) -> list[Change]:
    """What is different between two states (JSON objects or empty), by field."""
    old, new = _state(before), _state(after)
    return [
        Change(name, _words(old, name), _words(new, name))
        for name in sorted(old.keys() | new.keys())
        if name not in old or name not in new or old[name] != new[name]
    ]


def in_units(change: Change) -> Change:
    """As a page says it, where programs read seconds: durations, GPU-hours, and terms without a
    begin."""
    name, say = change.field, _same
    if name == "gpu_seconds":
        name, say = "GPU-hours", _hours
    elif name == "from_month":
        say = _month
    elif name.endswith("_s"):
        name, say = name.removesuffix("_s"), _span
    before, after = (None if one is None else say(one) for one in (change.before, change.after))
    return Change(name, before, after)


def _same(text: str) -> str:
    return text


def _hours(text: str) -> str:
    return hours_words(int(text)) if text.isdecimal() else text


def _span(text: str) -> str:
    return whole_span(int(text)) if text.isdecimal() and int(text) < _MOST_S else text


def _month(text: str) -> str:
    return "the start" if text == _FIRST_MONTH else text


def _state(text: str) -> dict[str, Any]:
    if not text:
        return {}
    found = json.loads(text)
    return found if isinstance(found, dict) else {"value": found}


def _words(state: dict[str, Any], name: str) -> str | None:
    if name not in state:
        return None
    text = "".join(_said(state[name]))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _said(value: Any) -> Iterator[str]:
    """A value as people say it: yes, none, one, two."""
    if value is None:
        yield "none"
    elif isinstance(value, bool):
        yield "yes" if value else "no"
    elif isinstance(value, list):
        yield ", ".join("".join(_said(one)) for one in value) or "none"
    elif isinstance(value, dict):
        rows = (f"{str(key).replace('_', ' ')} {''.join(_said(one))}" for key, one in value.items())
        yield "; ".join(rows) or "none"
    else:
        text = str(value)
        # A moment and a sum as people write them; the file and REST have them in full.
        if _TIME.fullmatch(text):
            text = text[:16].replace("T", " ")
        elif found := _SUM.fullmatch(text):
            text = found[1]
        yield text or "empty"
