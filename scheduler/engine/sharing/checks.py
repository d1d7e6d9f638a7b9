"""Accounts and limits that contradict themselves are refused by name."""

from __future__ import annotations

import numpy as np

from scheduler.engine.grouping import group_rows
from scheduler.engine.snapshot import NONE, Flags, Ints, Snapshot, SnapshotInvalid


def check_accounts(snapshot: Snapshot) -> None:
    """Refuse a tree with a circle, and figures that make no sense; raises SnapshotInvalid."""
    accounts, limits, size = snapshot.accounts, snapshot.limits, len(snapshot.accounts)
    for table in (accounts, limits):
        if len(table.lengths()) > 1:
            raise SnapshotInvalid(f"the columns of {type(table).__name__} differ in length")
    before = (accounts.parent >= NONE) & (accounts.parent < np.arange(size))
    _need("accounts.parent", before, "comes after its child, or the tree has a circle")
    _need("accounts.weight", (accounts.weight > 0) & np.isfinite(accounts.weight))
    _need("accounts.used_gpu_s", (accounts.used_gpu_s >= 0) & np.isfinite(accounts.used_gpu_s))
    _need("accounts.max_gpus_per_job", accounts.max_gpus_per_job >= NONE)
    _need("accounts.max_running", accounts.max_running >= NONE)
    # A budget that was lowered below what is committed has less than nothing left.
    _need("accounts.budget_gpu_s", ~np.isnan(accounts.budget_gpu_s))
    _need("accounts.budget_money", ~np.isnan(accounts.budget_money))
    _need("limits.account", (limits.account >= 0) & (limits.account < size))
    _need("limits.pool", _rows(limits.pool, len(snapshot.pools)), "is no pool")
    _need("limits.model", _rows(limits.model, len(snapshot.models)), "is no model")
    _need("limits.guaranteed", limits.guaranteed >= 0)
    for name in ("borrow_limit", "lend_limit", "maximum"):
        _need(f"limits.{name}", getattr(limits, name) >= NONE)
    first, _ = group_rows([limits.account, limits.pool, limits.model])
    if len(first) < len(limits.account):
        raise SnapshotInvalid("limits has two rows for one account, pool and model")
    for name in ("account", "sharer"):
        _need(f"held.{name}", _rows(getattr(snapshot.held, name), size), "is no account")


def check_job_accounts(snapshot: Snapshot, column: Ints) -> Flags:
    """Which rows of waiting jobs name an account, or none."""
    return _rows(column, len(snapshot.accounts))


def _rows(column: Ints, count: int) -> Flags:
    return np.asarray((column >= NONE) & (column < count))


def _need(name: str, holds: Flags, problem: str = "has a value that makes no sense") -> None:
    if not holds.all():
        row = int(np.flatnonzero(~holds)[0])
        raise SnapshotInvalid(f"{name} {problem} (row {row})")
