"""Counts, for lists of jobs, the lines that say warn in the logs of attempts that have ended.

The count is that of *Find warnings* in the window of a log: the same search, of the same lines.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from time import monotonic

from portal.terminal.search import Finder, find_lines, finder_of
from scheduler.models import Attempt, Placement
from scheduler.selectors.logs import stream_lines
from scheduler.selectors.printed.windows import log_is_complete
from scheduler.services.kept import warned

logger = logging.getLogger(__name__)

WORD = "warn"
# What one turn takes at most; a longer log goes on in the next one.
WITHIN_S = 5.0
MOST_BYTES = 256 * 1024 * 1024


@dataclass(slots=True)
class Turn:
    """How much of a turn is left: until when (monotonic seconds), and how many bytes."""

    until_s: float
    left_bytes: int

    def is_over(self) -> bool:
        """Whether the next block is left for another turn."""
        return self.left_bytes <= 0 or monotonic() > self.until_s

    def reading(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """The pieces, which count."""
        for piece in pieces:
            self.left_bytes -= len(piece)
            yield piece


def count_warnings(
    *, now: datetime, within_s: float = WITHIN_S, most_bytes: int = MOST_BYTES
) -> int:
    """Count what is due, the longest ended first, while there is time; returns how many attempts
    were settled or counted. A log that cannot be read is passed by."""
    turn = Turn(monotonic() + within_s, most_bytes)
    find = finder_of(WORD, is_regex=False)
    done = warned.settle_unread(now=now)
    for attempt in warned.attempts_to_count(now=now):
        if turn.is_over():
            break
        try:
            count = _count(attempt, find, turn)
        except OSError as problem:
            logger.warning("the log of attempt %s cannot be read: %s", attempt.pk, problem)
            warned.note_unreadable(attempt, now=now)
            continue
        if count is None:
            break
        warned.keep_count(attempt, count, now=now)
        done += 1
    return done


def _count(attempt: Attempt, find: Finder, turn: Turn) -> int | None:
    """Of all ranks together; None where the turn was over before, and where to go on is kept."""
    first_rank, line, count = attempt.warnings_from or (0, 1, 0)
    for placement in attempt.placements.all():
        if placement.rank < first_rank:
            continue
        begin = line if placement.rank == first_rank else 1
        if turn.is_over():
            warned.keep_place(attempt, placement.rank, begin, count)
            return None
        found, goes_on = _lines_of(placement, begin, find, turn, warned.MORE - count)
        count += found
        if count >= warned.MORE:
            break
        if goes_on:
            warned.keep_place(attempt, placement.rank, goes_on, count)
            return None
    return count


def _lines_of(
    placement: Placement, begin: int, find: Finder, turn: Turn, most: int
) -> tuple[int, int]:
    """How many lines of a rank say so from a line on, and where to go on, 0 for nowhere."""
    found = find_lines(
        turn.reading(stream_lines(placement, begin)),
        begin,
        find,
        most=most,
        is_over=turn.is_over,
        with_rest=log_is_complete(placement),
    )
    return len(found.lines), found.next_line
