"""What a device goes through from one short job to the next, by the times that were recorded."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from portal.bench.apart import python
from portal.bench.figures import percentile
from portal.embedded.stack import Stack

# Who held which device from when until when, and when the program there began; and the cycles.
READ = """
import json, sys, django
django.setup()
from scheduler.models import Allocation, CycleRecord
mine = Allocation.objects.filter(placement__attempt__job__name__startswith=sys.argv[1])
names = ("device_id", "acquired_at", "placement__started_at", "released_at")
rows = list(mine.order_by("device_id", "acquired_at").values_list(*names))
cycles = CycleRecord.objects.filter(started__gt=0, at__gte=min(row[1] for row in rows))
print(json.dumps({
    "turns": [[row[0], *(moment.timestamp() for moment in row[1:])] for row in rows if all(row)],
    "cycles": list(cycles.values_list("started", "duration_ms")),
}))
"""


def read_turns(stack: Stack, prefix: str, took_s: float) -> dict[str, Any]:
    """The figures of the jobs whose names begin so, which took so long together."""
    told = json.loads(python(dict(stack.environment()), "-c", READ, prefix))
    cycles = told["cycles"]
    return {
        "turn_ms": turns_of(told["turns"]),
        "starting_cycles": {
            "per_s": round(len(cycles) / took_s, 1),
            "starts": percentile([started for started, _ in cycles], 0.5),
            "ms": percentile([ms for _, ms in cycles], 0.5),
        },
    }


def turns_of(rows: Iterable[Sequence[float]]) -> Mapping[str, float]:
    """Medians in ms, of rows of device, assigned, begun, released, in this order.

    `begin`: from the assignment to the program; `end`: from there to the end that the server knows;
    `free`: until the device is assigned again; `all`: from one assignment to the next.
    """
    found: dict[str, list[float]] = {"begin": [], "end": [], "free": [], "all": []}
    for (device, assigned, begun, released), (next_device, again, *_) in pairwise(rows):
        if device != next_device:
            continue
        found["begin"].append(begun - assigned)
        found["end"].append(released - begun)
        found["free"].append(again - released)
        found["all"].append(again - assigned)
    return {
        name: percentile([1000 * gap for gap in gaps], 0.5) for name, gaps in found.items() if gaps
    }
