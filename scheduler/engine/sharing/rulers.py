"""Accounts whose jobs may all start just the same."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from scheduler.engine.sharing.cohorts import Cohorts
from scheduler.engine.sharing.holdings import Scope
from scheduler.engine.sharing.purse import Purse
from scheduler.engine.sharing.tree import Tree
from scheduler.engine.snapshot import NONE, Ints, Snapshot, ints


def find_rulers(
    snapshot: Snapshot, tree: Tree, cohorts: Mapping[Scope, Cohorts], purse: Purse
) -> Ints:
    """By account, the nearest on its way up that has a rule, takes part in one or pays by its own
    prices; else the top. All below it may start just the same. The last is nobody's."""
    accounts, size = snapshot.accounts, len(snapshot.accounts)
    has_rule = accounts.max_gpus_per_job != NONE
    has_rule |= (accounts.max_running != NONE) | np.isfinite(accounts.budget_gpu_s)
    has_rule |= np.isfinite(accounts.budget_money)
    for limits in cohorts.values():
        has_rule |= limits.are_limited()
    rulers, pays_by = [NONE] * (size + 1), purse.list_of
    for row, parent in enumerate(tree.parent):
        is_one = has_rule[row] or parent == NONE or pays_by(row) != pays_by(parent)
        rulers[row] = row if is_one else rulers[parent]
    return ints(rulers)
