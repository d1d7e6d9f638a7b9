"""Log lines for a socket: the one topic that carries payload."""

from __future__ import annotations

from dataclasses import dataclass

from channels.db import database_sync_to_async

from accounts.models import User
from portal.live.log_feed import LINES_PER_FRAME, LogFeed, LogFrame, make_frame, read_rows
from portal.terminal import PLAIN, SgrState
from scheduler.selectors.logs import readable_placements
from scheduler.tallies import Tally, tally

# As many as a page shows: who is further behind goes on at the end, as the page does.
MOST_BEHIND = 5000


@dataclass(slots=True)
class LogReader:
    """Where one socket is in one rank's log: `after` is the last line it has seen, None the end."""

    feed: LogFeed
    after: int | None
    colours: SgrState = PLAIN
    is_complete: bool = False

    async def catch_up(self, size: int | None) -> None:
        """Let the feed read on if the log may be longer than it knows: `size` bytes, None: ask."""
        if self.feed.is_behind(size):
            await self.feed.refresh()
        if self.after is None:
            self.after = self.feed.total_lines

    async def next_frame(self, viewer: User) -> LogFrame | None:
        """The next frame, or None when there is nothing new; after `catch_up`."""
        assert self.after is not None
        feed = self.feed
        if feed.total_lines - self.after > MOST_BEHIND:
            self.after, self.colours = feed.total_lines - LINES_PER_FRAME, PLAIN
            tally(Tally.SOCKET_RESYNC)
        if feed.next_line <= self.after + 1 <= feed.total_lines:
            # The feed's window was full; the rest of the log is still to be read.
            await feed.refresh()
        frame = None
        if feed.has_forgotten(self.after):
            frame = await database_sync_to_async(self._read_alone)(viewer, self.after)
        elif feed.has_row_after(self.after) or feed.is_complete != self.is_complete:
            frame = feed.frame_after(self.after)
        if frame is not None:
            self.after = frame.next_line - 1
            self.is_complete = frame.is_complete
        return frame

    def _read_alone(self, viewer: User, after: int) -> LogFrame | None:
        """Lines that are too old to be kept for everybody."""
        streams = readable_placements(viewer)
        placement = streams.filter(attempt=self.feed.attempt_id, rank=self.feed.rank).first()
        if placement is None:
            return None
        window, rows, self.colours = read_rows(placement, after + 1, self.colours)
        if not rows:
            return None
        return make_frame(
            rows,
            window.first_line,
            total_lines=window.total_lines,
            size=window.size,
            is_complete=window.is_complete,
        )
