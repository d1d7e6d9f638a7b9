"""The walk down the precedence: one verdict for every waiting job."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from scheduler.engine.board import Board
from scheduler.engine.explaining.case import Case, Check, Finding
from scheduler.engine.explaining.precedence import CHECKS
from scheduler.engine.forecasting import (
    FORECAST_REASONS,
    LIMIT_REASONS,
    Lined,
    forecast_start,
    forecast_starts,
)
from scheduler.engine.grouping import group_rows
from scheduler.engine.ordering import count_ahead
from scheduler.engine.plan import Forecast, Verdict, Waits
from scheduler.engine.reservation import Head
from scheduler.engine.sharing.quota import Gate
from scheduler.engine.snapshot import (
    NONE,
    Classes,
    Flags,
    Floats,
    Ints,
    Request,
    flags,
    floats,
    ints,
    rows_by_group,
)
from scheduler.states import WaitReason

_NEVER = WaitReason.INFEASIBLE_EVER
_BY_ACCOUNT = [check for check in CHECKS if check.by_account]
_BY_BOARD = [check for check in CHECKS if not check.by_account]


def rule_out(board: Board, classes: Classes) -> dict[int, Verdict]:
    """Classes that cannot start whatever becomes free, by class, highest precedence first."""
    verdicts = {}
    # Where no queue is paused, queues rule nobody out.
    is_paused = bool(board.snapshot.queue_is_paused.any())
    checks = [check for check in CHECKS if check.rules_out and (is_paused or not check.by_queue)]
    known: dict[tuple[int, WaitReason], Sequence[Finding]] = {}
    rooms = classes.room.tolist()
    for class_row, request in enumerate(classes.requests):
        room = rooms[class_row]
        for check in checks:
            findings = None if check.by_queue else known.get((room, check.reason))
            if findings is None:
                findings = findings_of(check, Case(board, request, class_row))
                known[room, check.reason] = findings
            if findings:
                verdict = Verdict(check.reason, findings[0].facts)
                verdicts[class_row] = _in_queue(board, verdict, request)
                break
    return verdicts


def explain_waits(
    board: Board,
    classes: Classes,
    left: Ints,
    ruled_out: Mapping[int, Verdict],
    heads: Mapping[int, Sequence[Head]],
    gate: Gate,
) -> Waits:
    """The waits of the rows `left`, which are in order, on the board as the admission left it.

    Classes that differ in their queue alone are explained together, and have one verdict unless a
    check concerns some of their jobs only.
    """
    waiting = board.snapshot.waiting
    class_of = classes.of_job[left]
    told = _Told(len(left))
    _tell_accounts(board, classes, left, ruled_out, gate, told)
    is_kept_back = told.verdict_of != NONE
    next_free = _next_free(board)
    is_ruled_out = np.isin(class_of, list(ruled_out))
    never = ints(np.flatnonzero(~is_kept_back & is_ruled_out))
    for class_row, at in rows_by_group(class_of[never]):
        told.tell(never[at], ruled_out[class_row])
    may_start = ~is_ruled_out & ~is_kept_back
    open_rows = ints(np.flatnonzero(may_start))
    for _, at in rows_by_group(classes.room[class_of[open_rows]]):
        rows = open_rows[at]
        class_row = int(class_of[rows[0]])
        request = classes.requests[class_row]
        first = tuple(heads.get(request.pool, ()))
        free_at = next_free[bool(request.gpus)].get(request.pool)
        case = Case(board, request, class_row, left[rows], first, free_at, gate)
        for within, verdict in _verdicts(case, _BY_BOARD):
            for member, some in rows_by_group(class_of[rows[within]]):
                whose = classes.requests[member]
                told.tell(rows[within][some], _in_queue(board, verdict, whose))
    ahead = np.zeros(len(left), dtype=np.int64)
    ahead[may_start] = count_ahead(waiting.pool[left[may_start]])
    for_room = _has_reason(told, FORECAST_REASONS)
    # Whose queue is paused waits for that as well.
    for_limit = _has_reason(told, LIMIT_REASONS) & ~is_ruled_out
    at = ints(np.flatnonzero(for_room | for_limit))
    forecast = _forecast(Lined(board, classes, left[at], for_room[at], heads, gate), at, len(left))
    return Waits(waiting.id[left], told.verdict_of, ints(ahead), tuple(told.verdicts), forecast)


def _in_queue(board: Board, verdict: Verdict, request: Request) -> Verdict:
    """The verdict on a class, as another one that waits in this request's queue is told it."""
    name = board.snapshot.queues[request.queue]
    if verdict.facts.get("queue", name) == name:
        return verdict
    return Verdict(verdict.reason, {**verdict.facts, "queue": name})


def _has_reason(told: _Told, reasons: Collection[WaitReason]) -> Flags:
    """By row whether it waits for one of these."""
    verdicts = [row for row, verdict in enumerate(told.verdicts) if verdict.reason in reasons]
    return flags(np.isin(told.verdict_of, verdicts))


