"""How far a program was over the time of its attempt, by its own words: a few moments of its log.

However long the log is, so many statements ask for it and so many bytes of it are read. What is
drawn ends in what `progress_of` says, and is of the same count: its unit and its total.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from operator import attrgetter

from django.core.files.storage import default_storage
from django.db.models import QuerySet

from scheduler.models import LogChunk, Placement
from scheduler.selectors.printed.progress import Progress, came, progress_of, reports_like

# Moments that are looked at, and how much before each: a program may report once in many lines.
MOMENTS = 24
READ_BYTES = 4 * 1024
_PIECES = 12
# When a piece came is in no index: where those of a moment lie is guessed, and corrected so often.
_GUESSES = 3
_LEAST = 3


@dataclass(frozen=True, slots=True)
class Point:
    """So much was done when the report of it was here."""

    at: datetime
    done: int


@dataclass(frozen=True, slots=True)
class Course:
    """Since `began`, when the attempt started, `points` in order of time; the last is `progress`.

    Where the count began anew once, they are those since then.
    """

    began: datetime
    progress: Progress
    points: tuple[Point, ...]


def course_of(
    placement: Placement, *, now: datetime, progress: Progress | None = None
) -> Course | None:
    """For a running rank whose reader was checked, loaded with its attempt; in five statements, one
    fewer where its `progress` was read already.

    None where its log says too little for a picture, and where its count goes back time and again.
    """
    began, progress = placement.attempt.started_at, progress or progress_of(placement, now=now)
    if began is None or progress is None or placement.log_pruned_at is not None:
        return None
    ends = _spread(placement)
    pieces = _before(placement, ends)
    found: dict[datetime, Point] = {}
    # A report may begin in the piece at which the one before ended.
    for before, end in pairwise([0, *ends]):
        run = [one for one in pieces if max(before, end - READ_BYTES) <= one.offset <= end]
        point = _last_of(run[-_PIECES:], progress)
        if point is not None and point.at < progress.at:
            found[point.at] = point
    points = _onward([*found.values(), Point(progress.at, progress.done)])
    return Course(began, progress, points) if len(points) >= _LEAST else None


def _spread(placement: Placement) -> list[int]:
    """Offsets of pieces, in order, that came about evenly over the time in which the log grew."""
    size = placement.log_size
    known: dict[int, datetime] = {}
    asked = [size * number // (MOMENTS - 1) for number in range(MOMENTS)]
    for _ in range(_GUESSES):
        seen = len(known)
        known |= dict(_ending_at(placement, asked, 1).values_list("offset", "created_at"))
        if len(known) == seen:
            break
        asked = [_guess(sorted(known.items()), moment, size) for moment in _moments(known.values())]
    return sorted({_nearest(known, moment) for moment in _moments(known.values())}) if known else []


def _moments(times: Iterable[datetime]) -> list[datetime]:
    times = list(times)
    first, last = min(times), max(times)
    return [first + (last - first) * number / (MOMENTS - 1) for number in range(MOMENTS)]


def _guess(known: Sequence[tuple[int, datetime]], moment: datetime, size: int) -> int:
    """Where the log was at a moment, if it grew evenly from one known piece to the next."""
    at = bisect_right([came_at for _, came_at in known], moment)
    if at == len(known):
        return size
    (begin, since), (end, until) = known[max(0, at - 1)], known[at]
    share = (moment - since) / (until - since) if until > since else 0.0
    return begin + int((end - begin) * min(max(share, 0.0), 1.0))


def _nearest(known: dict[int, datetime], moment: datetime) -> int:
    return min(known, key=lambda offset: (abs(known[offset] - moment), offset))


def _before(placement: Placement, ends: Sequence[int]) -> list[LogChunk]:
    """In order, the pieces at these offsets and some of those before each."""
    # Put in order here: SQLite would go through the log in that order, once for each end.
    return sorted(_ending_at(placement, ends, _PIECES), key=attrgetter("offset")) if ends else []


def _ending_at(placement: Placement, ends: Iterable[int], most: int) -> QuerySet[LogChunk]:
    """The last pieces that begin at each of these offsets or before it, at most so many of each."""
    chunks = placement.log_chunks.order_by()
    parts = [
        # Not by OR, for which the whole log might be looked through.
        chunks.filter(pk__in=chunks.filter(offset__lte=end).order_by("-offset").values("pk")[:most])
        for end in sorted(set(ends))
    ]
    return parts[0].union(*parts[1:])


def _last_of(run: Sequence[LogChunk], like: Progress) -> Point | None:
    """The last report of this count at the end of pieces that follow each other."""
    parts: list[bytes] = []
    left = READ_BYTES
    for piece in reversed(run):
        parts.insert(0, _end_of(piece, left))
        left -= len(parts[0])
        if left <= 0 or len(parts[0]) < piece.size:
            break
    found = reports_like(b"".join(parts), like)
    if not found:
        return None
    read = run[len(run) - len(parts) :]
    sizes = [(len(part), piece.created_at) for part, piece in zip(parts, read, strict=True)]
    return Point(came(sizes, found[-1].place), found[-1].done)


def _end_of(piece: LogChunk, most: int) -> bytes:
    """Its last bytes; none where the store has it no more."""
    try:
        with default_storage.open(piece.path) as file:
            file.seek(max(0, piece.size - most))
            content: bytes = file.read(most)
    except OSError:
        return b""
    return content


def _onward(points: Sequence[Point]) -> tuple[Point, ...]:
    """Those since the count began anew; none where it did so more than once, as then it is one of
    many, and points between which a whole one went by would look like one."""
    falls = [at for at, (one, next_) in enumerate(pairwise(points), 1) if next_.done < one.done]
    if len(falls) > 1:
        return ()
    return tuple(points[falls[0] :] if falls else points)
