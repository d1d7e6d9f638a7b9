"""Before and after of an audit event, side by side."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from portal.reports.trail.titles import spelt, title_of
from portal.reports.trail.values import Say, say_of

_LONGEST = 200
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[0-9.]*\+00:00")
# As sums and prices are stored; nobody reads zeros behind the cents.
_SUM = re.compile(r"(-?\d+\.\d\d\d*?)0*")


@dataclass(frozen=True, slots=True)
class Change:
    """One field; None where it was not there before, or is not afterwards. `is_nothing`: whether it
    says only that something is not there."""

    field: str
    before: str | None
    after: str | None
    is_nothing: bool = False


def changes(before: str, after: str) -> list[Change]:
    """What is different between two states (JSON objects or empty), by field."""
    return _changes(before, after, lambda field: field, lambda field: _as_kept)


def told_changes(action: str, before: str, after: str) -> list[Change]:
    """The same in the words of the page on which that is done: names of fields, codes, durations,
    GPU-hours, and what an empty field means."""
    return _changes(
        before, after, lambda field: title_of(action, field), lambda field: say_of(action, field)
    )


def _changes(
    before: str, after: str, title: Callable[[str], str], say: Callable[[str], Say]
) -> list[Change]:
    old, new = _state(before), _state(after)
    return [
        Change(
            title(name),
            _words(old, name, say(name)),
            _words(new, name, say(name)),
            is_nothing=_is_nothing(old.get(name)) and _is_nothing(new.get(name)),
        )
        for name in sorted(old.keys() | new.keys())
        if name not in old or name not in new or old[name] != new[name]
    ]


def _as_kept(value: Any) -> None:
    return None


def _is_nothing(value: Any) -> bool:
    return value is None or value is False or value in ("", "none", [], {})


def _state(text: str) -> dict[str, Any]:
    if not text:
        return {}
    found = json.loads(text)
    return found if isinstance(found, dict) else {"value": found}


def _words(state: dict[str, Any], name: str, say: Say) -> str | None:
    if name not in state:
        return None
    text = "".join(_said(state[name], say))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _said(value: Any, say: Say) -> Iterator[str]:
    """A value as people say it: in words of its own, else yes, none, one, two."""
    if isinstance(value, list):
        yield ", ".join("".join(_said(one, say)) for one in value) or say(None) or "none"
    elif isinstance(value, dict):
        rows = (f"{spelt(str(key))} {''.join(_said(one, say))}" for key, one in value.items())
        yield "; ".join(rows) or "none"
    elif (said := say(value)) is not None:
        yield said
    elif value is None:
        yield "none"
    elif isinstance(value, bool):
        yield "yes" if value else "no"
    else:
        text = str(value)
        # A moment and a sum as people write them; the file and REST have them in full.
        if _TIME.fullmatch(text):
            text = text[:16].replace("T", " ")
        elif found := _SUM.fullmatch(text):
            text = f"{Decimal(found[1]):,}"
        yield text or "empty"
