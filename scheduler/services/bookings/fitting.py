"""Nodes for a booking that nobody else has then, or whom it clashes with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Q

from accounts.models import User
from scheduler.models import Booking, Device, MaintenanceWindow, Node, Pool
from scheduler.selectors.calendar.bookings import visible_bookings
from scheduler.services.errors import Conflict, Invalid
from scheduler.states import NodeState, span_of

_SHOWN = 3
# From when until when, and how many GPUs.
Taken = tuple[datetime, datetime, int]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be booked; `gpus_per_node` 0 for whole nodes. `instead_of`: the booking edited.
    `told`: who is told whose is in the way, where that is theirs to see; None for nobody.
    """

    pool: Pool
    gpu_model: str
    nodes: int
    gpus_per_node: int
    from_at: datetime
    until_at: datetime
    instead_of: int | None = None
    told: User | None = None


def open_bookings(now: datetime) -> Q:
    """Those that are planned or active."""
    return Q(until_at__gt=now, closed_as="")


def find_nodes(wanted: Wanted, *, now: datetime, rather: Sequence[int] = ()) -> list[int]:
    """Ids of nodes for all of the time: `rather` these, then those that take work now.

    The pool is locked by the caller, so that two bookings see each other. Raises Invalid if there
    never are enough such nodes, Conflict with what is in the way.
    """
    has = gpus_by_node(wanted.pool, wanted.gpu_model)
    least = wanted.gpus_per_node or (1 if wanted.gpu_model else 0)
    fitting = [node for node, gpus in has.items() if gpus >= least]
    if len(fitting) < wanted.nodes:
        raise _too_few(wanted, len(fitting))
    every = gpus_by_node(wanted.pool, "") if wanted.gpu_model else has
    bookings = _others(wanted, now)
    windows = list(
        MaintenanceWindow.objects.filter(
            pool=wanted.pool,
            cancelled_at=None,
            from_at__lt=wanted.until_at,
            until_at__gt=wanted.from_at,
        )
    )
    closed = {node for window in windows for node in (window.nodes or fitting)}
    taken: dict[int, list[Taken]] = {}
    of_it: dict[int, list[Taken]] = {}
    for booking in bookings:
        for node in booking.node_ids:
            is_whole = not (booking.gpus_per_node and wanted.gpus_per_node)
            gpus = every.get(node, 0) + 1 if is_whole else booking.gpus_per_node
            held = booking.from_at, booking.until_at, gpus
            taken.setdefault(node, []).append(held)
            if wanted.gpu_model in ("", booking.gpu_model):
                of_it.setdefault(node, []).append(held)
    # Those of any model get what those of its own leave, whichever that is.
    left = {
        node: min(
            gpus[node] - most_at_once(held.get(node, ()), wanted.from_at)
            for gpus, held in ((has, of_it), (every, taken))
        )
        for node in fitting
        if node not in closed
    }
    free = [node for node, gpus in left.items() if gpus >= least]
    if len(free) < wanted.nodes:
        in_the_way = [one for one in bookings if set(one.node_ids) & set(fitting)]
        raise _clash(wanted, len(free), in_the_way, windows)
    ready = _ready(free)
    free.sort(key=lambda node: (node not in rather, node not in ready))
    return free[: wanted.nodes]


def most_at_once(taken: Iterable[Taken], since: datetime) -> int:
    """The most GPUs that are taken at one moment from `since` on; what is over by then is left out
    by the caller."""
    held = list(taken)
    return max(
        (
            sum(gpus for begin, end, gpus in held if begin <= moment < end)
            for moment in {max(since, begin) for begin, _, _ in held}
        ),
        default=0,
    )


def _others(wanted: Wanted, now: datetime) -> list[Booking]:
    """Open bookings of the pool at that time."""
    found = Booking.objects.filter(
        open_bookings(now),
        pool=wanted.pool,
        from_at__lt=wanted.until_at,
        until_at__gt=wanted.from_at,
    )
    return [one for one in found if one.pk != wanted.instead_of]


def gpus_by_node(pool: Pool, gpu_model: str) -> dict[int, int]:
    """GPUs of the wanted model by node of the pool; nodes without any count for whole nodes."""
    nodes = Node.objects.filter(pool=pool).exclude(state=NodeState.RETIRED)
    found = dict.fromkeys(nodes.order_by("name").values_list("pk", flat=True), 0)
    devices = Device.objects.filter(node__in=found, is_present=True, in_service=True)
    if gpu_model:
        devices = devices.filter(model=gpu_model)
    counts = devices.order_by().values_list("node").annotate(count=Count("pk"))
    return found | dict(counts)


def _ready(nodes: Sequence[int]) -> set[int]:
    """Those of them that take work now."""
    ready = Node.objects.filter(pk__in=nodes, state=NodeState.READY)
    return set(ready.values_list("pk", flat=True))


def _too_few(wanted: Wanted, count: int) -> Invalid:
    such = f" with {wanted.gpus_per_node} GPUs" if wanted.gpus_per_node else ""
    such += f" of model {wanted.gpu_model}" if wanted.gpu_model else ""
    return Invalid(
        f"Pool {wanted.pool.name} has {count} nodes{such}; book fewer, or another pool.",
        field="nodes",
    )


def _clash(
    wanted: Wanted, free: int, bookings: list[Booking], windows: list[MaintenanceWindow]
) -> Conflict:
    """Numbers and times for everybody; whose a booking is, for who may see it."""
    owners = _owners(wanted.told, bookings[:_SHOWN])
    named = [named_booking(one, owners.get(one.pk)) for one in bookings] + [
        f"maintenance {_span(window)}" for window in windows
    ]
    more = f" and {len(named) - _SHOWN} more" if len(named) > _SHOWN else ""
    return Conflict(
        f"Only {free} of the {wanted.nodes} nodes are free all that time. In the way: "
        f"{', '.join(named[:_SHOWN])}{more}. Choose another time, or fewer nodes.",
        field="from_at",
        code="booking_clash",
        facts={
            "free": free,
            "bookings": [one.pk for one in bookings],
            "windows": [one.pk for one in windows],
        },
    )


def _owners(told: User | None, bookings: Sequence[Booking]) -> dict[int, str]:
    """Whose they are, by booking: an empty text where that is not theirs to see."""
    if told is None:
        return {}
    seen = {
        one.pk: one.owner_path
        for one in visible_bookings(told).filter(pk__in=[one.pk for one in bookings])
    }
    return {one.pk: seen.get(one.pk, "") for one in bookings}


def named_booking(booking: Booking, owner: str | None) -> str:
    """`booking 7 of vision (2 nodes, …)`; `owner` is empty for another team's, None if unsaid."""
    whose = "another team's " if owner == "" else ""
    of_owner = f" of {owner}" if owner else ""
    nodes = f"{booking.nodes} node{'s' * (booking.nodes > 1)}"
    return f"{whose}booking {booking.pk}{of_owner} ({nodes}, {_span(booking)})"


def _span(one: Booking | MaintenanceWindow) -> str:
    return span_of(one.from_at, one.until_at)
