"""What is booked must be within what the owner may hold then."""

from __future__ import annotations

from datetime import datetime

from django.db.models import Count, Q

from accounts.models import Project, Team
from scheduler.models import Booking, Device, Quota
from scheduler.selectors.sharing.promised.granted import maxima_over
from scheduler.services.bookings.fitting import most_at_once, open_bookings
from scheduler.services.errors import Invalid
from scheduler.services.sharing.tree import keys_of, name_of


def refuse_beyond_quota(owner: Project | Team, booking: Booking, *, now: datetime) -> None:
    """Raises Invalid if this and the owner's other bookings are at any moment to come more than
    a maximum on its way up, with the grants that count then.

    A booking of any model is compared with maxima for any model alone.
    """
    quotas = list(
        Quota.objects.filter(
            Q(pool=None) | Q(pool=booking.pool),
            account__key__in=keys_of(owner),
            gpu_model__in={"", booking.gpu_model},
        ).select_related("account__team", "account__project__team")
    )
    since = max(booking.from_at, now)
    beside = Booking.objects.filter(
        open_bookings(since),
        project=booking.project,
        team=booking.team,
        from_at__lt=booking.until_at,
        until_at__gt=booking.from_at,
    ).exclude(pk=booking.pk)
    gpus = gpus_of(booking)
    others = {
        quota.pk: [
            (one.from_at, one.until_at, gpus_of(one))
            for one in beside
            if quota.pool_id in (None, one.pool_id) and quota.gpu_model in ("", one.gpu_model)
        ]
        for quota in quotas
        if quota.maximum is not None
    }
    for begin, end, maxima in maxima_over(quotas, since, booking.until_at):
        for quota in quotas:
            taken = [one for one in others.get(quota.pk, ()) if one[0] < end and one[1] > begin]
            before = most_at_once(taken, begin)
            most = maxima.get(quota.pk)
            if most is None or gpus + before <= most:
                continue
            also = f" beside {before} booked then" if before else ""
            when = "then" if begin == since else f"from {begin:%Y-%m-%d %H:%M} UTC"
            raise Invalid(
                f"{gpus} GPUs{also} are more than the {most} that {name_of(quota.account)} may "
                f"hold {when}; book fewer, or ask for a higher maximum first.",
                field="nodes",
            )


def gpus_of(booking: Booking) -> int:
    """Of a booking of whole nodes those of the nodes it has now."""
    if booking.gpus_per_node:
        return booking.nodes * booking.gpus_per_node
    devices = Device.objects.filter(node__in=booking.node_ids, is_present=True, in_service=True)
    found: int = devices.aggregate(count=Count("pk"))["count"]
    return found
