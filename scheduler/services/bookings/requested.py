"""Bookings that are asked for: how many GPUs become which nodes, whether they can, and making it.

Whoever asks thinks in GPUs and hours; see decision 105 for what is made of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from accounts.models import Project, Team, User
from scheduler.models import Booking, Pool
from scheduler.services.bookings.fitting import gpus_by_node, most_at_once, open_bookings
from scheduler.services.bookings.planning import make_booking
from scheduler.services.bookings.quotas import gpus_of
from scheduler.services.errors import Conflict, Invalid

# What a field of a booking is called where it is asked for.
_FIELDS = {
    "from_at": "valid_from",
    "until_at": "valid_until",
    "nodes": "amount",
    "gpus_per_node": "amount",
}


@dataclass(frozen=True, slots=True)
class Fit:
    """How a wish would be met: on so many nodes, so many GPUs of each, 0 for all of them."""

    nodes: int
    gpus_per_node: int
    node_ids: tuple[int, ...] = ()


def shape_of(pool: Pool, gpu_model: str, gpus: int) -> Fit:
    """The fewest nodes over which so many GPUs go evenly. Raises Invalid.

    Where all nodes have just so many and no others, the nodes are booked whole: jobs may have them
    to themselves.
    """
    of_it = gpus_by_node(pool, gpu_model)
    every = gpus_by_node(pool, "") if gpu_model else of_it
    has = sorted(of_it.values(), reverse=True)
    for nodes, least in enumerate(has, start=1):
        part, rest = divmod(gpus, nodes)
        if not rest and 0 < part <= least:
            is_whole = all(count == part for count in (*has, *every.values()))
            return Fit(nodes, 0 if is_whole else part)
    such = f" of model {gpu_model}" if gpu_model else ""
    raise Invalid(
        f"Pool {pool.name} has {sum(has)} GPUs{such} on {len(has)} nodes, and {gpus} do not go "
        f"evenly over any of them. Ask for fewer, or for a multiple of {has[0] if has else 1}.",
        field="amount",
    )


def fit_of(
    *,
    actor: User | None,
    owner: Project | Team,
    pool: Pool,
    gpu_model: str,
    gpus: int,
    from_at: datetime,
    until_at: datetime,
    now: datetime,
) -> Fit:
    """Where it would be booked now; nothing is left of it. Raises Invalid that says what is in the
    way, at the field of a request.
    """
    try:
        with transaction.atomic():
            booking = book_agreed(
                actor=actor,
                asked_by=actor,
                owner=owner,
                pool=pool,
                gpu_model=gpu_model,
                gpus=gpus,
                from_at=from_at,
                until_at=until_at,
                now=now,
            )
            transaction.set_rollback(True)
    except Conflict as refused:
        raise Invalid(refused.detail, field=refused.field, facts=refused.facts) from refused
    return Fit(booking.nodes, booking.gpus_per_node, tuple(booking.node_ids))


def book_agreed(
    *,
    actor: User | None,
    asked_by: User | None,
    owner: Project | Team,
    pool: Pool,
    gpu_model: str,
    gpus: int,
    from_at: datetime,
    until_at: datetime,
    now: datetime,
    note: str = "",
    on_behalf_of: User | None = None,
) -> Booking:
    """Make it, in the transaction of the consent. Raises Conflict for what has come in the way,
    Invalid for what is more than the owner may hold.
    """
    shape = shape_of(pool, gpu_model, gpus)
    try:
        return make_booking(
            actor=actor,
            on_behalf_of=on_behalf_of,
            created_by=asked_by,
            owner=owner,
            pool=pool,
            nodes=shape.nodes,
            gpus_per_node=shape.gpus_per_node,
            gpu_model=gpu_model,
            from_at=max(now, from_at),
            until_at=until_at,
            note=note,
            now=now,
        )
    except (Conflict, Invalid) as refused:
        refused.field = _FIELDS.get(refused.field, refused.field)
        raise


def booked_then(from_at: datetime, until_at: datetime, *, now: datetime, pool: Pool) -> int:
    """The most GPUs of the pool that open bookings hold at one moment of that time."""
    found = list(
        Booking.objects.filter(
            open_bookings(now), pool=pool, from_at__lt=until_at, until_at__gt=from_at
        )
    )
    gpus = gpus_of(found)
    return most_at_once(((one.from_at, one.until_at, gpus[one.pk][""]) for one in found), from_at)
