"""The GPU map: how full each pool is, what is out of order, and every GPU as a square."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone

from accounts.permissions import can
from portal.forms.filters import unknown_parameters
from portal.pages.access import choice, page, pool_asked, viewer_of
from portal.pages.cluster.racks import METRICS, SERIES, Look, racks
from scheduler.selectors.cluster import visible_pools
from scheduler.selectors.machines.gpu_map import MapNode, gpu_map
from scheduler.states import DeviceHealth, NodeState

PARAMETERS = ("pool", "metric", "view", "numbers", "after", "part")
WAYS = {
    "allocation": "Allocation",
    "team": "Team",
    **{key: metric.title for key, metric in METRICS.items()},
    "health": "Health",
}
MOST_ALARMS = 6
NODES_A_TABLE = 250
# The worst first.
_ALARMING = (
    NodeState.LOST, NodeState.SILENT, NodeState.QUARANTINED, DeviceHealth.QUARANTINED,
    DeviceHealth.SUSPECT, NodeState.DRAINING, NodeState.DRAINED,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Line:
    """A node in the table beside the map; `values`: lowest, mean and highest of the metric;
    `teams`: who holds it, those that the viewer may not know as one."""

    node: MapNode
    values: tuple[float, float, float] | None
    worst: str
    teams: str


@dataclass(slots=True)
class Fill:
    """GPUs of a pool or of all: each is in exactly one of held, out, drained, booked and free."""

    name: str
    nodes: int = 0
    total: int = 0
    held: int = 0
    out: int = 0
    drained: int = 0
    booked: int = 0
    free: int = 0


@dataclass(frozen=True, slots=True)
class Alarm:
    """A node, or GPUs of it, that somebody has to look at, and why it is so."""

    state: str
    node: str
    gpus: str
    reason: str


@page("GET")
def cluster_map(request: HttpRequest) -> HttpResponseBase:
    """`?metric=` colours, `?numbers=yes` writes what is measured into the squares, `?pool=`
    narrows, `?view=table` gives the same as a table, `?after=` a node."""
    viewer, now = viewer_of(request), timezone.now()
    pools = {pool.name: pool for pool in visible_pools(viewer).order_by("name")}
    problems: list[str] = []
    chosen = pool_asked(request, pools, problems, "these are all nodes")
    metric = request.GET.get("metric", "allocation")
    if metric not in WAYS:
        problems.append(f"metric: is one of {', '.join(WAYS)}; this is the allocation.")
        metric = "allocation"
    nodes = gpu_map(viewer, now=now, pool=chosen)
    after = request.GET.get("after", "")
    first = 1 + next((n for n, node in enumerate(nodes) if node.node.name == after), -1)
    if after and not first:
        problems.append(f"after: there is no node {after[:63]!r} here; these are the first ones.")
    shown = nodes[first : first + NODES_A_TABLE]
    is_table = choice(request, "view", ("table",)) == "table"
    has_numbers = choice(request, "numbers", ("yes",)) == "yes"
    look = Look(metric, metric in METRICS and has_numbers, _teams(nodes))
    fills = _fills(nodes)
    alarms = _alarms(nodes)
    context = {
        "ways": WAYS.items(),
        "metric": metric,
        "way": WAYS[metric],
        "unit": METRICS[metric].unit if metric in METRICS else "",
        "has_numbers": look.has_numbers,
        "legend": _legend(look),
        "pools": list(pools.values()),
        "chosen": chosen,
        "is_table": is_table,
        "racks": [] if is_table else list(racks(nodes, look)),
        "lines": [_line(node, metric) for node in shown] if is_table else [],
        "is_later": first > 0,
        "following": shown[-1].node.name if first + NODES_A_TABLE < len(nodes) else "",
        "fills": fills,
        "alarms": alarms[:MOST_ALARMS],
        "alarm_count": len(alarms),
        "totals": _totals(nodes, fills),
        "may_operate": can(viewer, "operate_cluster", None),
        "problems": problems,
        "unknown": unknown_parameters(request.GET, PARAMETERS),
        "now": now,
    }
    part = "#live" if request.GET.get("part") == "live" else ""
    return render(request, f"cluster/map.html{part}", context)


def _teams(nodes: list[MapNode]) -> dict[str, int]:
    """The number of each team's colour; the most GPUs first, those after the seventh share one."""
    counts: dict[str, int] = {}
    for node in nodes:
        for gpu in node.gpus:
            if gpu.holding is not None:
                counts[gpu.holding.team] = counts.get(gpu.holding.team, 0) + 1
    ordered = sorted(counts, key=lambda team: (-counts[team], team))
    return {team: min(place, SERIES) for place, team in enumerate(ordered)}


