"""Limits of a pool or model beside those of a part of it: which of them a request has to keep."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.engine.sharing.cohorts import Bound, Cohorts, Shortage
from scheduler.engine.sharing.holdings import Scope
from scheduler.engine.snapshot import NONE

# What it is about, and what accounts hold of that.
Limit = tuple[Scope, Cohorts]


def shortage_within(
    limit: Limit, concerned: Sequence[Limit], takes_several: bool, account: int, milli: int
) -> Shortage | None:
    """What keeps the account from holding so much more within the limit, one of those `concerned`.

    Where nobody keeps anything idle, that there is no more is left to the nodes: for a request that
    `takes_several` models where the limit is one of them, and for what is the account's own by a
    limit within this one.
    """
    scope, cohorts = limit
    short = cohorts.shortage(account, milli)
    if short is None or short.bound is not Bound.COHORT or cohorts.keeps_idle[short.account]:
        return short
    if takes_several and scope[1] != NONE:
        return None
    is_own = any(
        _is_part(finer, scope)
        and not (takes_several and finer[1] != NONE)
        and found.is_guaranteed(account, milli)
        for finer, found in concerned
    )
    return None if is_own else short


def is_out_of_reach(concerned: Sequence[Limit], account: int, milli: int) -> bool:
    """Whether others keep so much to themselves that the account never has as much, whoever ends.

    Said only where one limit counts, of all models: of several, a finer one may leave it to the
    nodes.
    """
    if len(concerned) != 1:
        return False
    ((_, model), cohorts) = concerned[0]
    return model == NONE and any(cohorts.keeps) and not cohorts.is_in_reach(account, milli)


def _is_part(finer: Scope, scope: Scope) -> bool:
    """Whether all that falls under the one falls under the other, too."""
    pairs = zip(scope, finer, strict=True)
    return finer != scope and all(mine in (NONE, its) for mine, its in pairs)