def _forecast(lined: Lined, at: Ints, size: int) -> Forecast:
    """The starts of those at these places of `size`, worked out when somebody asks for one."""

    def work_out() -> tuple[Floats, Floats]:
        table = np.full((2, size), np.nan)
        table[:, at] = forecast_starts(lined)
        return floats(table[0]), floats(table[1])

    def work_out_one(row: int) -> tuple[float, float]:
        place = int(np.searchsorted(at, row))
        if place == len(at) or at[place] != row:
            return np.nan, np.nan
        return forecast_start(lined, place)

    return Forecast(work_out, work_out_one, lined.board.snapshot.now_s)


class _Told:
    """The verdicts so far, and the one of each row, -1 for none yet."""

    def __init__(self, size: int) -> None:
        self.verdicts: list[Verdict] = []
        self.verdict_of: Ints = ints(np.full(size, NONE))

    def tell(self, rows: Ints, verdict: Verdict) -> None:
        self.verdict_of[rows] = len(self.verdicts)
        self.verdicts.append(verdict)

    def tell_all(self, rows: Ints, found: Sequence[tuple[Ints, Verdict]]) -> None:
        for at, verdict in found:
            self.tell(rows[at], verdict)


def _tell_accounts(
    board: Board,
    classes: Classes,
    left: Ints,
    ruled_out: Mapping[int, Verdict],
    gate: Gate,
    told: _Told,
) -> None:
    """Who is kept back by what its account has: asked once for each account and kind of request.

    Only a class that can never start has a reason that comes before these.
    """
    if gate.is_open or not len(left):
        return
    never = [row for row, verdict in ruled_out.items() if verdict.reason is _NEVER]
    class_of = classes.of_job[left]
    account = gate.ruled_by[board.snapshot.waiting.account[left]]
    asked = ints(np.flatnonzero((account != NONE) & ~np.isin(class_of, never)))
    kind_of = group_rows([ints(column) for column in _kinds(classes, gate)])[1]
    pair_of = group_rows([kind_of[class_of[asked]], account[asked]])[1]
    for _, at in rows_by_group(pair_of):
        rows = asked[at]
        class_row = int(class_of[rows[0]])
        request = classes.requests[class_row]
        if not gate.has_budgets and gate.over_quota(request, int(account[rows[0]])) is None:
            continue
        case = Case(board, request, class_row, left[rows], gate=gate)
        told.tell_all(rows, _verdicts(case, _BY_ACCOUNT))


def _kinds(classes: Classes, gate: Gate) -> list[tuple[int, ...]]:
    """Columns by class; classes that are equal in all ask for the same GPUs in the same shape, and
    for as much at least."""
    rows = [
        (r.pool, r.model, r.nodes, r.gpus, r.part_gpus, r.gpu_milli, gate.least_milli(r))
        for r in classes.requests
    ]
    return list(zip(*rows, strict=True))


def _verdicts(case: Case, checks: Sequence[Check]) -> list[tuple[Ints, Verdict]]:
    """Each verdict with the positions in `case.rows` that it is for; the first check decides."""
    found: list[tuple[Ints, Verdict]] = []
    rows, open_at = case.rows, ints(np.arange(len(case.rows)))
    for check in checks:
        if check.rules_out:
            continue
        if len(open_at) < len(case.rows):
            case = replace(case, rows=rows[open_at])
        if not (findings := findings_of(check, case)):
            continue
        left = np.ones(len(open_at), dtype=np.bool_)
        for finding in findings:
            concerns = left if finding.concerns is None else finding.concerns
            if concerns.any():
                found.append((open_at[concerns], Verdict(check.reason, finding.facts)))
                left = left & ~concerns
        open_at = open_at[left]
        if not len(open_at):
            return found
    if not all(check.by_account for check in checks):
        # A gap in the checks, which the properties look for; it must not stop everybody's plan.
        found.append((open_at, Verdict(WaitReason.EVALUATING)))
    return found


def findings_of(check: Check, case: Case) -> Sequence[Finding]:
    """What a check finds, none if it passes."""
    found = check.find(case)
    if found is None:
        return ()
    return (found,) if isinstance(found, Finding) else found


def _next_free(board: Board) -> tuple[dict[int, int], dict[int, int]]:
    """By pool: the minute by which the next holder is gone, and the next that holds GPUs on offer;
    absent if nobody knows."""
    node, _, _, until_s = board.holders()
    pool_of = board.snapshot.nodes.pool[node]
    ends = (until_s > board.snapshot.now_s) & np.isfinite(until_s)
    slices = board.snapshot.slices
    has_gpus = np.zeros(len(until_s), dtype=bool)
    has_gpus[board.holder[board.is_offered & ~board.is_free]] = True
    has_gpus[slices.holder[board.is_offered[slices.device]]] = True

    def soonest(counts: Flags) -> dict[int, int]:
        soonest_s = np.full(len(board.snapshot.pools), np.inf)
        np.minimum.at(soonest_s, pool_of[counts], until_s[counts])
        return {
            row: int(-(-s // 60) * 60) for row, s in enumerate(soonest_s.tolist()) if s < np.inf
        }

    return soonest(flags(ends)), soonest(flags(ends & has_gpus))
