"""Asking for the demonstration, or for its end, from a page: one row that a worker carries out.

The row is committed before the work and ended within the work's own transaction. So a worker that
is killed leaves either nothing done and the row waiting, and another one takes it up, or all of it
done.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone

from accounts.models import DemoAct, DemoMark, DemoOrder, User
from accounts.permissions import can
from accounts.services.audit import Subject, record
from scheduler import events
from scheduler.services.errors import Conflict, Forbidden

TASK = "portal.celery.tend_demo"
MOST_TRIES = 3
# Longer than it ever takes: whoever is silent for so long on another host is taken for dead.
_DEAD_AFTER = timedelta(minutes=10)
_BROKE_OFF = "It broke off three times. Nothing was changed; the workers' logs say why."


def ask_for_demo(
    *, actor: User, act: DemoAct, is_beside: bool = False, now: datetime | None = None
) -> DemoOrder:
    """Let a worker load the demonstration or remove it; asked twice it is done once.

    `is_beside`: wanted although there are jobs of others. Raises Forbidden for all but
    administrators, Conflict while the opposite is being done or where there is nothing to do.
    """
    if not can(actor, "administer", None):
        raise Forbidden("Only administrators load or remove the demonstration.")
    now = now or timezone.now()
    with transaction.atomic():
        DemoOrder.objects.get_or_create(
            pk=1, defaults={"act": act, "asked_at": now, "ended_at": now}
        )
        row = DemoOrder.objects.select_for_update().get(pk=1)
        if row.ended_at is None:
            if row.act != act:
                raise Conflict(f"A worker is about to {row.act} it; wait until that is done.")
            return row
        if DemoMark.objects.exists() is (act == DemoAct.LOAD):
            is_here = act == DemoAct.LOAD
            raise Conflict("It is here already." if is_here else "There is no demonstration here.")
        row = DemoOrder(pk=1, act=act, asked_by=actor, asked_at=now, is_beside=is_beside)
        row.save()
        record(actor, f"demo.ask_{act}", Subject("demo", "", "demonstration"), now=now)
        events.send_on_commit(TASK)
    return row


def claim_order(
    holder: str, *, has_ended: Callable[[str], bool], now: datetime
) -> DemoOrder | None:
    """What waits to be done, if nobody who is alive is at it; from now on it is `holder`'s."""
    row = DemoOrder.objects.select_related("asked_by").filter(ended_at=None).first()
    if row is None:
        return None
    is_fresh = row.claimed_at is not None and row.claimed_at > now - _DEAD_AFTER
    if row.holder and is_fresh and not has_ended(row.holder):
        return None
    same = DemoOrder.objects.filter(pk=row.pk, ended_at=None, tries=row.tries)
    if row.tries >= MOST_TRIES:
        same.update(ended_at=now, is_refused=True, says=_BROKE_OFF, holder="")
        return None
    if not same.update(holder=holder, claimed_at=now, tries=row.tries + 1):
        return None
    row.tries += 1
    return row


def end_order(
    order: DemoOrder, says: str, *, rows: int = 0, is_refused: bool = False, now: datetime
) -> None:
    """Say what came of it, in the transaction of the work. Raises Conflict if somebody else has
    taken it up meanwhile: then the work is theirs."""
    mine = DemoOrder.objects.filter(
        pk=order.pk, ended_at=None, tries=order.tries, asked_at=order.asked_at
    )
    if not mine.update(ended_at=now, says=says[:400], rows=rows, is_refused=is_refused, holder=""):
        raise Conflict("Another worker has taken the demonstration up meanwhile.")


def give_order_back(order: DemoOrder) -> None:
    """Let the next look begin anew; nothing was changed."""
    DemoOrder.objects.filter(pk=order.pk, ended_at=None, tries=order.tries).update(holder="")
