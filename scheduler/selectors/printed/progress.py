"""How far a program is by its own words, and when it ends if it goes on at that pace.

What is read: `epoch 3/30`, `step 41,245 of 60,000` and the bars of tqdm. Epochs count before steps,
because steps are often those of one epoch; a count that went back is one of many and says nothing.
The pace is that of this attempt alone, from its first report to its last, as they came here: what
an earlier attempt did counts as done, and the time that it took does not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from operator import attrgetter

from django.core.files.storage import default_storage
from django.db.models import QuerySet

from scheduler.models import LogChunk, Placement

# So much of the begin and of the end is read.
READ_BYTES = 48 * 1024
_MOST_OF_HEAD = 16
_LONGEST = timedelta(days=400)
_GAP = rb"(?:\x1b\[[0-9;]*m|[\s:=#\[(]){0,6}"
_NUMBER = rb"(\d{1,3}(?:,\d{3}){1,4}|\d{1,12})"
_COUNT = re.compile(
    rb"(?i)(?:\b|(?<=\dm))(epoch|global[ _]step|step|iteration|iter|round)s?\b"
    + _GAP + _NUMBER + rb"[ ]?(?:/|of)[ ]?" + _NUMBER + rb"(?![\d.,]\d)"
)  # fmt: skip
_BAR = re.compile(rb"(?<![\d./])(\d{1,12})/(\d{1,12}) \[[\d:?]+<")
_ORDER = ("epoch", "global step", "step", "iteration", "iter", "round", "")


@dataclass(frozen=True, slots=True)
class Progress:
    """`done` of `total`, in `unit` (empty: of a bar without a name), as of `at`.

    `ends_at`: if it goes on as it went; None while there is no pace, or when it is behind it.
    """

    unit: str
    done: int
    total: int
    at: datetime
    ends_at: datetime | None

    @property
    def words(self) -> str:
        """Such as `step 41,245 of 60,000`."""
        return f"{self.unit} {self.done:,} of {self.total:,}".strip()


@dataclass(frozen=True, slots=True)
class Report:
    """One report: where in the text it stands, and what it says."""

    place: int
    unit: str
    done: int
    total: int


def progress_of(
    placement: Placement, *, now: datetime, pieces: Sequence[LogChunk] | None = None
) -> Progress | None:
    """For a running rank whose reader was checked before; one query, none where the `pieces` of
    `pieces_telling` were read already, maybe among others; and a file or two."""
    if pieces is None:
        pieces = pieces_telling(placement)
    tail = [one for one in pieces if one.offset >= _begin_of_tail(placement)]
    last, last_at = _last(tail)
    if last is None or last_at is None:
        return None
    head = [one for one in pieces if one.offset < READ_BYTES][:_MOST_OF_HEAD]
    first, first_at = _first(head, last)
    ends_at = None
    if first is not None and first_at is not None and last.done > first.done:
        pace_s = (last_at - first_at).total_seconds() / (last.done - first.done)
        left = min(timedelta(seconds=pace_s * (last.total - last.done)), _LONGEST)
        ends_at = last_at + left if pace_s > 0 and last_at + left >= now else None
    return Progress(last.unit, last.done, last.total, last_at, ends_at)


def pieces_telling(placement: Placement, *more: QuerySet[LogChunk]) -> list[LogChunk]:
    """The pieces in which a program may say how far it is: those at the end of its log, and the
    first; together with `more` pieces, each of which is there once, in order; one statement."""
    chunks = placement.log_chunks.order_by()
    head = chunks.filter(offset__lt=READ_BYTES).order_by("offset").values("pk")[:_MOST_OF_HEAD]
    parts = (chunks.filter(pk__in=head), *(one.order_by() for one in more))
    # Not by OR, for which the whole log might be looked through; put in order here, for SQLite
    # would go through the log in that order, once for each part.
    found = chunks.filter(offset__gte=_begin_of_tail(placement)).union(*parts)
    return sorted(found, key=attrgetter("offset"))


def _begin_of_tail(placement: Placement) -> int:
    return max(0, placement.log_size - READ_BYTES)


def reports_in(text: bytes) -> list[Report]:
    """The reports of the unit that counts, in order; none where the count goes back."""
    found = _by_unit(text)
    unit = next((unit for unit in _ORDER if unit in found), None)
    if unit is None:
        return []
    last = found[unit][-1]
    same = [one for one in found[unit] if one.total == last.total]
    goes_back = any(after.done < before.done for before, after in pairwise(same))
    return [] if goes_back else same


def reports_like(text: bytes, like: Progress) -> list[Report]:
    """The reports of the same unit and total, in order, whatever else the text counts."""
    return [one for one in _by_unit(text).get(like.unit, ()) if one.total == like.total]


def _by_unit(text: bytes) -> dict[str, list[Report]]:
    found: dict[str, list[Report]] = {}
    for match in _COUNT.finditer(text):
        unit = match[1].decode().lower().replace("_", " ")
        _take(found, match.start(), unit, match[2], match[3])
    for match in _BAR.finditer(text):
        _take(found, match.start(), "", match[1], match[2])
    return found


def _take(found: dict[str, list[Report]], place: int, unit: str, done: bytes, total: bytes) -> None:
    one = Report(place, unit, int(done.replace(b",", b"")), int(total.replace(b",", b"")))
    if one.total > 1 and one.done <= one.total:
        found.setdefault(unit, []).append(one)


def _text(chunks: Iterable[LogChunk]) -> bytes:
    parts = []
    for chunk in chunks:
        try:
            with default_storage.open(chunk.path) as file:
                parts.append(file.read())
        except OSError:
            return b""
    return b"".join(parts)


def _last(chunks: list[LogChunk]) -> tuple[Report | None, datetime | None]:
    found = reports_in(_text(chunks))
    return (found[-1], came(_sizes(chunks), found[-1].place)) if found else (None, None)


def _first(chunks: list[LogChunk], like: Report) -> tuple[Report | None, datetime | None]:
    """The first report of this count, or the furthest that came in the same piece with it."""
    same = [
        one
        for one in reports_in(_text(chunks))
        if (one.unit, one.total) == (like.unit, like.total) and one.done <= like.done
    ]
    if not same:
        return None, None
    sizes = _sizes(chunks)
    first_at = came(sizes, same[0].place)
    together = [one for one in same if came(sizes, one.place) == first_at]
    return together[-1], first_at


def _sizes(chunks: Iterable[LogChunk]) -> list[tuple[int, datetime]]:
    return [(one.size, one.created_at) for one in chunks]


def came(sizes: Sequence[tuple[int, datetime]], place: int) -> datetime:
    """When the piece in which this place of their text lies was here: `sizes` of the pieces in
    order, and when each came."""
    for size, at in sizes:
        if place < size:
            return at
        place -= size
    return sizes[-1][1]
