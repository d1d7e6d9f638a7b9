"""What the style guide shows of a cluster: made-up nodes, bars and waits, each in every state."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from portal.pages.cluster.gantt import Scale, draw
from portal.pages.cluster.racks import METRICS, Look
from portal.pages.cluster.racks import draw as draw_rack
from portal.pages.cluster.room import draw_room
from portal.pages.queue.week import week_picture
from scheduler.models import Node, Pool
from scheduler.selectors.freeing.room import PoolRoom
from scheduler.selectors.machines.gpu_map import Holding, MapGpu, MapNode, Reading
from scheduler.selectors.machines.timeline import Bar, Row
from scheduler.selectors.waits.hours import HourCell

_NAMES = (("n1", "ready"), ("n2", "ready"), ("n3", "drained"), ("n4", "silent"))


def cluster_parts(now: datetime) -> dict[str, object]:
    """The context of cluster/_styleguide.html."""
    nodes = [_node(name, state) for name, state in _NAMES]
    teams = {f"team-{n}": n for n in range(8)}
    looks = (
        ("allocation", Look("allocation", False, {})),
        ("team", Look("team", False, teams)),
        ("temperature", Look("temperature", False, {})),
        ("temperature, with numbers", Look("temperature", True, {})),
        ("health", Look("health", False, {})),
    )
    return {
        "racks": [(words, draw_rack(nodes, look, lambda _: "#map")) for words, look in looks],
        "ramp": METRICS["temperature"].legend,
        "gantt": draw(_rows(now), Scale(now - timedelta(hours=5), now + timedelta(hours=7)), now,
                      lambda _, __: "#gantt"),
        "room": draw_room(_room(now), Scale(now - timedelta(hours=5), now + timedelta(hours=7)),
                          now, 6),
        "week": week_picture([_cell(at // 24, at % 24) for at in range(7 * 24)]),
    }  # fmt: skip


def _node(name: str, state: str) -> MapNode:
    """Eight GPUs: held by each of eight teams, or idle, booked, suspect and broken ones."""
    node = MapNode(Node(name=name, state=state, pool=Pool(name="h100")))
    for index in range(8):
        whose = Holding(100 + index, "train", f"team-{index}", "llm") if name == "n1" else None
        health = (
            {6: "suspect", 7: "quarantined"}.get(index, "healthy") if name == "n2" else "healthy"
        )
        is_held = whose is not None or (name == "n2" and index < 2)
        # One that was read is enough to see every shade.
        reading = Reading(10.0 * index, 1024.0, 90.0 * index, 35.0 + 8 * index) if whose else None
        gpu = MapGpu(str(index), "H100", 81920, health, is_held, whose, reading)
        gpu.is_booked = name == "n2" and not is_held
        node.gpus.append(gpu)
    return node


def _rows(now: datetime) -> list[Row]:
    hour = timedelta(hours=1)

    def bar(kind: str, start: float, end: float, words: str = "", gpus: int = 0) -> Bar:
        return Bar(kind, now + start * hour, now + end * hour, gpus, words=words)

    past = bar("past", -4.5, -2, "tokenize", gpus=8)
    sums = replace(bar("past", -1.8, -0.2), jobs=212)
    running = bar("running", -1, 3, "llm-pretrain", gpus=8)
    others = bar("running", -3, 1, gpus=4)
    booking = bar("booking", 3.5, 6, "paper-deadline · vision")
    closed = bar("maintenance", 2, 4, "new switches")
    planned = bar("planned", 1, 5, "segmentation", gpus=16)
    return [
        Row("n1", "h100", node="n1", bars=[past, running]),
        Row("n2", "h100", node="n2", bars=[others, sums, booking]),
        Row("n3", "h100", node="n3", bars=[closed]),
        Row("planned", "h100", is_node=False, bars=[planned]),
    ]


def _room(now: datetime) -> PoolRoom:
    hour = timedelta(hours=1)

    def points(first: int, *counts: int) -> list[tuple[datetime, int]]:
        return [(now + (first + at) * hour, count) for at, count in enumerate(counts)]

    past, latest = points(-5, 2, 2, 5, 4, 1), points(0, 1, 1, 3, 3, 3, 6, 6, 6)
    return PoolRoom("h100", 8, past, latest, points(0, 1, 3, 3, 6, 6, 8, 8, 8))


def _cell(day: int, hour: int) -> HourCell:
    step = -1 if hour < 6 else (day + hour) % 6
    return HourCell(day, hour, 0, 0, None if step < 0 else 60.0 * 4**step, step)
