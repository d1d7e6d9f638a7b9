"""Maintenance that meets bookings: others make way if they can, and who cannot is told."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from django.conf import settings
from django.db.models import Q

from accounts.models import Role, User
from accounts.services.audit import record
from scheduler.models import Booking, MaintenanceWindow, OutboundMail
from scheduler.services.bookings.fitting import Wanted, find_nodes, named_booking, open_bookings
from scheduler.services.errors import Conflict, Invalid
from scheduler.states import span_of

_NAMED = 3


def make_way(
    window: MaintenanceWindow, *, actor: User, over_bookings: bool, now: datetime
) -> list[Booking]:
    """Move the bookings that the new window meets to other nodes; returns those with none.

    Raises Conflict for these, unless the operator says `over_bookings`: then they are marked, and
    who made and who leads them gets a mail. The pool is locked by the caller.
    """
    hurt = [one for one in _met(window, now) if not _moved(one, window, now)]
    if hurt and not over_bookings:
        raise _clash(hurt)
    for booking in hurt:
        Booking.objects.filter(pk=booking.pk).update(hurt_by=window)
        record(actor, "booking.hurt", booking, after={"window": window.pk}, now=now)
    _tell(window, hurt, now)
    return hurt


def _met(window: MaintenanceWindow, now: datetime) -> list[Booking]:
    at_that_time = Booking.objects.select_related("pool", "project__team", "team").filter(
        open_bookings(now),
        pool=window.pool,
        from_at__lt=window.until_at,
        until_at__gt=window.from_at,
    )
    return [one for one in at_that_time if not window.nodes or {*window.nodes} & {*one.node_ids}]


def _moved(booking: Booking, window: MaintenanceWindow, now: datetime) -> bool:
    """Whether other nodes are free for all of its time; one that has begun keeps its own."""
    if booking.from_at <= now:
        return False
    wanted = Wanted(
        booking.pool,
        booking.gpu_model,
        booking.nodes,
        booking.gpus_per_node,
        booking.from_at,
        booking.until_at,
        instead_of=booking.pk,
    )
    try:
        nodes = find_nodes(wanted, now=now, rather=booking.node_ids)
    except (Conflict, Invalid):
        return False
    Booking.objects.filter(pk=booking.pk).update(node_ids=nodes)
    return True


def _clash(hurt: Sequence[Booking]) -> Conflict:
    words = "; ".join(named_booking(one, one.owner_path) for one in hurt[:_NAMED])
    more = f" and {len(hurt) - _NAMED} more" if len(hurt) > _NAMED else ""
    return Conflict(
        f"There are no other nodes then for {words}{more}. Choose another time or other nodes, or "
        "set over_bookings: their owners are told then.",
        field="over_bookings",
        code="booking_clash",
        facts={"bookings": [one.pk for one in hurt]},
    )


def _tell(window: MaintenanceWindow, hurt: Collection[Booking], now: datetime) -> None:
    why = f" ({window.reason})" if window.reason else ""
    OutboundMail.objects.bulk_create(
        OutboundMail(
            key=f"window:{window.pk}:booking:{booking.pk}:{person.pk}",
            person=person,
            subject=f"maintenance during booking {booking.name or booking.pk}",
            text=(
                f"Maintenance of pool {window.pool.name}{why} is planned from "
                f"{span_of(window.from_at, window.until_at)}.\n"
                f"There are no other nodes then for booking {booking.name or booking.pk}, "
                f"{span_of(booking.from_at, booking.until_at)}: "
                "none of its jobs starts where one would still run then.\nMove the booking, or "
                f"ask the operators for another time.\n\n{settings.PUBLIC_URL}/bookings/\n"
            ),
            created_at=now,
            not_before=now,
        )
        for booking in hurt
        for person in _whom(booking)
    )


def _whom(booking: Booking) -> list[User]:
    """Who made it, and who leads the team."""
    team = booking.project.team if booking.project is not None else booking.team
    leads = Q(memberships__team=team, memberships__role=Role.LEAD)
    people = User.objects.filter(Q(pk=booking.created_by_id) | leads, is_active=True)
    return list(people.distinct().order_by("pk"))


def undo(window: MaintenanceWindow) -> None:
    """The window is called off, so nobody is hurt by it."""
    Booking.objects.filter(hurt_by=window).update(hurt_by=None)
