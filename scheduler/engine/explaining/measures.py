"""What a check needs and what is there, in words, whether it fails or not."""

from __future__ import annotations

import numpy as np

from scheduler.engine.explaining.case import Case
from scheduler.engine.explaining.words import gpu_words, model_words, need_words, spread_words
from scheduler.engine.placement import eligible_nodes, is_capable
from scheduler.engine.shaping.nodes import group_of
from scheduler.engine.shaping.sizes import least_size
from scheduler.engine.shaping.topology import PREFERRED, best_count, count_groups
from scheduler.engine.snapshot import NONE, ints


def measure_capable(case: Case) -> tuple[str, str]:
    """Nodes that could hold a share if they were empty and in order."""
    board, request = case.board, case.request
    count = int(np.count_nonzero(is_capable(board, request, board.present_gpus)))
    return need_words(board, request, with_host=True), f"{_nodes(count)} large enough"


def measure_queue(case: Case) -> tuple[str, str]:
    """Whether its queue is open."""
    snapshot = case.board.snapshot
    is_paused = bool(snapshot.queue_is_paused[case.request.queue])
    name = snapshot.queues[case.request.queue]
    return f"queue {name} open", "paused" if is_paused else "open"


def measure_in_order(case: Case) -> tuple[str, str]:
    """Large enough nodes that take work now."""
    board, request = case.board, case.request
    capable = is_capable(board, request, board.offered_gpus) & board.snapshot.nodes.takes_work
    least = least_size(board.snapshot, request)
    return f"{_nodes(least)} in order", f"{int(np.count_nonzero(capable))} in order"


def measure_free(case: Case) -> tuple[str, str]:
    """Devices that are free in its pool."""
    board, request = case.board, case.request
    if not request.gpus:
        return need_words(board, request, with_host=False), _nodes_with_room(case)
    free = int(board.free_of(request)[board.in_pool[request.pool]].sum())
    need = gpu_words(request.least_gpus, model_words(board, request))
    return f"{need} free", f"{free} free"


def measure_room(case: Case) -> tuple[str, str]:
    """Nodes that hold a share now, in one rack or in equal parts if it asks for that."""
    snapshot, request = case.board.snapshot, case.request
    need = f"{_nodes(least_size(snapshot, request))} with room"
    if not request.topology or request.spread == PREFERRED:
        return need, _nodes_with_room(case)
    fit = eligible_nodes(case.board, request)
    counts = count_groups(group_of(snapshot, request), ints(np.flatnonzero(fit)))
    best, where = best_count(counts, request.nodes, request.spread), spread_words(request)
    return f"{need} {where}", f"{_nodes(best)} with room {where}"


def measure_cards(case: Case) -> tuple[str, str]:
    """Free devices on cards that its tenant may come to."""
    board, request = case.board, case.request
    free = int(board.free_of(request)[board.in_pool[request.pool]].sum())
    in_all = int(board.free_of(request, past_tenants=True)[board.in_pool[request.pool]].sum())
    return "free GPUs on cards its team may use", f"{free} of {in_all}"


def measure_licences(case: Case) -> tuple[str, str]:
    """Tokens of its licences."""
    board, snapshot = case.board, case.board.snapshot
    if case.request.licences == NONE:
        return "no licence", "none"
    needs, free = board.licences.needs[case.request.licences], board.licences.free
    rows = np.flatnonzero(needs).tolist()
    asked = [f"{needs[row]} {snapshot.licences[row]}" for row in rows]
    there = [f"{free[row]} of {snapshot.licence_total[row]} free" for row in rows]
    return ", ".join(asked), ", ".join(there)


def measure_head(case: Case) -> tuple[str, str]:
    """For whom room is kept."""
    if not case.heads:
        return "no job ahead that room is kept for", "none"
    jobs = case.board.snapshot.waiting.id[[head.row for head in case.heads]].tolist()
    words = f"job{'s' if len(jobs) > 1 else ''} {', '.join(map(str, jobs))}"
    return "no job ahead that room is kept for", words


def _nodes_with_room(case: Case) -> str:
    fit = eligible_nodes(case.board, case.request)
    return f"{_nodes(int(np.count_nonzero(fit)))} with room"


def _nodes(count: int) -> str:
    return f"{count} node{'' if count == 1 else 's'}"
