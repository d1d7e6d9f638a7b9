"""How long a silent node is waited for: until what runs there has surely been ended."""

from __future__ import annotations

from datetime import timedelta

from django.db.models import QuerySet

from scheduler.conf import load_conf
from scheduler.models import Placement

# What a rank's supervisor was told: how long without the server, how long from a stop to the kill.
GRACES = ("attempt__job__spec__disconnect_grace", "attempt__stop_grace_s")


def patience_with(ranks: QuerySet[Placement]) -> dict[int, timedelta]:
    """By node, the longest that any of these ranks can live there without the server; one query.

    A stop may have begun at the last moment of the grace, and the program has its time to stop in.
    """
    conf = load_conf()
    found: dict[int, timedelta] = {}
    for node, asked_s, stop_s in ranks.order_by().values_list("node_id", *GRACES):
        after = conf.lost_after_grace(asked_s or 0, stop_s)
        found[node] = max(found.get(node, after), after)
    return found
