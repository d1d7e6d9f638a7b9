"""What holds of limits, borrowing and lending in any snapshot, drawn or read from a database."""

from __future__ import annotations

from collections.abc import Iterator

from scheduler.engine.sharing.cohorts import Cohorts
from scheduler.engine.sharing.quota import Gate
from scheduler.engine.snapshot import NONE, Snapshot


def _changed(before: Gate, then: Gate) -> Iterator[tuple[Cohorts, Cohorts, int]]:
    """Limits as they were and are, for every account that holds more than it did."""
    was, now = before.cohorts, then.cohorts
    for scope in was:
        for row in range(len(before.snapshot.accounts)):
            if now[scope].held[row] > was[scope].held[row]:
                yield was[scope], now[scope], row


def assert_no_limit_exceeded(snapshot: Snapshot, then: Snapshot) -> None:
    """F17: whoever holds more than before holds no more than its limits say."""
    before, behind = Gate(snapshot), Gate(then)
    for was, now, row in _changed(before, behind):
        assert now.maximum[row] == NONE or now.held[row] <= now.maximum[row]
        if now.borrows(row) > was.borrows(row) and now.borrow_limit[row] != NONE:
            assert now.borrows(row) <= now.borrow_limit[row]
    accounts, running = snapshot.accounts, behind.running
    for row in range(len(accounts)):
        if running[row] > before.running[row] and accounts.max_running[row] != NONE:
            assert running[row] <= accounts.max_running[row]


def assert_borrowed_is_lent(then: Snapshot) -> None:
    """F19. In every cohort: what its members borrow is what members and parent have idle and may
    lend, plus what the parent itself borrows. Nobody lends more than its limit or what it needs."""
    limits = then.limits
    for (pool, model), now in Gate(then).cohorts.items():
        for parent in range(len(then.accounts)):
            members = [r for r, up in enumerate(now.tree.parent) if up == parent]
            if not members:
                continue
            direct = now.taken[parent] - sum(max(0, now.taken[r] - now.keeps[r]) for r in members)
            assert direct >= 0
            used = {r: min(now.own[r], max(now.keeps[r], now.taken[r])) for r in members}
            idle = {r: now.own[r] - used[r] for r in members}
            given_to_nobody = now.guaranteed[parent] - sum(now.guaranteed[r] for r in members)
            borrowed = sum(now.taken[r] - min(now.own[r], now.taken[r]) for r in members)
            outside = max(0, now.taken[parent] - now.own[parent])
            assert borrowed + direct <= sum(idle.values()) + given_to_nobody + outside
            assert all(now.lends(r) == idle[r] for r in members if now.tree.parent[r] != NONE)
            for r in members:
                mine = (limits.account == r) & (limits.pool == pool) & (limits.model == model)
                lend = limits.lend_limit[mine]
                if len(lend) and lend[0] != NONE:
                    assert idle[r] <= lend[0] * 1000
