"""What the last cycle planned for its heads, carried into the next one.

Room is chosen anew in every cycle, and the first head can always have its nodes of the last cycle
again. For those behind it that does not hold: a better place for the first may lie where the
second was to start. So plans are remembered, and a head moves only where no other's plan is hurt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from scheduler.engine.board import Board
from scheduler.engine.board.kept import Kept, Seeker
from scheduler.engine.plan import Reservation
from scheduler.engine.reservation import EarliestStart, Head, can_start, kept_for
from scheduler.engine.snapshot import NONE, Classes, Ints, Promises, Snapshot, floats, ints


def with_promises(snapshot: Snapshot, reservations: Sequence[Reservation]) -> Snapshot:
    """The snapshot with what the last plan kept room for; nodes that are gone are left out."""
    row_of = {node: row for row, node in enumerate(snapshot.nodes.id.tolist())}
    kept = [r for r in reservations if all(node in row_of for node in r.nodes)]
    return replace(
        snapshot,
        promises=Promises(
            job=ints([r.job for r in kept for _ in r.nodes]),
            node=ints([row_of[node] for r in kept for node in r.nodes]),
            start_s=floats([r.start_s for r in kept for _ in r.nodes]),
        ),
    )


def promised_nodes(snapshot: Snapshot, row: int) -> Ints:
    """Node rows that a waiting job (row) was promised, in the order of ranks."""
    promises = snapshot.promises
    return ints(promises.node[promises.job == snapshot.waiting.id[row]])


def recall(board: Board, classes: Classes, order: Ints, slack_s: float) -> dict[int, Kept]:
    """Enter the promises that can still be kept; what is kept by waiting row, in order.

    Those of better places come first. One that cannot be kept, because nodes or time limits
    failed, is forgotten.
    """
    snapshot = board.snapshot
    promises, waiting = snapshot.promises, snapshot.waiting
    kept: dict[int, Kept] = {}
    for row in order[np.isin(waiting.id[order], promises.job)].tolist():
        request = classes.requests[int(classes.of_job[row])]
        nodes = promised_nodes(snapshot, row)
        size = sum(shape.nodes for shape in request.shapes())
        # Licences are kept for the first head only, and that one needs no promise.
        if request.licences != NONE or (len(nodes) != size and not request.nodes_min):
            continue
        mine = promises.job == waiting.id[row]
        start_s = max(float(promises.start_s[mine].max()), snapshot.now_s)
        stay_s = float(waiting.remaining_s[row]) + slack_s
        start = EarliestStart(nodes, start_s)
        others = board.keeping.binding(Seeker(row, request, is_promised=True))
        if can_start(board, request, start, stay_s, others):
            head = Head(row, int(waiting.tier[row]), start, start_s + stay_s)
            kept[row] = kept_for(board, request, head, is_promise=True)
            board.keeping.enter(kept[row])
    return kept
