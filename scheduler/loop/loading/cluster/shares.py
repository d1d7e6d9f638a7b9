"""What holds a part of a node now: the shares of live jobs, and their devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from django.db.models import QuerySet

from accounts.statements import AskedOnce
from scheduler.engine.snapshot import NONE, Held, flags, floats, ints
from scheduler.loop.loading.accounts import Owners
from scheduler.loop.loading.columns import seconds_of
from scheduler.loop.loading.texts import as_text, rows_of
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


def _share(row: Sequence[Any], node_row: Mapping[int, int]) -> Share:
    """Of the values of `_SHARE_FIELDS`."""
    job, node, cpus, memory_mib, started, assigned, limit_s, *limits = row
    until_s = seconds_of(started or assigned) + limit_s
    return Share(job, node_row[node], cpus, memory_mib, until_s, *limits)


Shares: TypeAlias = tuple[list[Share], dict[int, int]]


@dataclass(slots=True)
class ShareMemory:
    """What the shares were made of last, and what was made of that."""

    _from: tuple[str | None, ...] = ()
    _of_nodes: Mapping[int, int] = field(default_factory=dict)
    _made: Shares = field(default_factory=lambda: ([], {}))

    def load(self, node_row: Mapping[int, int]) -> Shares:
        """What holds a part of a node now, and the row of the holder by device id; only to be read.

        Three queries: in one a share of eight devices would be read eight times, and one without
        any not at all. What ends between them holds nothing.
        """
        source = tuple(one.read()[0][0] for one in (HELD, HOLDERS, BARE))
        if source != self._from or node_row != self._of_nodes:
            self._made = _make(source, node_row)
            self._from, self._of_nodes = source, node_row
        return self._made


def _make(texts: tuple[str | None, ...], node_row: Mapping[int, int]) -> Shares:
    held, holders, bare = map(rows_of, texts)
    fields_of = {pk: fields for pk, *fields in holders}
    shares: list[Share] = []
    row_of: dict[int, int] = {}
    # Shares are numbered in the order of their devices.
    for placement in dict.fromkeys(placement for _, placement in held):
        fields = fields_of.get(placement)
        if fields is not None and fields[1] in node_row:
            row_of[placement] = len(shares)
            shares.append(_share(fields, node_row))
    holder = {device: row_of[placement] for device, placement in held if placement in row_of}
    # Running ranks of jobs that asked for no GPU: they hold CPUs and memory all the same.
    bare.sort(key=lambda row: row[:2])
    shares += [_share(row, node_row) for _, _, *row in bare if row[1] in node_row]
    return shares, holder


def _unreleased() -> QuerySet[Allocation]:
    return Allocation.objects.filter(released_at__isnull=True)


# As texts: those of devices are short and many, and all are compared before they are taken apart.
def _held() -> QuerySet[Allocation, tuple[Any, ...]]:
    return as_text(_unreleased(), ("device_id", "placement_id"))


def _holders() -> QuerySet[Placement, tuple[Any, ...]]:
    known = Placement.objects.filter(pk__in=_unreleased().values("placement_id"))
    return as_text(known, ("pk", *_SHARE_FIELDS))


def _without_devices() -> QuerySet[Placement, tuple[Any, ...]]:
    held = Placement.objects.filter(
        ended_at__isnull=True,
        attempt__state__in=LIVE_ATTEMPT_STATES,
        attempt__job__gpus_per_node=0,
    )
    return as_text(held, ("attempt_id", "rank", *_SHARE_FIELDS))


HELD, HOLDERS, BARE = AskedOnce(_held), AskedOnce(_holders), AskedOnce(_without_devices)


def as_held(
    shares: Sequence[Share],
    team_of: Mapping[int, int],
    owners: Owners,
    booking_row: Mapping[int, int],
) -> Held:
    """The placements of `ShareMemory` as the engine sees them; `team_of` by project."""
    projects = ints([share.project for share in shares])
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
        account=owners.of(projects),
        sharer=owners.sharers(projects, ints([share.owner for share in shares])),
        booking=ints([booking_row.get(share.booking or 0, NONE) for share in shares]),
    )
