"""One log, read and rendered once for all sockets of this process that watch it.

A socket asks a feed for the lines after the last one it has sent. The newest lines are kept here
as rows; who is further behind reads for itself. Rights are not looked at here: a socket watches a
log only while its own check allows it.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections import deque
from dataclasses import dataclass
from itertools import islice
from weakref import WeakKeyDictionary, WeakValueDictionary

from channels.db import database_sync_to_async

from portal.reports.log_rows import gaps_above, has_pause, log_rows
from portal.terminal import PLAIN, SgrState, render_lines
from scheduler.models import Placement
from scheduler.selectors.logs import placement_of_stream
from scheduler.selectors.printed.silences import silences_of
from scheduler.selectors.printed.windows import LogWindow, read_lines

LINES_PER_FRAME = 500
KEPT_LINES = 2000
KEPT_CHARS = 2 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class LogFrame:
    """Lines `from_line` to before `next_line`; `body` is the frame's JSON without its beginning."""

    from_line: int
    next_line: int
    is_complete: bool
    body: str


def make_frame(
    rows: list[str], from_line: int, *, total_lines: int, size: int, is_complete: bool
) -> LogFrame:
    """A frame of these rows, the first of which is line `from_line`."""
    next_line = from_line + len(rows)
    said = {
        "kind": "lines",
        "from_line": from_line,
        "next_line": next_line,
        # Lines may have come between the count and the read.
        "total_lines": max(total_lines, next_line - 1),
        "size": size,
        "complete": is_complete,
        "html": "".join(rows),
    }
    body = json.dumps(said, separators=(",", ":")).removeprefix("{")
    return LogFrame(from_line, next_line, is_complete, body)


@dataclass(frozen=True, slots=True)
class _Read:
    window: LogWindow
    rows: list[str]
    colours: SgrState


class LogFeed:
    """The newest rows of one rank's log. Used by one event loop alone."""

    def __init__(self, attempt_id: int, rank: int) -> None:
        self.attempt_id = attempt_id
        self.rank = rank
        self.total_lines = 0
        self.size = 0
        self.is_complete = False
        self._read_size = 0
        self.next_line = 0  # 0: nothing was read yet
        self._rows: deque[str] = deque()
        self._chars = 0
        self._colours = PLAIN
        self._frames: dict[int, LogFrame] = {}
        self._reading = asyncio.Lock()
        self._begun = self._served = 0
        self._read_at = -math.inf

    async def refresh(self) -> None:
        """Returns after a read that began after this call; all who ask meanwhile share one."""
        asked = self._begun
        async with self._reading:
            if self._served > asked:
                return
            self._begun += 1
            began = time.monotonic()
            read = await database_sync_to_async(self._read)(self.next_line, self._colours)
            # Not reached by a read that failed: those who waited for it begin another.
            self._served, self._read_at = self._begun, began
            if read is not None:
                self._take(read)

    def is_behind(self, size: int | None) -> bool:
        """Whether the log is known to be longer than what was read; None: nobody knows."""
        return size is None or self.next_line == 0 or self._read_size < size

    @property
    def age_s(self) -> float:
        """Seconds since the last read began; infinite before the first."""
        return time.monotonic() - self._read_at

    def has_row_after(self, line: int) -> bool:
        """Whether the row after `line` is kept here; if not, it is older, or not yet read."""
        return self.next_line - len(self._rows) <= line + 1 < self.next_line

    def has_forgotten(self, line: int) -> bool:
        """Whether the row after `line` was read, but is no longer kept."""
        return line + 1 < self.next_line - len(self._rows)

    def frame_after(self, line: int) -> LogFrame:
        """The kept rows after `line`, at most LINES_PER_FRAME; made once for all who ask."""
        frame = self._frames.get(line)
        if frame is None:
            skipped = line + 1 - (self.next_line - len(self._rows))
            rows = list(islice(self._rows, max(0, skipped), max(0, skipped) + LINES_PER_FRAME))
            frame = self._frames[line] = make_frame(
                rows,
                line + 1,
                total_lines=self.total_lines,
                size=self.size,
                is_complete=self.is_complete,
            )
        return frame

    def _read(self, from_line: int, colours: SgrState) -> _Read | None:
        """The lines from `from_line` on; in a thread, so it changes nothing here."""
        placement = placement_of_stream(self.attempt_id, self.rank)
        if placement is None:
            return None
        if from_line == 0 or placement.log_lines - from_line >= KEPT_LINES:
            # Nobody was at the end for long, so begin there anew.
            from_line, colours = max(1, placement.log_lines - LINES_PER_FRAME + 1), PLAIN
        return _Read(*read_rows(placement, from_line, colours))

    def _take(self, read: _Read) -> None:
        window = read.window
        if window.first_line != self.next_line:
            self._rows.clear()
            self._chars = 0
        self._rows.extend(read.rows)
        self._chars += sum(map(len, read.rows))
        self.next_line = window.next_line
        self._colours = read.colours
        self.total_lines, self.size = window.total_lines, window.size
        self.is_complete = window.is_complete
        # A full window ends somewhere before `size`.
        self._read_size = window.size if window.next_line > window.total_lines else 0
        while len(self._rows) > KEPT_LINES or self._chars > KEPT_CHARS:
            self._chars -= len(self._rows.popleft())
        self._frames.clear()


def read_rows(
    placement: Placement, from_line: int, colours: SgrState
) -> tuple[LogWindow, list[str], SgrState]:
    """A window of at most LINES_PER_FRAME lines, its rows, and the colours after it."""
    window = read_lines(placement, from_line=from_line, count=LINES_PER_FRAME)
    lines, colours = render_lines(window.raw, window.first_line, colours)
    silences = silences_of(placement) if has_pause(window.arrivals) else ()
    gaps = gaps_above(silences, window.arrivals, placement.node.name)
    return window, [str(log_rows([line], window.arrivals, gaps)) for line in lines], colours


_Feeds = WeakValueDictionary[tuple[int, int], LogFeed]
# A feed lives as long as a socket holds it; its lock belongs to the loop of its sockets.
_feeds_of: WeakKeyDictionary[asyncio.AbstractEventLoop, _Feeds] = WeakKeyDictionary()


def feed_of(attempt_id: int, rank: int) -> LogFeed:
    """The running loop's feed of this log."""
    feeds = _feeds_of.setdefault(asyncio.get_running_loop(), WeakValueDictionary())
    feed = feeds.get((attempt_id, rank))
    if feed is None:
        feed = feeds[attempt_id, rank] = LogFeed(attempt_id, rank)
    return feed
