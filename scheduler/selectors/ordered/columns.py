"""By which columns each table can be put in order."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db.models import Case, Count, Exists, F, OuterRef, Subquery, Value, When
from django.db.models.functions import Coalesce

from scheduler.models import Allocation, Device
from scheduler.selectors.ordered.ordering import NUMBER, Column
from scheduler.states import DeviceHealth, NodeState

JOB_COLUMNS: Mapping[str, Column] = {
    "submitted": NUMBER,
    "started": Column(F("started_at"), datetime, may_lack=True),
    "ended": Column(F("ended_at"), datetime, may_lack=True),
    "gpus": Column(F("nodes") * F("gpus_per_node"), int),
}


def _free_devices() -> Case:
    """Of a node, as its pool counts them: healthy, in service, and held by nobody."""
    held = Allocation.objects.filter(device=OuterRef("pk"), released_at__isnull=True)
    free = Device.objects.filter(
        ~Exists(held),
        node=OuterRef("pk"),
        is_present=True,
        in_service=True,
        health=DeviceHealth.HEALTHY,
    )
    counted = free.order_by().values("node").annotate(count=Count("pk")).values("count")
    return Case(When(state=NodeState.READY, then=Coalesce(Subquery(counted), 0)), default=Value(0))


_BY_NAME: dict[str, Any] = {"tie": "name", "tie_kind": str}
NODE_COLUMNS: Mapping[str, Column] = {
    "name": Column(F("name"), str, falls_first=False, **_BY_NAME),
    "state": Column(F("state"), str, falls_first=False, **_BY_NAME),
    "free": Column(_free_devices(), int, **_BY_NAME),
    "seen": Column(F("last_seen_at"), datetime, may_lack=True, **_BY_NAME),
}

REQUEST_COLUMNS: Mapping[str, Column] = {
    "asked": NUMBER,
    "team": Column(F("team__slug"), str, falls_first=False),
    "due": Column(F("due_at"), datetime, may_lack=True, falls_first=False),
}
