"""Log lines for a socket: the one topic that carries payload."""

from __future__ import annotations

from dataclasses import dataclass

from accounts.models import User
from portal.reports.log_rows import log_rows
from portal.terminal import PLAIN, SgrState, render_lines
from scheduler.selectors.logs import read_lines, readable_placements

LINES_PER_FRAME = 500


@dataclass(slots=True)
class LogReader:
    """Where one socket is in one rank's log: `after` is the last line it has seen, None the end."""

    attempt_id: int
    rank: int
    after: int | None
    colours: SgrState = PLAIN
    is_complete: bool = False

    def read(self, viewer: User) -> dict[str, object] | None:
        """The next frame, or None when there is nothing new; rights are checked at each read."""
        placement = (
            readable_placements(viewer).filter(attempt=self.attempt_id, rank=self.rank).first()
        )
        if placement is None:
            return None
        if self.after is None:
            self.after = placement.log_lines
        window = read_lines(placement, from_line=self.after + 1, count=LINES_PER_FRAME)
        was_complete, self.is_complete = self.is_complete, window.is_complete
        if window.next_line == self.after + 1 and was_complete == window.is_complete:
            return None
        lines, self.colours = render_lines(window.raw, window.first_line, self.colours)
        self.after = window.next_line - 1
        return {
            "kind": "lines",
            "from_line": window.first_line,
            "next_line": window.next_line,
            # Lines may have come between the count and the read.
            "total_lines": max(window.total_lines, window.next_line - 1),
            "size": window.size,
            "complete": window.is_complete,
            "html": str(log_rows(lines)),
        }
