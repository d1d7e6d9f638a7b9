"""Booking nodes ahead, and changing that."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from accounts.models import Project, Team, User
from accounts.permissions import can, managed_for
from accounts.services.audit import record
from scheduler import events
from scheduler.models import Booking, Pool
from scheduler.services.bookings.fitting import Wanted, find_nodes, open_bookings
from scheduler.services.bookings.inside import count_ended, say_why
from scheduler.services.bookings.quotas import lock_pool, refuse_beyond_quota
from scheduler.services.errors import Conflict, Forbidden, Invalid, StaleVersion

FARTHEST = timedelta(days=366)
SHORTEST = timedelta(minutes=5)
MOST_NODES = 4096
MOST_GPUS = 64
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*", re.ASCII)
_SHOWN = ("from_at", "until_at", "nodes", "gpus_per_node", "gpu_model", "note", "closed_as")


def require_booker(actor: User, owner: Project | Team) -> None:
    """Who leads the project or team, and operators; raises Forbidden."""
    action = "manage_project" if isinstance(owner, Project) else "manage_team"
    if not (can(actor, action, owner) or can(actor, "operate", None)):
        raise Forbidden(
            "Only who leads the project or team may book for it, and operators. Ask for a booking "
            "by a request of the kind reservation."
        )


def owner_of(booking: Booking) -> Project | Team:
    """Whose it is."""
    owner = booking.project or booking.team
    assert owner is not None, "the database sees to it"
    return owner


@transaction.atomic
def plan_booking(
    *,
    actor: User,
    owner: Project | Team,
    pool: Pool,
    nodes: int,
    from_at: datetime,
    until_at: datetime,
    gpus_per_node: int = 0,
    gpu_model: str = "",
    name: str = "",
    note: str = "",
    now: datetime | None = None,
) -> Booking:
    """So many nodes of the pool, whole or so many GPUs of each, for the owner's jobs alone.

    Jobs that run there already are left alone. Raises Forbidden, Invalid, Conflict with what it
    clashes with.
    """
    require_booker(actor, owner)
    return make_booking(
        actor=actor,
        on_behalf_of=managed_for(actor, owner),
        created_by=actor,
        owner=owner,
        pool=pool,
        nodes=nodes,
        from_at=from_at,
        until_at=until_at,
        gpus_per_node=gpus_per_node,
        gpu_model=gpu_model,
        name=name,
        note=note,
        now=now or timezone.now(),
    )


def make_booking(
    *,
    actor: User | None,
    created_by: User | None,
    owner: Project | Team,
    pool: Pool,
    nodes: int,
    from_at: datetime,
    until_at: datetime,
    gpus_per_node: int = 0,
    gpu_model: str = "",
    name: str = "",
    note: str = "",
    on_behalf_of: User | None = None,
    now: datetime,
) -> Booking:
    """The same once somebody who may has agreed, in the caller's transaction; `created_by` is whose
    wish it is, and is told of what happens to it.
    """
    _check_owner(owner)
    _check_time(from_at, until_at, now)
    if from_at < now - timedelta(minutes=1):
        raise Invalid("It would begin in the past; choose a later time.", field="from_at")
    _check_size(nodes, gpus_per_node)
    if name and not (_NAME.fullmatch(name) and not name.isdigit() and len(name) <= 63):
        raise Invalid(
            "Use lower-case letters, digits and dashes, and not digits alone.", field="name"
        )
    pool = lock_pool(owner, pool.pk)
    wanted = Wanted(pool, gpu_model.strip(), nodes, gpus_per_node, from_at, until_at, told=actor)
    booking = Booking.objects.create(
        name=_free_name(name, now),
        project=owner if isinstance(owner, Project) else None,
        team=owner if isinstance(owner, Team) else None,
        pool=pool,
        gpu_model=wanted.gpu_model,
        nodes=nodes,
        gpus_per_node=gpus_per_node,
        from_at=from_at,
        until_at=until_at,
        note=note.strip()[:200],
        node_ids=find_nodes(wanted, now=now),
        created_by=created_by,
    )
    refuse_beyond_quota(owner, booking, now=now)
    after = pictured(booking)
    record(actor, "booking.plan", booking, after=after, on_behalf_of=on_behalf_of, now=now)
    events.wake_scheduler_on_commit()
    return booking


@transaction.atomic
def edit_booking(
    *,
    actor: User,
    booking: Booking,
    version: int | None = None,
    changes: Mapping[str, Any],
    reason: str = "",
    now: datetime | None = None,
) -> Booking:
    """Another time, size or note; `version` is the one that the actor has seen.

    One that has begun keeps its begin. Raises StaleVersion, Conflict, Invalid, Forbidden; for an
    earlier end with which jobs of others may end ReasonNeeded, of too many SecondNeeded.
    """
    require_booker(actor, owner_of(booking))
    now = now or timezone.now()
    pool = lock_pool(owner_of(booking), booking.pool_id)
    booking = locked(booking, version)
    refuse_if_over(booking, now)
    before, planned_until = pictured(booking), booking.until_at
    for field in ("from_at", "until_at", "nodes", "gpus_per_node", "note"):
        if changes.get(field) is not None:
            setattr(booking, field, changes[field])
    after = pictured(booking)
    if after == before:
        return booking
    _check_time(booking.from_at, booking.until_at, now)
    _check_size(booking.nodes, booking.gpus_per_node)
    if after["from_at"] != before["from_at"]:
        _check_begin(datetime.fromisoformat(before["from_at"]), booking.from_at, now)
    if any(after[f] != before[f] for f in ("from_at", "until_at", "nodes", "gpus_per_node")):
        booking.node_ids, booking.hurt_by = _nodes_again(actor, booking, pool, now), None
        if not _is_within(after, before):
            refuse_beyond_quota(owner_of(booking), booking, now=now)
    is_sooner = booking.until_at < planned_until
    others = count_ended(actor, booking, by=booking.until_at, now=now) if is_sooner else {}
    said = ""
    if booking.until_at != planned_until:
        said = say_why(actor, booking, others, reason)
    booking.note = booking.note.strip()[:200]
    booking.version += 1
    booking.save()
    changed = [field for field in after if after[field] != before[field]]
    was = {field: before[field] for field in changed}
    _record_edit(
        actor, booking, was, {field: after[field] for field in changed} | others, said, now
    )
    return booking


def _record_edit(
    actor: User,
    booking: Booking,
    was: Mapping[str, Any],
    then: Mapping[str, Any],
    said: str,
    now: datetime,
) -> None:
    what, giver = "booking.edit", managed_for(actor, owner_of(booking))
    record(actor, what, booking, before=was, after=then, on_behalf_of=giver, reason=said, now=now)
    events.wake_scheduler_on_commit()


def locked(booking: Booking, version: int | None) -> Booking:
    """The row as it is now, locked; raises StaleVersion."""
    booking = Booking.objects.select_for_update(of=("self",)).get(pk=booking.pk)
    if version is not None and booking.version != version:
        raise StaleVersion(
            "The booking has changed since you read it.", facts={"version": booking.version}
        )
    return booking


def refuse_if_over(booking: Booking, now: datetime) -> None:
    """Raises Conflict for one that is over."""
    if booking.closed_as or booking.until_at <= now:
        raise Conflict(f"The booking is {booking.state_at(now)}; it does not change any more.")


def note_nodes(chosen: Mapping[int, list[int]]) -> int:
    """Where the scheduler has put bookings (by id) by now; returns how many have moved."""
    return sum(Booking.objects.filter(pk=pk).update(node_ids=nodes) for pk, nodes in chosen.items())


def pictured(booking: Booking) -> dict[str, Any]:
    """What a record shows of it."""
    shown = {name: getattr(booking, name) for name in _SHOWN}
    return {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in shown.items()
    }


def _is_within(after: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    """Whether it takes nothing that it did not have, so that no limit is in its way."""
    begin, end = (datetime.fromisoformat(after[field]) for field in ("from_at", "until_at"))
    is_during = begin >= datetime.fromisoformat(before["from_at"])
    is_during &= end <= datetime.fromisoformat(before["until_at"])
    is_as_large = after["gpus_per_node"] == before["gpus_per_node"]
    return is_during and is_as_large and after["nodes"] <= before["nodes"]


def _nodes_again(actor: User, booking: Booking, pool: Pool, now: datetime) -> list[int]:
    """Nodes for what it is now, its own first."""
    wanted = Wanted(
        pool,
        booking.gpu_model,
        booking.nodes,
        booking.gpus_per_node,
        booking.from_at,
        booking.until_at,
        instead_of=booking.pk,
        told=actor,
    )
    return find_nodes(wanted, now=now, rather=booking.node_ids)


def _free_name(name: str, now: datetime) -> str:
    """Jobs find a booking by its name, so of those to come only one may have it."""
    if name and Booking.objects.filter(open_bookings(now), name=name).exists():
        raise Invalid(f"There is a booking {name} already; choose another name.", field="name")
    return name


def _check_owner(owner: Project | Team) -> None:
    if isinstance(owner, Project) and owner.is_archived:
        words = f"{owner.path} is archived: no job can be submitted to it. Book for another."
        raise Invalid(words, field="owner")


def _check_time(from_at: datetime, until_at: datetime, now: datetime) -> None:
    for field, moment in (("from_at", from_at), ("until_at", until_at)):
        if timezone.is_naive(moment):
            raise Invalid("Give the time with its zone, such as 2026-11-27T18:00Z.", field=field)
    if until_at - from_at < SHORTEST:
        raise Invalid("It must end five minutes after it begins, or later.", field="until_at")
    if until_at <= now:
        raise Invalid("It would be over already; choose an end in the future.", field="until_at")
    if until_at > now + FARTHEST:
        raise Invalid("Book no further ahead than a year.", field="until_at")


def _check_begin(was: datetime, becomes: datetime, now: datetime) -> None:
    if was <= now or becomes < now:
        words = "It has begun already." if was <= now else "It would begin in the past."
        raise Invalid(f"{words} Change the end only.", field="from_at")


def _check_size(nodes: int, gpus_per_node: int) -> None:
    if not 1 <= nodes <= MOST_NODES:
        raise Invalid(f"Book 1 to {MOST_NODES} nodes.", field="nodes")
    if not 0 <= gpus_per_node <= MOST_GPUS:
        raise Invalid(
            f"Book 1 to {MOST_GPUS} GPUs of each node, or 0 for whole nodes.",
            field="gpus_per_node",
        )
