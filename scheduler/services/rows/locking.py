"""Rows that are locked before they are written, in one order: attempts, devices, limits, nodes.

A stop locks its attempt and then the nodes, a start the devices and then the nodes. Who did it the
other way round might stand opposite one of them for ever. Limits are quotas and budgets: a node's
call holds all its devices when it lowers those. SQLite has one writer and no such locks.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.db import connection
from django.db.models import Q, QuerySet

from accounts.statements import AskedOnce
from scheduler.models import Attempt, Device, Node, Placement, SchedulerLease
from scheduler.states import LIVE_ATTEMPT_STATES


def lock_starts() -> None:
    """Let no start commit before this transaction ends: what accounts hold stays as it is read.

    Before any account, as starts do it: they hold this row first of all.
    """
    list(SchedulerLease.objects.select_for_update())


def keep_lease(token: int) -> bool:
    """Whether the lease is still this token's; nobody takes it before this transaction ends."""
    return bool(_LEASE.read(token))


def _lease(token: int) -> QuerySet[SchedulerLease, tuple[str]]:
    leases = SchedulerLease.objects.select_for_update().filter(token=token)
    return leases.order_by().values_list("pk")


_LEASE = AskedOnce(_lease)


def lock_ends(whose: Q) -> None:
    """Let no attempt end before this transaction does: what accounts hold is not lowered either.

    `whose`: the attempts, as `below` chooses them by "job__project". After `lock_starts`, before
    any quota and budget: an end holds its attempt first of all.
    """
    if connection.features.has_select_for_update:
        live = Attempt.objects.filter(whose, state__in=LIVE_ATTEMPT_STATES)
        list(live.select_for_update(of=("self",)).order_by("pk").values_list("pk"))


def lock_node(node_id: int) -> None:
    """Lock all that a decision about a node may write: the attempts that are open there, its
    devices, its own row."""
    if connection.features.has_select_for_update:
        here = Placement.objects.filter(node=node_id, ended_at__isnull=True)
        attempts = Attempt.objects.filter(pk__in=here.values("attempt"))
        list(attempts.select_for_update(of=("self",)).order_by("pk").values_list("pk"))
        lock_devices_of([node_id])
        list(Node.objects.select_for_update().filter(pk=node_id).values_list("pk"))


def lock_devices_of(node_ids: Sequence[int]) -> None:
    """Lock the devices of these nodes, before the nodes' own rows."""
    if connection.features.has_select_for_update:
        devices = Device.objects.filter(node__in=node_ids).order_by("pk")
        list(devices.select_for_update(no_key=True).values_list("pk"))


def lock_devices(ids: Sequence[int]) -> None:
    """Lock these devices, before what is held of limits is raised or lowered."""
    if connection.features.has_select_for_update:
        devices = Device.objects.filter(pk__in=ids).order_by("pk")
        list(devices.select_for_update(no_key=True).values_list("pk"))


def keep_booking(booking_id: int) -> bool:
    """Let nobody close or edit a booking before this transaction ends; others may keep it, too.

    False where that was needless; else what was read of it is to be read again. Who edits it holds
    its pool already, but not so that a job's row, which names both, could not be committed.
    """
    if connection.features.has_select_for_update:
        with connection.cursor() as cursor:
            statement = "SELECT id FROM scheduler_booking WHERE id = %s FOR KEY SHARE"
            cursor.execute(statement, [booking_id])
    return connection.features.has_select_for_update
