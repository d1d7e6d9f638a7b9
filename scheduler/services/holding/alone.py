"""How many jobs of others one person may end alone, what they ended lately included."""

from __future__ import annotations

import json
from datetime import datetime

from accounts.models import AuditEvent, User
from scheduler.services.errors import Conflict
from scheduler.states import EndReason
from scheduler.states.seconding import ALONE_AT_MOST, ALONE_WITHIN

_CANCELS = frozenset({str(EndReason.CANCELLED_BY_USER), str(EndReason.CANCELLED_BY_ADMIN)})
# What records many at once, and where it says how many: of arrays and people those that waited, as
# what ran is recorded job by job; of bookings all, as the scheduler ends them.
_MANY = {
    "set.cancel": "waiting_tasks",
    "person.cancel_jobs": "waiting_jobs",
    "booking.cancel": "jobs_of_others",
    "booking.edit": "jobs_of_others",
}
_PROPOSE = "Say why, and a second person is asked to agree."
_AGREED = "bulk_cancel.agree"
_ONE, _STOP = "job.cancelled", "job.stop_requested"


class SecondNeeded(Conflict):
    """Too many jobs of others for one person: it has to be proposed, and a second one to agree."""

    code = "second_person_needed"

    def __init__(self, jobs: int, lately: int, instead: str = _PROPOSE) -> None:
        before = f" after {lately} in the last hour" if lately else ""
        super().__init__(
            f"This ends {jobs} job{'' if jobs == 1 else 's'} of others{before}; one person ends at "
            f"most {ALONE_AT_MOST} within an hour. {instead}",
            facts={"jobs": jobs, "ended_lately": lately, "alone_at_most": ALONE_AT_MOST},
        )


def refuse_alone(actor: User, jobs: int, *, now: datetime, instead: str = _PROPOSE) -> None:
    """Raises SecondNeeded where `jobs` more of others are too many; one statement, none for 0.

    `instead` says what to do where nothing can be proposed in that place.
    """
    if not jobs:
        return
    lately = ended_lately(actor, now=now)
    if jobs + lately > ALONE_AT_MOST:
        raise SecondNeeded(jobs, lately, instead)


def ended_lately(actor: User, *, now: datetime) -> int:
    """Jobs of others that this person ended within the hour, as the audit has them, without what a
    second person agreed to."""
    rows = AuditEvent.objects.filter(
        actor_name=actor.username,
        at__gt=now - ALONE_WITHIN,
        action__in=(*_MANY, _ONE, _STOP, _AGREED),
    )
    found = rows.order_by().values_list("action", "after")
    return max(0, sum(_ended(action, after) for action, after in found))


def _ended(action: str, written: str) -> int:
    """How many jobs this event ended; below 0 where others count those that were agreed to."""
    if action == _ONE:
        return 1
    after = json.loads(written) if written else {}
    if action == _STOP:
        return int(after.get("reason") in _CANCELS)
    if action == _AGREED:
        return -int(after.get("noted_stops", 0))
    return int(after.get(_MANY[action], 0))
