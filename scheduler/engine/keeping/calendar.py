"""What the calendar keeps: nodes in maintenance, now or some day; bookings; headroom."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from scheduler.engine.board import Board
from scheduler.engine.board.kept import Kept
from scheduler.engine.keeping.bookings import keep_bookings
from scheduler.engine.keeping.headroom import keep_headroom
from scheduler.engine.plan import SlotKind
from scheduler.engine.snapshot import NONE, Ints, Snapshot, ints


def keep_calendar(board: Board) -> None:
    """Keep what is planned beside the jobs: maintenance, then bookings, then headroom."""
    keep_windows(board)
    keep_bookings(board)
    keep_headroom(board)


def keep_windows(board: Board) -> None:
    """Keep the nodes of every window that is not over, from its begin to its end."""
    snapshot, windows = board.snapshot, board.snapshot.windows
    first = dict(
        zip(*(part.tolist() for part in np.unique(windows.id, return_index=True)), strict=True)
    )
    for (number, pool), nodes in _nodes_by_window(snapshot):
        nothing = np.zeros((4, len(nodes)), dtype=np.int64)
        board.keeping.enter(
            Kept(
                kind=SlotKind.MAINTENANCE,
                owner=first[number],
                pool=pool,
                nodes=nodes,
                need=nothing,
                from_s=float(windows.from_s[first[number]]),
                until_s=float(windows.until_s[first[number]]),
                free_then=nothing.copy(),
                is_whole=True,
            )
        )


def _nodes_by_window(snapshot: Snapshot) -> Iterator[tuple[tuple[int, int], Ints]]:
    """By window that is not over (its number) and pool: node rows, ascending, each once.

    One sort for all: each of a thousand windows would look through the rows of all others.
    """
    windows = snapshot.windows
    is_ahead = np.isin(windows.id, windows.id[windows.until_s > snapshot.now_s])
    columns = (windows.id, snapshot.nodes.pool[windows.node], windows.node)
    rows = np.unique(np.stack(columns, axis=1)[is_ahead], axis=0)
    begins = np.flatnonzero(np.any(np.diff(rows[:, :2], axis=0, prepend=NONE), axis=1))
    ends = [*begins[1:].tolist(), len(rows)]
    for begin, end in zip(begins.tolist(), ends, strict=True) if len(rows) else ():
        number, pool, _ = rows[begin].tolist()
        yield (number, pool), ints(rows[begin:end, 2])
