"""The order of a table in its address, `?sort=-started`, and the place where a page begins."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from scheduler.selectors.ordered.ordering import Column, Place

_MOST_CHARS = 600
# A NUL, or half of a surrogate pair.
_NO_TEXT = re.compile("[\x00\ud800-\udfff]")
_WRONG = "not a place in this list"


@dataclass(frozen=True, slots=True)
class Sort:
    """A column of a table, and whether its highest value stands first."""

    name: str
    column: Column
    falls: bool

    def __str__(self) -> str:
        return f"{'-' if self.falls else ''}{self.name}"


def read_sort(text: str, columns: Mapping[str, Column], usual: str, problems: list[str]) -> Sort:
    """`started`, or `-started` for the highest first; what is no order is named and not used."""
    if text and text.removeprefix("-") not in columns:
        problems.append(
            f"sort: there is no order {text[:40]!r}; choose from {', '.join(columns)}, "
            "with a - before it for the highest first."
        )
        text = ""
    text = text or usual
    name = text.removeprefix("-")
    return Sort(name, columns[name], text.startswith("-"))


def write_place(sort: Sort, place: Place) -> str:
    """An opaque mark of a place in a table in this order."""
    value, tie = place
    shown = value.isoformat() if isinstance(value, datetime) else value
    text = json.dumps([str(sort), shown, tie], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def read_place(text: str, sort: Sort) -> Place | None:
    """What a mark says, None for no mark. Raises ValueError for one of another order, and for one
    that we did not write."""
    if not text:
        return None
    if len(text) > _MOST_CHARS:
        raise ValueError(_WRONG)
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        order, value, tie = json.loads(raw)
    except (binascii.Error, ValueError, TypeError, RecursionError):
        raise ValueError(_WRONG) from None
    if order != str(sort):
        raise ValueError(_WRONG)
    column = sort.column
    if value is None and column.may_lack:
        return None, _typed(tie, column.tie_kind)
    return _typed(value, column.kind), _typed(tie, column.tie_kind)


def _typed(value: object, kind: type) -> Any:
    """Raises ValueError unless it is of the kind, and a database can hold it."""
    if kind is datetime and isinstance(value, str):
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is not None and 1900 < moment.year < 9000:
            return moment
    if kind is int and type(value) is int and abs(value) < 2**63:
        return value
    if kind is str and isinstance(value, str) and not _NO_TEXT.search(value):
        return value
    raise ValueError(_WRONG)
