"""Segments follow the facts: what is true of a device now, as rows say it, decides its bucket.

Called inside the transaction that changed a fact. Nothing is computed from the kind of change, so a
change that is forgotten here cannot leave a wrong bucket behind longer than the next one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from django.db import connection, transaction
from django.db.models import Exists, F, FilteredRelation, Q, QuerySet
from django.db.models.functions import Greatest

from accounts.statements import BuiltOnce, ChangedOnce, empty_here
from scheduler.ledger.segments import ALLOCATED, Bucket, Facts, bucket_of
from scheduler.models import Allocation, Device, DeviceSegment
from scheduler.selectors.calendar.reserved import active_bookings, reserved_devices
from scheduler.services.rows.adding import add_rows
from scheduler.states import AttemptState, DeviceHealth, NodeState

logger = logging.getLogger(__name__)
_CHUNK = 2_000
_DOWN = (DeviceHealth.FAILED,)
_READ = {
    "pk": "pk",
    "model": "model",
    "pool": "node__pool_id",
    "node": "node__state",
    "health": "health",
    "is_present": "is_present",
    "in_service": "in_service",
    "attempt": "held__placement__attempt_id",
    "attempt_state": "held__placement__attempt__state",
    "project": "held__placement__attempt__job__project_id",
    "reserved_for": "claim__job__project_id",
    "is_booked": "is_booked",
    "open": "current__pk",
    "open_from": "current__start_s",
    "open_bucket": "current__bucket",
    "open_attempt": "current__attempt_id",
    "open_project": "current__project_id",
    "open_team": "current__team_id",
    "open_pool": "current__pool_id",
    "open_flavour": "current__flavour",
}


class _Begun(NamedTuple):
    """The fields of a new `DeviceSegment`."""

    device: int
    pool: int
    flavour: str
    bucket: Bucket
    attempt: int | None
    project: int | None
    team: int | None
    cause: str
    start_s: int


def follow_devices(ids: Iterable[int], *, now: datetime, cause: str) -> int:
    """Let the segments of these devices say what is true now; returns how many changed."""
    known = sorted(set(ids))
    count = 0
    for first in range(0, len(known), _CHUNK):
        part = known[first : first + _CHUNK]
        locked = _locked(Device.objects.filter(pk__in=part))
        count += _follow(_OF_DEVICES.rows(part if locked is None else locked, now), now, cause)
    return count


def follow_attempts(ids: Sequence[int], *, now: datetime, cause: str) -> int:
    """The same for the devices these attempts hold.

    They are looked up first: asked for all facts through what attempts hold, SQLite goes through
    every device there is.
    """
    return follow_devices((device for (device,) in _HELD.rows(ids)), now=now, cause=cause)


def follow_node(node_id: int, *, now: datetime, cause: str) -> int:
    """The same for all devices of a node."""
    return follow_nodes([node_id], now=now, cause=cause)


def follow_nodes(node_ids: Sequence[int], *, now: datetime, cause: str) -> int:
    """The same for all devices of these nodes."""
    return _follow_chosen(Device.objects.filter(node__in=node_ids), now, cause)


@transaction.atomic
def reconcile_segments(*, now: datetime) -> int:
    """Look at every device; anything found here was missed by a service, and is logged."""
    found = _follow_chosen(Device.objects.all(), now, "reconciled")
    if found:
        logger.warning("%d device segments did not say what was true; reconciled", found)
    return found


def _follow_chosen(devices: QuerySet[Device], now: datetime, cause: str) -> int:
    locked = _locked(devices)
    if locked is not None:
        devices = Device.objects.filter(pk__in=locked)
    return _follow(_facts_known(devices, now), now, cause)


def _locked(devices: QuerySet[Device]) -> list[int] | None:
    """Their ids, under their locks; None where the database has no such locks.

    On PostgreSQL the devices are locked first, in the order of their ids, so that two changes of
    one device follow each other and the second one reads what the first one wrote.
    """
    if not connection.features.has_select_for_update:
        return None
    rows = devices.select_for_update(of=("self",), no_key=True).order_by("pk")
    return list(rows.values_list("pk", flat=True))


def _follow(found: Iterable[tuple[Any, ...]], now: datetime, cause: str) -> int:
    """One read, one update, one insert."""
    now_s = int(now.timestamp())
    ended: list[int] = []
    begun: list[_Begun] = []
    for row in _rows(found, now):
        segment = _due(row, now_s, cause)
        if segment is not None:
            begun.append(segment)
            if row["open"] is not None:
                ended.append(row["open"])
    _ENDED.change(ended, now_s)
    add_rows(DeviceSegment, _Begun._fields, begun)
    return len(begun)


def _facts_known(devices: QuerySet[Device], now: datetime) -> QuerySet[Any, tuple[Any, ...]]:
    """What is true of each device, in the order of `_READ`."""
    found = devices.annotate(
        is_booked=Exists(active_bookings(now)),
        held=FilteredRelation("allocations", condition=Q(allocations__released_at__isnull=True)),
        current=FilteredRelation("segments", condition=Q(segments__end_s__isnull=True)),
    )
    return found.order_by("pk").values_list(*_READ.values())


def _held_by(attempts: Sequence[int]) -> QuerySet[Allocation, tuple[Any, ...]]:
    held = Allocation.objects.filter(empty_here("released_at"), placement__attempt__in=attempts)
    return held.order_by().values_list("device_id")


def _known_of_devices(ids: Sequence[int], now: datetime) -> QuerySet[Any, tuple[Any, ...]]:
    return _facts_known(Device.objects.filter(pk__in=ids), now)


def _end(segments: Sequence[int], at_s: int) -> tuple[QuerySet[DeviceSegment], dict[str, Any]]:
    still = DeviceSegment.objects.filter(empty_here("end_s"), pk__in=segments)
    return still, {"end_s": Greatest(F("start_s"), at_s)}


_HELD, _OF_DEVICES = BuiltOnce(_held_by), BuiltOnce(_known_of_devices)
_ENDED = ChangedOnce(_end)


def _rows(found: Iterable[tuple[Any, ...]], now: datetime) -> Iterator[dict[str, Any]]:
    """The same by name; whose booking it is in is asked only while one is active."""
    booked: dict[int, str] | None = None
    for values in found:
        row = dict(zip(_READ, values, strict=True))
        if row["is_booked"] and booked is None:
            owners = reserved_devices(now=now).items()
            booked = {device: _owner(one.project_id, one.team_id) for device, one in owners}
        row["booked_for"] = booked.get(row["pk"], "") if booked else ""
        yield row


def _owner(project: int | None, team: int | None) -> str:
    """For whom a device is kept: a project, or a whole team."""
    return f"team:{team}" if project is None else str(project)


def _due(row: dict[str, Any], now_s: int, cause: str) -> _Begun | None:
    """The segment that begins now; None where the open one goes on."""
    bucket, holder = bucket_of(_facts(row))
    attempt = int(holder) if bucket in ALLOCATED else None
    project = team = None
    if bucket is Bucket.RESERVED_IDLE:
        kind, _, number = holder.rpartition(":")
        project, team = (None, int(number)) if kind else (int(number), None)
    if attempt is not None:
        project = row["project"]
    if row["open"] is None and bucket is Bucket.OUT:
        return None
    if row["open"] is not None and (
        bucket,
        attempt,
        project,
        team,
        row["pool"],
        row["model"],
    ) == (
        row["open_bucket"],
        row["open_attempt"],
        row["open_project"],
        row["open_team"],
        row["open_pool"],
        row["open_flavour"],
    ):
        return None
    return _Begun(
        device=row["pk"],
        pool=row["pool"],
        flavour=row["model"],
        bucket=bucket,
        attempt=attempt,
        project=project,
        team=team,
        cause=cause,
        # A clock that went back must not make a segment end before it began.
        start_s=max(now_s, row["open_from"] or now_s),
    )


def _facts(row: dict[str, Any]) -> Facts:
    node = row["node"]
    return Facts(
        in_service=node != NodeState.RETIRED and bool(row["in_service"]),
        holder=str(row["attempt"] or ""),
        reserved_for=str(row["reserved_for"] or row["booked_for"]),
        is_preparing=row["attempt_state"] != AttemptState.RUNNING,
        is_silent=node == NodeState.SILENT,
        is_down=node == NodeState.LOST or not row["is_present"] or row["health"] in _DOWN,
        is_drained=node in (NodeState.DRAINING, NodeState.DRAINED),
        is_quarantined=node == NodeState.QUARANTINED or row["health"] == DeviceHealth.QUARANTINED,
    )
