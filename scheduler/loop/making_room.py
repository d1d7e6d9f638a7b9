"""Stops to rows, in two steps: victims are asked to stop, and the job starts once they have.

A job that goes on with another number of nodes is stopped for itself or for whom it gives nodes to;
where it goes on is kept for it like any other room.

The engine plans a stop and the start that follows it together. Here the start waits: its devices
are kept for it (`Claim`), the next snapshots show them as kept, and the engine starts the job on
them when they are free. Whatever happens between, a victim that ends by itself, a cancel, a
scheduler that dies, the next cycle finds in the rows.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime

import numpy as np
from django.db import DatabaseError

from scheduler.engine.plan import Plan, Resize, Start
from scheduler.engine.snapshot import NONE, Snapshot
from scheduler.loop.committing import placed_on, placements_of
from scheduler.services.errors import LeaseLost
from scheduler.services.preempting.ordering import Room, Victim, order_room

logger = logging.getLogger(__name__)


def split_starts(
    plan: Plan, snapshot: Snapshot, limits_s: Mapping[int, int]
) -> tuple[list[Start], list[Room]]:
    """The starts that can be committed now, and the rooms that have to be made first.

    `limits_s`: for how long the starts were planned, by job.

    A start waits if it is why somebody stops, if a device is still held, or if the job itself is
    being moved. Who is resized has a room of its own. A start that takes of the CPUs, memory or
    licences which only the stops give back is left to a later cycle.
    """
    if not plan.stops and not plan.resizes:
        return list(plan.starts), []
    devices = snapshot.devices
    held = set(devices.id[devices.holder != NONE].tolist())
    moved = {stop.job for stop in plan.stops}
    victims: dict[int, list[Victim]] = {}
    for stop in plan.stops:
        victims.setdefault(stop.beneficiary, []).append(Victim(stop.job, stop.facts))
    ready, rooms = list[Start](), list[Room]()
    for resize in plan.resizes:
        moved.add(resize.job)
        for_whom = resize.job if resize.beneficiary is None else resize.beneficiary
        victims.setdefault(for_whom, []).append(_resized(resize))
        asked = tuple(victims[resize.job]) if resize.beneficiary is None else ()
        rooms.append(Room(resize.job, placements_of(resize.placements), asked))
    for start in plan.starts:
        given = {device for p in start.placements for device in p.devices}
        if start.job in victims or start.job in moved or given & held:
            asked = tuple(victims.get(start.job, ()))
            rooms.append(Room(start.job, placed_on(start), asked, limits_s.get(start.job)))
        else:
            ready.append(start)
    ready = _within_what_is_free(ready, snapshot)
    # Who moves is asked by the room of the job it moves for, which therefore comes first.
    rooms.sort(key=lambda room: room.job_id in moved)
    return ready, rooms


def _within_what_is_free(starts: Sequence[Start], snapshot: Snapshot) -> list[Start]:
    """Those that fit, one after the other, beside all who hold something at this moment."""
    nodes, waiting, tokens = snapshot.nodes, snapshot.waiting, snapshot.tokens
    left: dict[tuple[str, int], int] = {}
    for name, column in (("cpus", nodes.cpus_free), ("memory", nodes.memory_free_mib)):
        free = zip(nodes.id.tolist(), column.tolist(), strict=True)
        left.update(((name, node), amount) for node, amount in free)
    used = np.bincount(tokens.licence, weights=tokens.count, minlength=len(snapshot.licences))
    unused = (snapshot.licence_total - used.astype(np.int64)).tolist()
    left.update((("licence", row), count) for row, count in enumerate(unused))
    asks = np.flatnonzero(waiting.licences != NONE)
    licences = dict(zip(waiting.id[asks].tolist(), waiting.licences[asks].tolist(), strict=True))
    found = list[Start]()
    for start in starts:
        takes = Counter[tuple[str, int]]()
        for placed in start.placements:
            takes["cpus", placed.node] += placed.cpus
            takes["memory", placed.node] += placed.memory_mib
        for row, count in (
            snapshot.licence_sets[licences[start.job]] if start.job in licences else ()
        ):
            takes["licence", row] += count
        if all(amount <= max(0, left[what]) for what, amount in takes.items()):
            found.append(start)
            for what, amount in takes.items():
                left[what] -= amount
    return found


def _resized(resize: Resize) -> Victim:
    """The job that changes its size, and what spoke for it."""
    facts: dict[str, object] = {"cost_gpu_s": resize.cost_gpu_s}
    if resize.gain_gpu_s:
        facts["gain_gpu_s"] = resize.gain_gpu_s
    return Victim(resize.job, facts, resize=(resize.was, resize.nodes))


def commit_rooms(rooms: Sequence[Room], *, lease_token: int, now: datetime) -> int:
    """Order the rooms one by one, each whole or not; returns how many jobs were asked to stop.

    A room that cannot be ordered is left to later cycles. Raises LeaseLost.
    """
    stopped = 0
    for room in rooms:
        try:
            stopped += order_room(room, lease_token=lease_token, now=now)
        except (LeaseLost, DatabaseError):
            raise
        except Exception:
            logger.exception("room for job %s cannot be made", room.job_id)
    return stopped
