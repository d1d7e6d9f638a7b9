"""The partition: every second of a device in service lies in exactly one bucket.

A device's facts (held, silent, drained, ...) change by events; `bucket_of` is the only rule that
turns facts into a bucket. Moments are floored to whole seconds before they come here; flooring
keeps their order, so segments of no length may occur: they are kept as what happened and count
nothing. Time out of service lies in OUT, so a device's stream has no gap from its first enrolment
on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum


class Bucket(StrEnum):
    """Where a device's second went."""

    RUN = "run"
    OVERHEAD = "overhead"
    UNREACHABLE = "unreachable"
    RESERVED_IDLE = "reserved_idle"
    FREE = "free"
    DRAINED = "drained"
    DOWN = "down"
    QUARANTINE = "quarantine"
    OUT = "out"


ALLOCATED = frozenset({Bucket.RUN, Bucket.OVERHEAD, Bucket.UNREACHABLE})
IDLE = frozenset({Bucket.RESERVED_IDLE, Bucket.FREE})
UNALLOCATED = frozenset({Bucket.DRAINED, Bucket.DOWN, Bucket.QUARANTINE})
IN_SERVICE = ALLOCATED | IDLE | UNALLOCATED


@dataclass(frozen=True, slots=True)
class Facts:
    """What is true of a device at a moment. `holder` is an attempt, `reserved_for` whose it is
    while nobody holds it: a project, or a team.

    `is_preparing`: the holder's program does not run: it is being set up, stopped or cleaned up.
    `is_silent`: its node is not heard; `is_down`: its node is lost, or the card is missing.
    """

    in_service: bool = False
    holder: str = ""
    is_preparing: bool = False
    is_silent: bool = False
    is_down: bool = False
    is_drained: bool = False
    is_quarantined: bool = False
    reserved_for: str = ""
    tier: str = ""


def bucket_of(facts: Facts) -> tuple[Bucket, str]:
    """Bucket and holder (attempt or project, or nobody) of a device's time under these facts.

    A held device is allocated whatever else is true of it: nobody else could have had it.
    """
    if not facts.in_service:
        return Bucket.OUT, ""
    if facts.holder:
        if facts.is_silent or facts.is_down:
            return Bucket.UNREACHABLE, facts.holder
        return (Bucket.OVERHEAD if facts.is_preparing else Bucket.RUN), facts.holder
    if facts.is_silent or facts.is_down:
        return Bucket.DOWN, ""
    if facts.is_quarantined:
        return Bucket.QUARANTINE, ""
    if facts.is_drained:
        return Bucket.DRAINED, ""
    if facts.reserved_for:
        return Bucket.RESERVED_IDLE, facts.reserved_for
    return Bucket.FREE, ""


def proven(start_s: int, end_s: int, ran: tuple[int, int] | None) -> list[tuple[Bucket, int, int]]:
    """The time of a silent node that an attempt held, by what the node told of it later.

    `ran`: from when until when the attempt's program ran there, in whole seconds. As far as it ran
    throughout, it was used; the rest stays unreachable, as does all of it where nothing was told.
    """
    if ran is None or not ran[0] <= start_s < ran[1]:
        return [(Bucket.UNREACHABLE, start_s, end_s)]
    until = min(end_s, ran[1])
    found = [(Bucket.RUN, start_s, until), (Bucket.UNREACHABLE, until, end_s)]
    return found[:1] if until == end_s else found


class Kind(StrEnum):
    """Events of a device; see `_EFFECTS`. Their order here is their order within one commit."""

    ENROLLED = "enrolled"
    HEARD = "heard"
    FOUND = "found"
    RESUMED = "resumed"
    RELEASED = "released"
    UNRESERVED = "unreserved"
    RESERVED = "reserved"
    HELD = "held"
    STARTED = "started"
    STOPPING = "stopping"
    DRAINED = "drained"
    QUARANTINED = "quarantined"
    SILENT = "silent"
    LOST = "lost"
    RETIRED = "retired"


_ORDER = {kind: place for place, kind in enumerate(Kind)}
_EFFECTS: Mapping[Kind, Mapping[str, bool | str]] = {
    Kind.ENROLLED: {"in_service": True, "is_silent": False, "is_down": False},
    Kind.HEARD: {"is_silent": False, "is_down": False},
    Kind.FOUND: {"is_down": False},
    Kind.RESUMED: {"is_drained": False, "is_quarantined": False},
    Kind.RELEASED: {"holder": "", "is_preparing": False, "tier": ""},
    Kind.UNRESERVED: {"reserved_for": ""},
    Kind.RESERVED: {},
    Kind.HELD: {"is_preparing": True},
    Kind.STARTED: {"is_preparing": False},
    Kind.STOPPING: {"is_preparing": True},
    Kind.DRAINED: {"is_drained": True},
    Kind.QUARANTINED: {"is_quarantined": True},
    Kind.SILENT: {"is_silent": True},
    Kind.LOST: {"is_down": True},
    Kind.RETIRED: {"in_service": False, "is_drained": False, "is_quarantined": False},
}


