"""What holds a part of a node now: the shares of live jobs, and their devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from accounts.statements import AskedOnce
from scheduler.engine.snapshot import NONE, Held, flags, floats, ints
from scheduler.loop.loading.accounts import Owners
from scheduler.loop.loading.texts import chunked, rows_of
from scheduler.models import Allocation, Placement
from scheduler.states import LIVE_ATTEMPT_STATES


@dataclass(slots=True)
class Share:
    """One placement that holds devices, or CPUs and memory alone."""

    job: int
    node: int
    cpus: int
    memory_mib: int
    until_s: float
    scratch_mib: int
    project: int
    owner: int
    shares_cards: bool
    is_exclusive: bool
    booking: int | None


# Devices of one text.
_MANY = 1 << 20
_JOB = "attempt__job__"
_SHARE_FIELDS = (
    "attempt__job_id",
    "node_id",
    "cpus",
    "memory_mib",
    "attempt__started_at",
    "attempt__assigned_at",
    f"{_JOB}time_limit_s",
    f"{_JOB}scratch_mib",
    f"{_JOB}project_id",
    f"{_JOB}owner_id",
    f"{_JOB}share_cards",
    f"{_JOB}exclusive",
    f"{_JOB}booked_in_id",
)


def _share(row: Sequence[Any], node_row: dict[int, int]) -> Share:
    """Of the values of `_SHARE_FIELDS`."""
    job, node, cpus, memory_mib, started, assigned, limit_s, *limits = row
    until_s = (started or assigned).timestamp() + limit_s
    return Share(job, node_row[node], cpus, memory_mib, until_s, *limits)


def load_shares(node_row: dict[int, int]) -> tuple[list[Share], dict[int, int]]:
    """What holds a part of a node now, and the row of the holder by device id.

    Two queries, because a share of eight devices would be read eight times in one. What ends
    between them holds nothing.
    """
    held = [(device, placement) for (text,) in HELD.read() for device, placement in rows_of(text)]
    fields_of = {pk: fields for pk, *fields in HOLDERS.read()}
    shares: list[Share] = []
    row_of: dict[int, int] = {}
    # Shares are numbered in the order of their devices.
    for placement in dict.fromkeys(placement for _, placement in held):
        fields = fields_of.get(placement)
        if fields is not None and fields[1] in node_row:
            row_of[placement] = len(shares)
            shares.append(_share(fields, node_row))
    holder = {device: row_of[placement] for device, placement in held if placement in row_of}
    shares += _shares_without_devices(node_row)
    return shares, holder


def _unreleased() -> QuerySet[Allocation]:
    return Allocation.objects.filter(released_at__isnull=True)


def _held() -> QuerySet[Allocation, tuple[Any, ...]]:
    """As texts: they are short and many, and are read beside rows that are few and long."""
    return chunked(_unreleased(), "device_id", _MANY, ("device_id", "placement_id"))


def _holders() -> QuerySet[Placement, tuple[Any, ...]]:
    known = Placement.objects.filter(pk__in=_unreleased().values("placement_id")).order_by()
    return known.values_list("pk", *_SHARE_FIELDS)


def _without_devices() -> QuerySet[Placement, tuple[Any, ...]]:
    held = Placement.objects.filter(
        ended_at__isnull=True,
        attempt__state__in=LIVE_ATTEMPT_STATES,
        attempt__job__gpus_per_node=0,
    )
    return held.order_by().values_list("attempt_id", "rank", *_SHARE_FIELDS)


HELD, HOLDERS, BARE = AskedOnce(_held), AskedOnce(_holders), AskedOnce(_without_devices)


def _shares_without_devices(node_row: dict[int, int]) -> list[Share]:
    """Running ranks of jobs that asked for no GPU: they hold CPUs and memory all the same."""
    # Sorted here: for an order SQLite would go through all ranks that ever ran.
    rows = sorted(BARE.read())
    return [_share(row, node_row) for _, _, *row in rows if row[1] in node_row]


def as_held(
    shares: Sequence[Share],
    team_of: Mapping[int, int],
    owners: Owners,
    booking_row: Mapping[int, int],
) -> Held:
    """The placements of `load_shares` as the engine sees them; `team_of` by project."""
    return Held.of(
        job=ints([share.job for share in shares]),
        node=ints([share.node for share in shares]),
        cpus=ints([share.cpus for share in shares]),
        memory_mib=ints([share.memory_mib for share in shares]),
        until_s=floats([share.until_s for share in shares]),
        scratch_mib=ints([share.scratch_mib for share in shares]),
        tenant=ints([team_of.get(share.project, NONE) for share in shares]),
        shares_cards=flags([share.shares_cards for share in shares]),
        is_exclusive=flags([share.is_exclusive for share in shares]),
        account=owners.of(share.project for share in shares),
        sharer=owners.sharers(
            (share.project for share in shares), (share.owner for share in shares)
        ),
        booking=ints([booking_row.get(share.booking or 0, NONE) for share in shares]),
    )
