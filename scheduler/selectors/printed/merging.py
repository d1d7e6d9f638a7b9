"""What all ranks of an attempt printed, as it came: pieces of logs in the order of their arrival.

A line has the time at which the piece that ends it was here. Nodes send their pieces about once a
second, so lines of two ranks are told apart no finer than that; of one rank they never change
places.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from operator import attrgetter

from scheduler.models import LogChunk, Placement
from scheduler.selectors.kept.pieces import bytes_of
from scheduler.selectors.printed.windows import MAX_WINDOW_BYTES, log_is_complete

# Pieces that are looked at for one window; some only tell how a line began.
_MOST_PIECES = 400
# Lines in all; a program may print thousands at one moment. Of a rank at least so many.
_MOST_LINES, _LEAST_OF_RANK = 4000, 20


@dataclass(frozen=True, slots=True)
class Stretch:
    """Whole lines of one rank that follow each other: `arrivals` as in `LogWindow`.

    `left_out`: so many before them came in the same span, and are only in the rank's own log.
    """

    placement: Placement
    first_line: int
    raw: bytes
    arrivals: tuple[tuple[int, datetime], ...]
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Merged:
    """Stretches of one span of time; `before`: from where on there is more, None for nothing."""

    stretches: tuple[Stretch, ...]
    before: datetime | None


def merged_log(placements: Sequence[Placement], *, before: datetime | None, count: int) -> Merged:
    """About the last `count` lines of these ranks that came before a moment, now if None.

    For placements of one attempt whose reader was checked, loaded with it; one query.
    """
    pieces = LogChunk.objects.filter(placement__in=placements)
    if before is not None:
        pieces = pieces.filter(created_at__lt=before)
    found = list(pieces.order_by("-created_at", "-id")[:_MOST_PIECES])
    since, is_all = _since(found, count)
    shown: dict[int, list[LogChunk]] = {}
    earlier: dict[int, LogChunk] = {}
    for piece in found:
        if piece.created_at >= since:
            shown.setdefault(piece.placement_id, []).insert(0, piece)
        else:
            earlier.setdefault(piece.placement_id, piece)
    most = max(_LEAST_OF_RANK, _MOST_LINES // max(1, len(shown)))
    stretches = [
        _stretch(
            placement, most, shown[placement.pk], earlier.get(placement.pk), is_end=before is None
        )
        for placement in placements
        if placement.pk in shown
    ]
    return Merged(tuple(one for one in stretches if one.raw), None if is_all else since)


def every_stream(placements: Collection[Placement]) -> Iterator[tuple[int, Iterator[bytes]]]:
    """By number of these placements all stored bytes of each, while it is at hand; one query.

    For placements whose reader was checked. Those without any bytes are left out.
    """
    pieces = LogChunk.objects.filter(placement__in=placements).order_by("placement_id", "offset")
    rows = pieces.iterator(chunk_size=200)
    for placement, its in groupby(rows, attrgetter("placement_id")):
        yield placement, map(bytes_of, its)


def _since(found: Sequence[LogChunk], count: int) -> tuple[datetime, bool]:
    """From when on pieces are shown, and whether nothing is older; all of one moment together."""
    lines = size = 0
    for piece in found:
        lines, size = lines + piece.lines, size + piece.size
        if lines >= count or size >= MAX_WINDOW_BYTES:
            oldest = found[-1].created_at
            return piece.created_at, piece.created_at == oldest and len(found) < _MOST_PIECES
    is_all = len(found) < _MOST_PIECES
    return (found[-1].created_at if found else datetime.min.replace(tzinfo=UTC)), is_all


def _stretch(
    placement: Placement,
    most: int,
    pieces: list[LogChunk],
    earlier: LogChunk | None,
    *,
    is_end: bool,
) -> Stretch:
    """The last lines that end in these pieces; of one begun earlier all that is at hand."""
    begun = bytes_of(earlier) if earlier is not None else b""
    raw = begun[begun.rfind(b"\n") + 1 :] + b"".join(map(bytes_of, pieces))
    if not (is_end and log_is_complete(placement)):
        raw = raw[: raw.rfind(b"\n") + 1]
    begin, *last = raw.rsplit(b"\n", most + 1)
    left_out = begin.count(b"\n") + 1 if len(last) > most else 0
    return Stretch(
        placement,
        pieces[0].first_line + left_out,
        b"\n".join(last) if left_out else raw,
        tuple((piece.first_line, piece.created_at) for piece in pieces),
        left_out,
    )
