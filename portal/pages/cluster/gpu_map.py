"""The GPU map: racks of nodes, one square a GPU, coloured by what is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import escape
from itertools import groupby

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone
from django.utils.safestring import SafeString

from accounts.permissions import can
from portal.forms.filters import unknown_parameters
from portal.pages.access import page, viewer_of
from portal.reports.links import links_to
from scheduler.selectors.cluster import visible_pools
from scheduler.selectors.machines.gpu_map import MapGpu, MapNode, Reading, gpu_map

PITCH, SIDE, LABEL = 15, 13, 62
NODES_A_RACK = 8
# Of a longer name the end, where nodes differ.
SHOWN = 9
PARAMETERS = ("pool", "metric", "view", "part")
SERIES = 7
# What is out of service looks so, whatever is asked for.
OUT = "dnb"


@dataclass(frozen=True, slots=True)
class Metric:
    """What colours a square: a number and the five values at which its shade changes."""

    title: str
    unit: str
    steps: tuple[int, int, int, int, int]
    of: Callable[[MapGpu, Reading], float]

    def value(self, gpu: MapGpu) -> float | None:
        """Of a GPU that was read in the last 20 seconds, else None."""
        return self.of(gpu, gpu.reading) if gpu.reading is not None else None

    @property
    def legend(self) -> list[tuple[str, str]]:
        """Class and words of each of the six shades."""
        edges = (0, *self.steps)
        ranges = [f"{low}–{high}" for low, high in zip(edges, self.steps, strict=False)]
        return [(f"u{n}", words) for n, words in enumerate([*ranges, f"over {self.steps[-1]}"])]


METRICS = {
    "use": Metric("Use", "%", (10, 25, 50, 75, 90), lambda _, seen: seen.use),
    "memory": Metric(
        "Memory",
        "%",
        (10, 25, 50, 75, 90),
        lambda gpu, seen: 100 * seen.memory_mib / max(gpu.memory_mib, 1),
    ),
    "power": Metric("Power", "W", (100, 200, 300, 450, 600), lambda _, seen: seen.power_watts),
    "temperature": Metric(
        "Temperature", "°C", (40, 50, 60, 70, 80), lambda _, seen: seen.temperature_c
    ),
}
WAYS = {
    "allocation": "Allocation",
    "team": "Team",
    **{key: metric.title for key, metric in METRICS.items()},
    "health": "Health",
}


@dataclass(frozen=True, slots=True)
class Rack:
    """A drawn rack: its name, what else is known of the place, its nodes and its picture."""

    name: str
    place: str
    nodes: int
    picture: SafeString


@dataclass(frozen=True, slots=True)
class Line:
    """A node in the table beside the map; `values`: lowest, mean and highest of the metric."""

    node: MapNode
    values: tuple[float, float, float] | None
    worst: str


@page("GET")
def cluster_map(request: HttpRequest) -> HttpResponseBase:
    """`?metric=` colours, `?pool=` narrows, `?view=table` gives the same as numbers."""
    viewer, now = viewer_of(request), timezone.now()
    pools = list(visible_pools(viewer).order_by("name"))
    problems = []
    asked = request.GET.get("pool", "")
    chosen = next((pool for pool in pools if pool.name == asked), None)
    if asked and chosen is None:
        problems.append(f"pool: there is no pool {asked[:63]!r}; these are all nodes.")
    metric = request.GET.get("metric", "allocation")
    if metric not in WAYS:
        problems.append(f"metric: is one of {', '.join(WAYS)}; this is the allocation.")
        metric = "allocation"
    nodes = gpu_map(viewer, now=now, pool=chosen)
    teams = _teams(nodes)
    is_table = request.GET.get("view") == "table"
    context = {
        "ways": WAYS.items(),
        "metric": metric,
        "way": WAYS[metric],
        "unit": METRICS[metric].unit if metric in METRICS else "",
        "legend": _legend(metric, teams),
        "pools": pools,
        "chosen": chosen,
        "is_table": is_table,
        "racks": [] if is_table else list(_racks(nodes, metric, teams)),
        "lines": [_line(node, metric) for node in nodes] if is_table else [],
        "totals": _totals(nodes),
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


def _legend(metric: str, teams: dict[str, int]) -> list[tuple[str, str]]:
    if metric in METRICS:
        return METRICS[metric].legend
    if metric == "health":
        return [("free", "healthy"), ("u3", "suspect"), (OUT, "out of service")]
    if metric == "team":
        named = [(f"c{n}", team) for team, n in teams.items() if n < SERIES]
        rest = [("c7", "other teams")] if len(teams) > SERIES else []
        return [*named, *rest, ("u2", "not yours to see")]
    return [("u5", "your teams"), ("u2", "another team")]


def _racks(nodes: list[MapNode], metric: str, teams: dict[str, int]) -> Iterator[Rack]:
    """Racks as operators named them; nodes without one by pool, eight together."""
    link = links_to("nodes:detail")
    for (block, rack, pool), group in groupby(sorted(nodes, key=_place), key=_place):
        members = list(group)
        if rack:
            yield Rack(rack, block, len(members), _draw(members, metric, teams, link))
            continue
        for first in range(0, len(members), NODES_A_RACK):
            some = members[first : first + NODES_A_RACK]
            yield Rack(pool, "", len(some), _draw(some, metric, teams, link))


def _place(node: MapNode) -> tuple[str, str, str]:
    where = node.node
    return where.block, where.rack, "" if where.rack else where.pool.name


def _draw(
    nodes: list[MapNode], metric: str, teams: dict[str, int], link: Callable[[str], str]
) -> SafeString:
    width = LABEL + PITCH * max((len(node.gpus) for node in nodes), default=0)
    rows = [_draw_node(node, row, metric, teams, link) for row, node in enumerate(nodes)]
    return SafeString(
        f'<svg class="rack" viewBox="0 0 {width} {PITCH * len(nodes)}" role="group" '
        f'aria-label="{escape(nodes[0].node.name)} to {escape(nodes[-1].node.name)}">'
        f"{''.join(rows)}</svg>"
    )


def _draw_node(
    node: MapNode, row: int, metric: str, teams: dict[str, int], link: Callable[[str], str]
) -> str:
    name, y = node.node.name, row * PITCH
    squares = [_square(node, gpu, place, y, metric, teams) for place, gpu in enumerate(node.gpus)]
    url = escape(link(name))
    said = escape(f"{name}: {node.node.state}, {node.held} of {len(node.gpus)} GPUs held")
    # The squares lead there, too, but are read out by nobody: the table has their numbers.
    return (
        f'<a href="{url}" aria-label="{said}"><text x="0" y="{y + 10}">{escape(name[-SHOWN:])}'
        f'</text></a><a href="{url}" tabindex="-1" aria-hidden="true">{"".join(squares)}</a>'
    )


def _square(
    node: MapNode, gpu: MapGpu, place: int, y: int, metric: str, teams: dict[str, int]
) -> str:
    x = LABEL + place * PITCH
    css = _shade(node, gpu, metric, teams)
    mark = ""
    if css == OUT:
        mark = f'<path class="dn" d="M{x + 3} {y + 3}l7 7m0-7l-7 7"/>'
    elif node.is_booked and not gpu.held:
        mark = f'<circle class="bk" cx="{x + 6}" cy="{y + 6}" r="2"/>'
    return (
        f'<rect class="sq {css}" x="{x}" y="{y}" width="{SIDE}" height="{SIDE}" rx="2"><title>'
        f"{escape(_words(node, gpu))}</title></rect>{mark}"
    )


def _shade(node: MapNode, gpu: MapGpu, metric: str, teams: dict[str, int]) -> str:
    if node.is_out or gpu.is_out:
        return OUT
    if metric == "health":
        return "u3" if str(gpu.health) == "suspect" else "free"
    if metric in METRICS:
        value = METRICS[metric].value(gpu)
        if value is not None and (gpu.held or metric in {"power", "temperature"}):
            return f"u{sum(value >= step for step in METRICS[metric].steps)}"
    elif gpu.holding is not None:
        return f"c{teams[gpu.holding.team]}" if metric == "team" else "u5"
    elif gpu.held:
        return "u2"
    return "dr" if node.is_drained else "free"


def _words(node: MapNode, gpu: MapGpu) -> str:
    """What a square says to those who ask."""
    parts = [f"{node.node.name} GPU {gpu.index}"]
    if node.is_out or node.is_drained:
        parts.append(str(node.node.state))
    if gpu.is_out or str(gpu.health) == "suspect":
        parts.append(str(gpu.health))
    if gpu.holding is not None:
        whose = gpu.holding
        parts.append(f"#{whose.job} {whose.name} · {whose.team}/{whose.project}")
    elif gpu.held:
        parts.append("held by another team")
    elif not (node.is_out or node.is_drained or gpu.is_out):
        parts.append("booked" if node.is_booked else "free")
    if gpu.reading is not None:
        seen = gpu.reading
        parts.append(f"{seen.use:.0f} %, {seen.power_watts:.0f} W, {seen.temperature_c:.0f} °C")
    return " · ".join(parts)


def _line(node: MapNode, metric: str) -> Line:
    values: list[float] = []
    if metric in METRICS:
        read = METRICS[metric].value
        values = [value for gpu in node.gpus if (value := read(gpu)) is not None]
    bad = sorted({str(gpu.health) for gpu in node.gpus if gpu.is_out})
    spread = (min(values), sum(values) / len(values), max(values)) if values else None
    return Line(node, spread, ", ".join(bad))


def _totals(nodes: list[MapNode]) -> dict[str, float]:
    """Each GPU is in exactly one of held, out, drained, booked and free."""
    totals = dict.fromkeys(("total", "held", "out", "drained", "booked", "free", "watts"), 0.0)
    uses = []
    for node in nodes:
        for gpu in node.gpus:
            totals["total"] += 1
            kind = "out" if node.is_out or gpu.is_out else "drained" if node.is_drained else ""
            kind = "held" if gpu.held else kind or ("booked" if node.is_booked else "free")
            totals[kind] += 1
            if gpu.reading is not None:
                totals["watts"] += gpu.reading.power_watts
                uses += [gpu.reading.use] if gpu.held else []
    totals["nodes"] = len(nodes)
    totals["use"] = sum(uses) / len(uses) if uses else -1
    totals["kilowatts"] = totals["watts"] / 1000
    return totals
