"""Reasons that lie in what the job's account holds, may hold and has left.

Their facts name no queue: jobs of several queues that ask for the same GPUs share them.
"""

from __future__ import annotations

import numpy as np

from scheduler.engine.explaining.case import Case, Finding
from scheduler.engine.explaining.words import need_words
from scheduler.engine.sharing.purse import Bounds
from scheduler.engine.sharing.quota import Refusal
from scheduler.engine.snapshot import Flags, Floats, Ints, flags
from scheduler.states import WaitReason


def find_over_budget(case: Case) -> list[Finding] | None:
    """Its worst case is more than the budget has left."""
    gate = case.gate
    if gate is None or not gate.has_budgets:
        return None
    waiting, found = case.board.snapshot.waiting, []
    limits_s, most = waiting.time_limit_s[case.rows], waiting.most_cost[case.rows]
    for limit_s, cost in _bounds(limits_s, most):
        refusal = gate.over_budget(case.request, _account(case), Bounds(limit_s, cost))
        if refusal is not None:
            concerns = flags((limits_s == limit_s) & (most == cost))
            found.append(_finding(case, refusal, concerns))
    return found


def _bounds(limits_s: Ints, most: Floats) -> list[tuple[int, float]]:
    """Every pair of the two that there is, in order. Hardly anybody names a highest price."""
    if len(most) and (most == most[0]).all():
        return [(limit_s, float(most[0])) for limit_s in np.unique(limits_s).tolist()]
    return sorted(set(zip(limits_s.tolist(), most.tolist(), strict=True)))


def find_over_limit(case: Case) -> Finding | None:
    """A cap, or the most that an account may hold."""
    return _over_quota(case, WaitReason.QUOTA_HARD)


def find_over_borrowing(case: Case) -> Finding | None:
    """The account has all that is its own and can borrow no more."""
    return _over_quota(case, WaitReason.QUOTA_BORROW_LIMIT)


def measure_budget(case: Case) -> tuple[str, str]:
    """What its worst case is, and what is left of the budget it is too much for."""
    found = find_over_budget(case)
    if not found:
        return "", ""
    return f"{found[0].facts.get('asks', '')}", f"{found[0].facts.get('left', '')} left"


def measure_limit(case: Case) -> tuple[str, str]:
    """What it adds to what the account holds, where that is too much."""
    return _measured(find_over_limit(case))


def is_over_limit(case: Case) -> bool:
    """Nobody looks at what it would borrow while it is over a limit."""
    return find_over_limit(case) is not None


def measure_borrowing(case: Case) -> tuple[str, str]:
    """What it adds to what the account has borrowed, where that is too much."""
    return _measured(find_over_borrowing(case))


def _measured(found: Finding | None) -> tuple[str, str]:
    if found is None:
        return "", ""
    facts = found.facts
    return f"{facts['gpus']} {facts['cap']} more", f"{facts['used']} of {facts['limit']} taken"


def _over_quota(case: Case, reason: WaitReason) -> Finding | None:
    if case.gate is None or case.gate.is_open:
        return None
    refusal = case.gate.over_quota(case.request, _account(case))
    if refusal is None or refusal.reason is not reason:
        return None
    return _finding(case, refusal)


def _account(case: Case) -> int:
    return int(case.board.snapshot.waiting.account[case.rows[0]])


def _finding(case: Case, refusal: Refusal, concerns: Flags | None = None) -> Finding:
    names = {
        "pool": case.board.snapshot.pools[case.request.pool],
        "need": need_words(case.board, case.request, with_host=False),
    }
    return Finding({**names, **refusal.facts}, concerns)
