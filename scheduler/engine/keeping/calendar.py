"""What the calendar keeps: nodes in maintenance, now or some day; bookings; headroom."""

from __future__ import annotations

import numpy as np

from scheduler.engine.board import Board
from scheduler.engine.board.kept import Kept
from scheduler.engine.keeping.bookings import keep_bookings
from scheduler.engine.keeping.headroom import keep_headroom
from scheduler.engine.plan import SlotKind
from scheduler.engine.snapshot import ints


def keep_calendar(board: Board) -> None:
    """Keep what is planned beside the jobs: maintenance, then bookings, then headroom."""
    keep_windows(board)
    keep_bookings(board)
    keep_headroom(board)


def keep_windows(board: Board) -> None:
    """Keep the nodes of every window that is not over, from its begin to its end."""
    snapshot, windows = board.snapshot, board.snapshot.windows
    for number in np.unique(windows.id[windows.until_s > snapshot.now_s]).tolist():
        rows = np.flatnonzero(windows.id == number)
        pools = snapshot.nodes.pool[windows.node[rows]]
        for pool in np.unique(pools).tolist():
            nodes = np.unique(windows.node[rows[pools == pool]])
            nothing = np.zeros((4, len(nodes)), dtype=np.int64)
            board.keeping.enter(
                Kept(
                    kind=SlotKind.MAINTENANCE,
                    owner=int(rows[0]),
                    pool=pool,
                    nodes=ints(nodes),
                    need=nothing,
                    from_s=float(windows.from_s[rows[0]]),
                    until_s=float(windows.until_s[rows[0]]),
                    free_then=nothing.copy(),
                    is_whole=True,
                )
            )
