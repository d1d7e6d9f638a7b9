"""Reopening a closed month: two people, with a reason; nothing that was posted is taken away."""

from __future__ import annotations

from django.db import transaction

from accounts.models import User
from accounts.services.audit import record
from scheduler.ledger.periods import PeriodState
from scheduler.models import Period
from scheduler.services import transitions
from scheduler.services.books.posting import require_bookkeeper, require_unchanged
from scheduler.services.errors import Conflict, Invalid, NotFound


@transaction.atomic
def reopen_period(
    *, actor: User, period: str, reason: str = "", seen: str = "", decline: bool = False
) -> Period:
    """The first person proposes, with a reason; the second one reopens. Raises Conflict.

    Returns the month: still closed after the first call, reopened after the second. `seen`: the
    stamp of the month that was looked at; empty for callers that look at it now. `decline`: the
    month stays closed, and what was proposed is off; whoever proposed it takes it back so.
    """
    require_bookkeeper(actor)
    row = Period.objects.select_for_update().filter(name=period).first()
    if row is None:
        raise NotFound("There are no books for this month.")
    require_unchanged(row, seen)
    if row.state != PeriodState.CLOSED:
        raise Conflict(f"{row.name} is {row.state.replace('_', ' ')}, not closed.")
    if decline:
        return _decline(row, actor, reason)
    if row.reopen_proposed_by_id is None:
        if not reason.strip():
            raise Invalid("Say why the month has to be reopened.", field="reason")
        row.reopen_proposed_by, row.reopen_reason = actor, reason.strip()[:255]
        row.save(update_fields=["reopen_proposed_by", "reopen_reason"])
        record(actor, "period.propose_reopening", row, reason=row.reopen_reason)
        return row
    if row.reopen_proposed_by_id == actor.pk:
        raise Conflict("You proposed to reopen it; another person has to agree.")
    before = {"state": row.state, "version": row.version}
    transitions.move_period(row, PeriodState.REOPENED, reopen_proposed_by=None)
    after = {"state": str(PeriodState.REOPENED)}
    record(actor, "period.reopen", row, before=before, after=after, reason=row.reopen_reason)
    return row


def _decline(row: Period, actor: User, reason: str) -> Period:
    if row.reopen_proposed_by_id is None:
        raise Conflict(f"Nobody proposes to reopen {row.name}; it stays closed.")
    before = {"proposed": row.reopen_reason}
    row.reopen_proposed_by, row.reopen_reason = None, ""
    row.save(update_fields=["reopen_proposed_by", "reopen_reason"])
    record(actor, "period.decline_reopening", row, before=before, reason=reason.strip()[:255])
    return row
