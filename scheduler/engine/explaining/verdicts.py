"""The walk down the precedence: one verdict for every waiting job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from scheduler.engine.board import Board
from scheduler.engine.explaining.case import Case
from scheduler.engine.explaining.precedence import CHECKS
from scheduler.engine.forecasting import FORECAST_REASONS, forecast_starts
from scheduler.engine.ordering import count_ahead
from scheduler.engine.plan import Forecast, Verdict, Waits
from scheduler.engine.reservation import Head
from scheduler.engine.snapshot import (
    NONE,
    Classes,
    Floats,
    Ints,
    floats,
    ints,
    rows_by_group,
)


def rule_out(board: Board, classes: Classes) -> dict[int, Verdict]:
    """Classes that cannot start whatever becomes free, by class, highest precedence first."""
    verdicts = {}
    checks = [check for check in CHECKS if check.rules_out]
    for class_row, request in enumerate(classes.requests):
        case = Case(board, request, class_row)
        for check in checks:
            finding = check.find(case)
            if finding is not None:
                verdicts[class_row] = Verdict(check.reason, finding.facts)
                break
    return verdicts


def explain_waits(
    board: Board,
    classes: Classes,
    left: Ints,
    ruled_out: Mapping[int, Verdict],
    heads: Mapping[int, Head],
) -> Waits:
    """The waits of the rows `left`, which are in order, on the board as the admission left it.

    A class has one verdict, unless a check concerns some of its jobs only.
    """
    waiting = board.snapshot.waiting
    class_of = classes.of_job[left]
    verdicts: list[Verdict] = []
    verdict_of = np.full(len(left), NONE, dtype=np.int64)
    next_free = _next_free(board)
    for class_row, rows in rows_by_group(class_of):
        request = classes.requests[class_row]
        if class_row in ruled_out:
            verdict_of[rows] = len(verdicts)
            verdicts.append(ruled_out[class_row])
            continue
        head, free_at = heads.get(request.pool), next_free.get(request.pool)
        for found, verdict in _verdicts(Case(board, request, class_row, left[rows], head, free_at)):
            verdict_of[rows[found]] = len(verdicts)
            verdicts.append(verdict)
    may_start = ~np.isin(class_of, list(ruled_out))
    ahead = np.zeros(len(left), dtype=np.int64)
    ahead[may_start] = count_ahead(waiting.pool[left[may_start]])
    forecast = _forecast(board, classes, left, ints(verdict_of), verdicts, heads)
    return Waits(waiting.id[left], ints(verdict_of), ints(ahead), tuple(verdicts), forecast)


def _forecast(
    board: Board,
    classes: Classes,
    left: Ints,
    verdict_of: Ints,
    verdicts: Sequence[Verdict],
    heads: Mapping[int, Head],
) -> Forecast:
    """The starts of those who wait for room, worked out when somebody asks for one."""
    for_room = [row for row, v in enumerate(verdicts) if v.reason in FORECAST_REASONS]
    at = np.flatnonzero(np.isin(verdict_of, for_room))

    def work_out() -> tuple[Floats, Floats]:
        table = np.full((2, len(left)), np.nan)
        table[:, at] = forecast_starts(board, classes, ints(left[at]), heads)
        return floats(table[0]), floats(table[1])

    return Forecast(work_out, board.snapshot.now_s)


def _verdicts(case: Case) -> list[tuple[Ints, Verdict]]:
    """Each verdict with the positions in `case.rows` that it is for."""
    found: list[tuple[Ints, Verdict]] = []
    open_at = ints(np.arange(len(case.rows)))
    for check in CHECKS:
        if check.rules_out:
            continue
        finding = check.find(replace(case, rows=case.rows[open_at]))
        if finding is None:
            continue
        concerns = finding.concerns
        if concerns is None:
            return [*found, (open_at, Verdict(check.reason, finding.facts))]
        found.append((open_at[concerns], Verdict(check.reason, finding.facts)))
        open_at = open_at[~concerns]
        if not len(open_at):
            return found
    raise AssertionError("a job that fits, breaks no rule and is behind nobody was not started")


def _next_free(board: Board) -> dict[int, int]:
    """By pool: the minute by which the next devices come free; absent if nobody knows."""
    node, _, _, until_s = board.holders()
    counts = (until_s > board.snapshot.now_s) & np.isfinite(until_s)
    soonest_s = np.full(len(board.snapshot.pools), np.inf)
    np.minimum.at(soonest_s, board.snapshot.nodes.pool[node[counts]], until_s[counts])
    return {row: int(-(-s // 60) * 60) for row, s in enumerate(soonest_s.tolist()) if s < np.inf}
