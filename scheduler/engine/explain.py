"""Why each waiting job waits: one reason, and the numbers that make its sentence true."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from scheduler.engine.board import Board
from scheduler.engine.gang import choose_nodes
from scheduler.engine.ordering import count_ahead
from scheduler.engine.placement import eligible_nodes, has_nodes, is_capable
from scheduler.engine.plan import Verdict, Waits
from scheduler.engine.reservation import Head, earliest_start
from scheduler.engine.snapshot import (
    NODE_STATES,
    NONE,
    WHOLE_MILLI,
    Classes,
    Flags,
    Floats,
    Ints,
    Request,
    floats,
    ints,
    rows_by_group,
)
from scheduler.states import WaitReason


def rule_out(board: Board, classes: Classes) -> dict[int, Verdict]:
    """Classes that cannot start whatever becomes free, by class, highest precedence first."""
    verdicts = {}
    for class_row, request in enumerate(classes.requests):
        verdict = _ruled_out(board, request)
        if verdict is not None:
            verdicts[class_row] = verdict
    return verdicts


def _ruled_out(board: Board, request: Request) -> Verdict | None:
    snapshot = board.snapshot
    anywhere = board.in_pool[request.pool]
    if not has_nodes(board, request, board.present_gpus, anywhere):
        ever = is_capable(board, request, board.present_gpus)
        facts = {**_names(board, request), "largest": _largest(board, request, ever)}
        return Verdict(WaitReason.INFEASIBLE_EVER, facts)
    if snapshot.queue_is_paused[request.queue]:
        return Verdict(WaitReason.POOL_CLOSED, _names(board, request))
    if board.is_all_in_order:
        return None
    if not has_nodes(board, request, board.offered_gpus, snapshot.nodes.takes_work):
        facts = {**_names(board, request), **_nodes_down(board, request)}
        return Verdict(WaitReason.NODES_UNHEALTHY, facts)
    return None


def explain_waits(
    board: Board,
    classes: Classes,
    left: Ints,
    ruled_out: Mapping[int, Verdict],
    heads: Mapping[int, Head],
) -> Waits:
    """The waits of the rows `left`, which are in order, on the board as the admission left it.

    A class has one verdict, except that behind a protected head the tier decides between two.
    """
    waiting = board.snapshot.waiting
    class_of = classes.of_job[left]
    verdicts: list[Verdict] = []
    verdict_of = np.full(len(left), NONE, dtype=np.int64)
    next_free = _next_free(board)
    for class_row, rows in rows_by_group(class_of):
        request = classes.requests[class_row]
        head = heads.get(request.pool)
        verdict = ruled_out.get(class_row) or _no_room(board, request, next_free)
        if verdict is not None:
            verdict_of[rows] = len(verdicts)
            verdicts.append(verdict)
            continue
        assert head is not None, "a job that fits and is not started is behind a protected head"
        outranked = ints(waiting.tier[left[rows]] < head.tier)
        verdict_of[rows] = len(verdicts) + outranked
        verdicts += _behind(board, request, head)
    may_start = ~np.isin(class_of, list(ruled_out))
    ahead = np.zeros(len(left), dtype=np.int64)
    ahead[may_start] = count_ahead(waiting.pool[left[may_start]])
    starts_s = _expected_starts(board, classes, left, may_start & (ahead == 0), heads)
    return Waits(waiting.id[left], ints(verdict_of), ints(ahead), starts_s, tuple(verdicts))


def _no_room(board: Board, request: Request, next_free: Mapping[int, int]) -> Verdict | None:
    """Why free capacity does not hold the request; None if it does, reservations aside."""
    fit = eligible_nodes(board, request, past_reservations=True)
    best = int(np.count_nonzero(fit))
    if best >= request.nodes and (
        not request.part_gpus or choose_nodes(board, request, past_reservations=True) is not None
    ):
        return None
    here = board.in_pool[request.pool]
    free_gpus = board.free_of(request)
    free = int(free_gpus[here].sum())
    # CPUs and memory are named only where they, not devices, keep a node from holding a share.
    short_of_host = bool(((free_gpus >= request.gpus) & here & ~fit).any())
    facts = {
        **_names(board, request),
        "need": need_words(board, request, with_host=short_of_host),
        "free": free,
        "total": int(board.present_gpus[request.model][here].sum()),
        "next_free_at": next_free.get(request.pool),
    }
    if free < request.total_gpus or not request.gpus:
        return Verdict(WaitReason.CAPACITY_BUSY, facts)
    return Verdict(WaitReason.TOPOLOGY_FRAGMENTED, {**facts, "best": best})


def _behind(board: Board, request: Request, head: Head) -> list[Verdict]:
    """The verdicts behind a head of the same tier, and of a higher one."""
    facts = {**_names(board, request), "head": int(board.snapshot.waiting.id[head.row])}
    return [
        Verdict(WaitReason.BACKFILL_WOULD_DELAY_HEAD, facts),
        Verdict(WaitReason.BEHIND_HIGHER_PRIORITY, facts),
    ]


def _expected_starts(
    board: Board, classes: Classes, left: Ints, is_first: Flags, heads: Mapping[int, Head]
) -> Floats:
    """For the first job of each pool, when time limits alone free enough for it; else NaN."""
    starts_s = floats(np.full(len(left), np.nan))
    for row in np.flatnonzero(is_first).tolist():
        request = classes.requests[int(classes.of_job[left[row]])]
        head = heads.get(request.pool)
        if head is not None and head.row == left[row]:
            starts_s[row] = head.start.start_s
            continue
        start = earliest_start(board, request)
        if start is not None:
            starts_s[row] = start.start_s
    return starts_s


def _names(board: Board, request: Request) -> dict[str, object]:
    snapshot = board.snapshot
    return {
        "pool": snapshot.pools[request.pool],
        "queue": snapshot.queues[request.queue],
        "need": need_words(board, request, with_host=False),
    }


def need_words(board: Board, request: Request, *, with_host: bool) -> str:
    """Such as "2 nodes x 4 H100", or "1 GPU with 64 CPUs and 512 GiB"."""
    words = gpu_words(request.gpus, _model(board, request))
    if request.is_share:
        words = f"{request.gpu_milli / WHOLE_MILLI:g} {_model(board, request) or 'GPU'}"
    if not request.gpus:
        words = f"{request.cpus} CPUs and {_size(request.memory_mib)}"
        with_host = False
    if request.nodes > 1:
        words = f"{request.nodes} nodes x {words}"
    if request.part_gpus:
        words += f" and 1 node x {gpu_words(request.part_gpus, _model(board, request))}"
    if with_host:
        words += f" with {request.cpus} CPUs and {_size(request.memory_mib)}"
        words += " on each" if request.nodes > 1 else ""
    return words


def gpu_words(count: int, model: str) -> str:
    """Such as "4 H100" or "1 GPU"."""
    return f"{count} {model}" if model else f"{count} GPU{'' if count == 1 else 's'}"


def _model(board: Board, request: Request) -> str:
    """The model it asks for, such as "H100" or "A100 or H100"; nothing if it takes any."""
    if request.model == NONE:
        return ""
    takes = np.flatnonzero(board.accepts[request.model]).tolist()
    return " or ".join(board.snapshot.models[model] for model in takes)


def _size(mib: int) -> str:
    return f"{mib / 1024:.4g} GiB" if mib >= 1024 else f"{mib} MiB"


def _largest(board: Board, request: Request, capable: Flags) -> str:
    """The node of the pool that comes closest, in words, and how many hold one share."""
    nodes = board.snapshot.nodes
    rows = np.flatnonzero(board.in_pool[request.pool])
    if not len(rows):
        return "nothing, because the pool has no nodes yet"
    if request.is_share and not board.shares_cards(request.model)[rows].any():
        return "no GPU that may be shared"
    gpus = board.present_gpus[request.model]
    best = rows[np.lexsort((nodes.memory_total_mib[rows], nodes.cpus_total[rows], gpus[rows]))[-1]]
    words = gpu_words(int(gpus[best]), _model(board, request))
    words += f", {int(nodes.cpus_total[best])} CPUs and {_size(int(nodes.memory_total_mib[best]))}"
    count = int(np.count_nonzero(capable))
    if count:
        words += f", and only {count} {'nodes hold' if count > 1 else 'node holds'} one share"
    return words


def _nodes_down(board: Board, request: Request) -> dict[str, object]:
    """How many nodes of the pool do not offer all they have, and why."""
    nodes = board.snapshot.nodes
    here = board.in_pool[request.pool]
    closed = here & ~nodes.takes_work
    counts = np.bincount(nodes.state[closed], minlength=len(NODE_STATES))
    words = [f"{count} {NODE_STATES[s]}" for s, count in enumerate(counts.tolist()) if count]
    gpus_missing = board.present_gpus[NONE] - board.offered_gpus[NONE]
    broken = here & nodes.takes_work & (gpus_missing > 0)
    if broken.any():
        words.append(f"{int(np.count_nonzero(broken))} with GPUs out of order")
    return {
        "nodes": int(np.count_nonzero(here)),
        "down": int(np.count_nonzero(closed | broken)),
        "states": ", ".join(words),
    }


def _next_free(board: Board) -> dict[int, int]:
    """By pool: the minute by which the next devices come free; absent if nobody knows."""
    node, _, _, until_s = board.holders()
    counts = (until_s > board.snapshot.now_s) & np.isfinite(until_s)
    soonest_s = np.full(len(board.snapshot.pools), np.inf)
    np.minimum.at(soonest_s, board.snapshot.nodes.pool[node[counts]], until_s[counts])
    return {row: int(-(-s // 60) * 60) for row, s in enumerate(soonest_s.tolist()) if s < np.inf}