def _legend(look: Look) -> list[tuple[str, str]]:
    if look.metric in METRICS:
        metric = METRICS[look.metric]
        return metric.legend if metric.of_idle else [*metric.legend, ("free", "free, no job")]
    if look.metric == "health":
        return [("well", "healthy"), ("frail", "suspect")]
    if look.metric == "team":
        named = [(f"c{n}", team) for team, n in look.teams.items() if n < SERIES]
        rest = [("c7", "other teams")] if len(look.teams) > SERIES else []
        return [*named, *rest, ("u2", "not yours to see"), ("free", "free")]
    return [("u5", "your teams"), ("u2", "another team"), ("free", "free")]


def _line(node: MapNode, metric: str) -> Line:
    values: list[float] = []
    if metric in METRICS:
        read = METRICS[metric].value
        values = [value for gpu in node.gpus if (value := read(gpu)) is not None]
    bad = sorted({str(gpu.health) for gpu in node.gpus if gpu.is_out})
    spread = (min(values), sum(values) / len(values), max(values)) if values else None
    teams = sorted({gpu.holding.team for gpu in node.gpus if gpu.holding is not None})
    others = ["others"] if any(gpu.held and gpu.holding is None for gpu in node.gpus) else []
    return Line(node, spread, ", ".join(bad), ", ".join([*teams, *others]))


def _fills(nodes: list[MapNode]) -> list[Fill]:
    """Of each pool that has nodes, by name."""
    found: dict[str, Fill] = {}
    for node in nodes:
        name = node.node.pool.name
        fill = found.setdefault(name, Fill(name))
        fill.nodes += 1
        fill.total += len(node.gpus)
        for gpu in node.gpus:
            if gpu.held:
                fill.held += 1
            elif node.is_out or gpu.is_out:
                fill.out += 1
            elif node.is_drained:
                fill.drained += 1
            elif gpu.is_booked:
                fill.booked += 1
            else:
                fill.free += 1
    return [found[name] for name in sorted(found)]


def _totals(nodes: list[MapNode], fills: list[Fill]) -> dict[str, float]:
    """What all of them have, and what is measured of it."""
    kinds = ("nodes", "total", "held", "out", "drained", "booked", "free")
    totals: dict[str, float] = {kind: sum(getattr(one, kind) for one in fills) for kind in kinds}
    seen = [gpu for node in nodes for gpu in node.gpus if gpu.reading is not None]
    totals["watts"] = sum(gpu.reading.power_watts for gpu in seen if gpu.reading)
    told = [gpu.reading.use for gpu in seen if gpu.reading and gpu.held]
    uses = [use for use in told if use is not None]
    totals["use"] = sum(uses) / len(uses) if uses else -1
    totals["kilowatts"] = totals["watts"] / 1000
    return totals


def _alarms(nodes: list[MapNode]) -> list[Alarm]:
    """What is out of order, the worst first: nodes, and GPUs of nodes that are well themselves."""
    found = []
    for node in nodes:
        state, name = node.node.state, node.node.name
        if state != NodeState.READY:
            found.append(Alarm(state, name, "", node.node.state_reason))
        of_kind: dict[tuple[str, str], list[str]] = {}
        for gpu in node.gpus:
            if gpu.health != DeviceHealth.HEALTHY:
                of_kind.setdefault((gpu.health, gpu.reason), []).append(gpu.index)
        for (health, reason), indexes in of_kind.items():
            found.append(Alarm(health, name, ", ".join(indexes), reason))
    worst = {str(state): rank for rank, state in enumerate(_ALARMING)}
    return sorted(found, key=lambda one: (worst.get(one.state, len(worst)), one.node, one.gpus))
