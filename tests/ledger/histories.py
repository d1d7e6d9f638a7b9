"""Random but possible histories of a few devices: what a cluster might have done in a while."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from scheduler.ledger.segments import DeviceEvent, Kind

TIERS = ("guaranteed", "borrowed")


@dataclass
class _Device:
    name: str
    in_service: bool = False
    holder: str = ""
    attempt_began: int = 0


@dataclass
class History:
    """Events, and facts counted beside them by other means than the partition's."""

    events: list[DeviceEvent] = field(default_factory=list)
    # (device, attempt): seconds from assignment to release, as a job's own book would have it.
    holds: list[tuple[str, str, int, int]] = field(default_factory=list)
    # (device, from, to or end)
    service: list[tuple[str, int, int]] = field(default_factory=list)
    end_s: int = 0


def history(seed: int, *, devices: int = 3, steps: int = 40, start_s: int = 0) -> History:
    """A history; the same seed gives the same one. Ends with everything open at `end_s`."""
    chance = random.Random(seed)
    made = History()
    yard = [_Device(f"d{n}") for n in range(devices)]
    began: dict[str, int] = {}
    now, attempt = start_s, 0
    for commit in range(steps):
        # Often within the same second; sometimes days later.
        now += chance.choice((0, 0, 1, 7, 61, 3_600, 40_000, 90_000, 400_000))
        device = chance.choice(yard)
        if not device.in_service:
            made.events.append(DeviceEvent(now, commit, device.name, Kind.ENROLLED))
            device.in_service, began[device.name] = True, now
            continue
        what = chance.random()
        if what < 0.55:
            if device.holder:
                made.events.append(
                    DeviceEvent(now, commit, device.name, Kind.RELEASED, device.holder)
                )
                made.holds.append((device.name, device.holder, device.attempt_began, now))
                device.holder = ""
            if chance.random() < 0.7:
                attempt += 1
                device.holder, device.attempt_began = f"a{attempt}", now
                tier = chance.choice(TIERS)
                made.events.append(
                    DeviceEvent(now, commit, device.name, Kind.HELD, device.holder, tier)
                )
        elif what < 0.95 or device.holder:
            made.events.append(
                DeviceEvent(now, commit, device.name, chance.choice(_FREELY), chance.choice("pq"))
            )
        else:
            made.events.append(DeviceEvent(now, commit, device.name, Kind.RETIRED))
            made.service.append((device.name, began.pop(device.name), now))
            device.in_service = False
    made.end_s = now + chance.choice((0, 1, 5_000, 200_000))
    for device in yard:
        if device.holder:
            made.holds.append((device.name, device.holder, device.attempt_began, made.end_s))
        if device.in_service:
            made.service.append((device.name, began[device.name], made.end_s))
    return made


_FREELY = (
    Kind.HEARD,
    Kind.FOUND,
    Kind.RESUMED,
    Kind.RESERVED,
    Kind.UNRESERVED,
    Kind.STARTED,
    Kind.STARTED,
    Kind.STARTED,
    Kind.STOPPING,
    Kind.DRAINED,
    Kind.QUARANTINED,
    Kind.SILENT,
    Kind.LOST,
)


def overlap(one: tuple[int, int], other: tuple[int, int]) -> int:
    """Seconds two intervals share."""
    return max(0, min(one[1], other[1]) - max(one[0], other[0]))
