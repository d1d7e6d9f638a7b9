"""What a snapshot is made of beside jobs and devices, read in one statement.

For those who load once, to answer somebody: a way to the database for each of two dozen small
tables is most of what that takes. The scheduler's own loads go on one by one; what a cycle can do
without, it does not read.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import datetime

from accounts.selectors import PROJECTS, TEAMS
from accounts.statements import Asked, asked_together
from scheduler.loop.loading import (
    accounts,
    calendar,
    claims,
    headroom,
    jobs,
    licences,
    whole,
    wishes,
)
from scheduler.loop.loading.cluster import devices, nodes, shares
from scheduler.models import AlertAction
from scheduler.selectors.sharing.limits import NEWEST_RULE, POOL_RULES
from scheduler.services.sharing.alerts import ALERTED
from scheduler.services.sharing.effective import GRANTS
from scheduler.services.sharing.past_use import PAST_USE


def read_together(now: datetime, *more: Asked) -> AbstractContextManager[None]:
    """In the block `policy_in_force` and `load_snapshot` of this moment have read these already;
    `more`: what else the caller will ask."""
    alert = str(AlertAction.BORROWED_ONLY)
    always = (
        (NEWEST_RULE, POOL_RULES),
        (whole.POOLS, whole.QUEUES, nodes.PRESENT),
        (jobs.WAITING, devices.DEVICES, devices.PARTS),
        (shares.HELD, shares.HOLDERS, shares.BARE),
        (PROJECTS, TEAMS, PAST_USE, accounts.RULES, accounts.QUOTAS),
        (wishes.SHAPED, licences.LICENCES, headroom.HEADROOM),
    )
    of_now = (claims.KEPT, calendar.WINDOWS, calendar.BOOKINGS, accounts.BUDGETS, GRANTS)
    return asked_together(
        [
            *((one, ()) for group in always for one in group),
            *((one, (now,)) for one in of_now),
            (nodes.FAILED, (now - whole.FAILED_LATELY,)),
            (ALERTED, (alert, now)),
            *more,
        ]
    )