@dataclass(frozen=True, slots=True)
class DeviceEvent:
    """One event; those of one commit carry the same `commit` and may come in any order."""

    at_s: int
    commit: int
    device: str
    kind: Kind
    holder: str = ""
    tier: str = ""


@dataclass(frozen=True, slots=True)
class Segment:
    """A device's time in one bucket; `end_s` None: still so. Half-open."""

    device: str
    start_s: int
    end_s: int | None
    bucket: Bucket
    holder: str = ""
    tier: str = ""

    def seconds(self, start_s: int, end_s: int) -> int:
        """Its seconds within a window."""
        end = end_s if self.end_s is None else min(self.end_s, end_s)
        return max(0, end - max(self.start_s, start_s))


class ImpossibleEvent(ValueError):
    """An event that cannot follow what happened before; says which and why."""


def changed(facts: Facts, event: DeviceEvent) -> Facts:
    """The facts after an event. Raises ImpossibleEvent for a second holder or none to release."""
    if event.kind is Kind.HELD:
        if facts.holder:
            raise ImpossibleEvent(
                f"{event.device} at {event.at_s}: {event.holder} cannot take it, "
                f"{facts.holder} holds it"
            )
        if not facts.in_service or not event.holder:
            raise ImpossibleEvent(f"{event.device} at {event.at_s}: held out of service or by none")
        return replace(facts, holder=event.holder, is_preparing=True, tier=event.tier)
    if event.kind is Kind.RELEASED and facts.holder != event.holder:
        raise ImpossibleEvent(
            f"{event.device} at {event.at_s}: {event.holder} releases what "
            f"{facts.holder or 'nobody'} holds"
        )
    if event.kind is Kind.RETIRED and facts.holder:
        raise ImpossibleEvent(f"{event.device} at {event.at_s}: retired while {facts.holder} runs")
    if event.kind is Kind.RESERVED:
        return replace(facts, reserved_for=event.holder)
    return replace(facts, **_EFFECTS[event.kind])  # type: ignore[arg-type]


def partition(events: Iterable[DeviceEvent]) -> list[Segment]:
    """All segments of all devices, by device and time.

    Events of one commit are applied in the order of `Kind`, so the order of arrival inside a commit
    changes nothing. Raises ImpossibleEvent, also where a commit lies before an earlier one.
    """
    streams: dict[str, list[DeviceEvent]] = {}
    for event in sorted(events, key=lambda e: (e.commit, _ORDER[e.kind])):
        streams.setdefault(event.device, []).append(event)
    return [segment for device in sorted(streams) for segment in _stream(device, streams[device])]


def _stream(device: str, events: list[DeviceEvent]) -> Iterator[Segment]:
    facts = Facts()
    current: Segment | None = None
    for place, event in enumerate(events):
        facts = changed(facts, event)
        if current is not None and event.at_s < current.start_s:
            raise ImpossibleEvent(f"{device}: {event.kind} at {event.at_s} comes too late")
        if place + 1 < len(events) and events[place + 1].commit == event.commit:
            continue
        bucket, holder = bucket_of(facts)
        then = Segment(device, event.at_s, None, bucket, holder, facts.tier)
        if current is None:
            current = then if bucket is not Bucket.OUT else None
        elif (current.bucket, current.holder, current.tier) != (bucket, holder, facts.tier):
            yield replace(current, end_s=event.at_s)
            current = then
    if current is not None:
        yield current


def totals(segments: Iterable[Segment], start_s: int, end_s: int) -> Counter[Bucket]:
    """Seconds by bucket within a window; OUT is counted too and is no capacity."""
    found: Counter[Bucket] = Counter()
    for segment in segments:
        found[segment.bucket] += segment.seconds(start_s, end_s)
    return found


@dataclass(frozen=True, slots=True)
class RollUp:
    """The identity: allocated + idle + unallocated = in_service, in whole device seconds."""

    allocated: int
    idle: int
    unallocated: int
    in_service: int


def roll_up(found: Mapping[Bucket, int]) -> RollUp:
    """The three sums of a window's buckets and what they add up to."""
    parts = [
        sum(found.get(bucket, 0) for bucket in group) for group in (ALLOCATED, IDLE, UNALLOCATED)
    ]
    return RollUp(parts[0], parts[1], parts[2], sum(found.get(b, 0) for b in IN_SERVICE))
