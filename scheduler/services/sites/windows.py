"""Maintenance windows: planned ahead, so that no job is in the way when they begin."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone

from accounts.models import User
from accounts.services.audit import Subject, record
from scheduler import events
from scheduler.models import MaintenanceWindow, Node, Pool
from scheduler.services.bookings.meeting import make_way, undo
from scheduler.services.errors import Conflict, Invalid
from scheduler.services.nodes import require_operator
from scheduler.states import NodeState, span_of

FARTHEST = timedelta(days=366)


@transaction.atomic
def plan_window(
    *,
    actor: User,
    pool: Pool,
    from_at: datetime,
    until_at: datetime,
    nodes: Sequence[str] = (),
    reason: str = "",
    over_bookings: bool = False,
    now: datetime | None = None,
) -> MaintenanceWindow:
    """No job starts that would still be on these nodes then; no node named means all of the pool.

    Jobs that run already are left alone; bookings move to other nodes. Raises Forbidden, Invalid,
    Conflict for bookings that have none, unless it is said that the window goes before them.
    """
    require_operator(actor)
    now = now or timezone.now()
    for field, moment in (("from_at", from_at), ("until_at", until_at)):
        if timezone.is_naive(moment):
            raise Invalid("Give the time with its zone, such as 2026-11-27T18:00Z.", field=field)
    if until_at <= from_at:
        raise Invalid("The window must end after it begins.", field="until_at")
    if until_at <= now:
        raise Invalid("The window is over already; choose an end in the future.", field="until_at")
    if until_at > now + FARTHEST:
        raise Invalid("Plan no further ahead than a year.", field="until_at")
    pool = Pool.objects.select_for_update().get(pk=pool.pk)
    known = dict(
        Node.objects.filter(pool=pool, name__in=nodes)
        .exclude(state=NodeState.RETIRED)
        .values_list("name", "pk")
    )
    if missing := sorted(set(nodes) - known.keys()):
        named = ", ".join(missing[:5])
        raise Invalid(f"Pool {pool.name} has no node {named}; check the spelling.", field="nodes")
    _refuse_overlap(pool, set(known.values()), from_at, until_at)
    window = MaintenanceWindow.objects.create(
        pool=pool,
        nodes=sorted(known.values()),
        from_at=from_at,
        until_at=until_at,
        reason=reason,
        created_by=actor,
    )
    make_way(window, actor=actor, over_bookings=over_bookings, now=now)
    after = {"from_at": from_at, "until_at": until_at, "nodes": sorted(known)}
    record(actor, "window.plan", _subject(window, pool), after=after, reason=reason, now=now)
    events.wake_scheduler_on_commit()
    return window


def _subject(window: MaintenanceWindow, pool: Pool) -> Subject:
    return Subject("maintenancewindow", str(window.pk), f"maintenance of {pool.name}")


def _refuse_overlap(pool: Pool, nodes: set[int], from_at: datetime, until_at: datetime) -> None:
    """A node is in one window at a time, so that it is known when it comes back."""
    met = MaintenanceWindow.objects.filter(
        pool=pool, cancelled_at=None, from_at__lt=until_at, until_at__gt=from_at
    )
    for other in met:
        if not nodes or not other.nodes or nodes & set(other.nodes):
            raise Conflict(
                f"Window {other.pk} is planned there from "
                f"{span_of(other.from_at, other.until_at)}; cancel it, or choose another time.",
                field="from_at",
                code="window_clash",
                facts={"window": other.pk},
            )


@transaction.atomic
def cancel_window(
    *, actor: User, window: MaintenanceWindow, now: datetime | None = None
) -> MaintenanceWindow:
    """Call it off, or end it before its time; twice is a no-op. Raises Forbidden, Conflict."""
    require_operator(actor)
    now = now or timezone.now()
    window = MaintenanceWindow.objects.select_for_update().get(pk=window.pk)
    if window.cancelled_at is None:
        if window.until_at <= now:
            raise Conflict("The window is over already; there is nothing to cancel.")
        window.cancelled_at = now
        window.save(update_fields=["cancelled_at"])
        undo(window)
        after = {"cancelled_at": now}
        record(actor, "window.cancel", _subject(window, window.pool), after=after, now=now)
        events.wake_scheduler_on_commit()
    return window
