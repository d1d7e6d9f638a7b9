"""Devices that are kept for jobs while others make room for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from accounts.statements import AskedOnce
from scheduler.engine.snapshot import NONE, Claims, Devices, floats, ints
from scheduler.engine.snapshot.claims import no_claims
from scheduler.models import Claim


def with_claims(
    devices: Devices, node_row: Mapping[int, int], now: datetime
) -> tuple[Claims, Devices]:
    """The claims that still hold, and the devices with the rows of theirs.

    A room of which a node is gone is left out whole; the reaper gives it back in a moment.
    """
    kept = KEPT.read(now)
    if not kept:
        return no_claims(), devices
    broken = {job for job, _, node, *_ in kept if node not in node_row}
    shares: list[tuple[int, int, int, int, float]] = []
    gpus: list[int] = []
    row_of: dict[int, int] = {}
    last = None
    for job, rank, node, device, cpus, mib, limit_s in kept:
        if job in broken:
            continue
        if (job, rank) != last:
            shares.append((job, node_row[node], cpus, mib, now.timestamp() + limit_s))
            gpus.append(0)
        gpus[-1] += 1
        row_of[device] = len(shares) - 1
        last = (job, rank)
    job_of, node_of, cpus_of, mib_of, until_s = list(zip(*shares, strict=True)) or [()] * 5
    claims = Claims(
        job=ints(job_of),
        node=ints(node_of),
        gpus=ints(gpus),
        cpus=ints(cpus_of),
        memory_mib=ints(mib_of),
        until_s=floats(until_s),
    )
    claim = ints([row_of.get(device, NONE) for device in devices.id.tolist()])
    return claims, replace(devices, claim=claim)


def _kept_at(now: datetime) -> QuerySet[Claim, tuple[Any, ...]]:
    kept = Claim.objects.filter(expires_at__gt=now).order_by("job_id", "rank", "device_id")
    return kept.values_list(
        "job_id", "rank", "node_id", "device_id", "cpus", "memory_mib", "job__time_limit_s"
    )


KEPT = AskedOnce(_kept_at)
