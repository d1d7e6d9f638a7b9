"""The highest price with which the budgets of a waiting job would let it start."""

from __future__ import annotations

import numpy as np

from scheduler.engine.sharing.purse import bounds_of
from scheduler.engine.sharing.quota import Gate
from scheduler.engine.snapshot import ANY_AMOUNT, NONE, Snapshot, classes_of

_HUNDREDTHS = 100


def paid_price(snapshot: Snapshot, row: int) -> float | None:
    """What the budgets in money above the job have left, in whole hundredths of the currency and
    the unit of `Waiting.most_cost`; None where they pay for it as it is, or have nothing."""
    waiting, accounts = snapshot.waiting, snapshot.accounts
    account, (_, unit) = int(waiting.account[row]), snapshot.money
    if account == NONE or not np.isfinite(accounts.budget_money).any():
        return None
    gate = Gate(snapshot)
    request = classes_of(waiting.take(np.asarray([row]))).requests[0]
    if gate.is_paid(request, account, bounds_of(waiting, row)):
        return None
    left = min(float(accounts.budget_money[one]) for one in gate.tree.way_up(account))
    if not np.isfinite(left) or left >= ANY_AMOUNT:
        return None
    paid = np.floor(left / unit * _HUNDREDTHS) * unit / _HUNDREDTHS
    return float(paid) if paid > 0 else None
