"""How the GPU map is drawn: a picture a rack, a link a node, all its squares of one shade a path.

There are thousands of squares, and each thing that a page is made of costs the browser: what a GPU
says stands in the words of its node, a line for each.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from itertools import groupby

from django.utils.safestring import SafeString

from portal.reports.links import links_to
from scheduler.selectors.machines.gpu_map import MapGpu, MapNode, Reading
from scheduler.states import DeviceHealth

SIDE, LABEL, ROW = 13, 62, 15
# How far squares are apart, and where they hold a number; that is so many letters of 7.
PITCH, WIDE, LETTERS = 15, 28, 4
NODES_A_RACK = 8
# Of a longer name the end, where nodes differ.
SHOWN = 9
SERIES = 7
# What is out of service looks so, whatever is asked for.
OUT = "dnb"
# What is measured, but not there or not now: idle and not known look otherwise.
UNREAD = "unread"
# The shades that have light words in a light theme and dark ones in a dark theme.
STRONG = ("u4", "u5")


@dataclass(frozen=True, slots=True)
class Metric:
    """What colours a square: a number and the five values at which its shade changes."""

    title: str
    unit: str
    steps: tuple[int, int, int, int, int]
    of: Callable[[MapGpu, Reading], float | None]
    of_idle: bool = False

    def value(self, gpu: MapGpu) -> float | None:
        """Of a GPU that was read in the last 20 seconds and tells it, else None."""
        return self.of(gpu, gpu.reading) if gpu.reading is not None else None

    def shown(self, gpu: MapGpu) -> float | None:
        """What its square tells: of an idle GPU only what is worth knowing of it."""
        return self.value(gpu) if gpu.held or self.of_idle else None

    @property
    def legend(self) -> list[tuple[str, str]]:
        """Class and words of each of the six shades, and of what nothing was read of."""
        edges = (0, *self.steps)
        ranges = [f"{low}–{high}" for low, high in zip(edges, self.steps, strict=False)]
        words = [*ranges, f"over {self.steps[-1]}"]
        shades = [(f"u{n}", f"{one} {self.unit}") for n, one in enumerate(words)]
        return [*shades, (UNREAD, "not measured")]


METRICS = {
    "use": Metric("Use", "%", (10, 25, 50, 75, 90), lambda _, seen: seen.use),
    "memory": Metric(
        "Memory",
        "%",
        (10, 25, 50, 75, 90),
        lambda gpu, seen: 100 * seen.memory_mib / max(gpu.memory_mib, 1),
    ),
    "power": Metric(
        "Power", "W", (100, 200, 300, 450, 600), lambda _, seen: seen.power_watts, True
    ),
    "temperature": Metric(
        "Temperature", "°C", (40, 50, 60, 70, 80), lambda _, seen: seen.temperature_c, True
    ),
}


@dataclass(frozen=True, slots=True)
class Rack:
    """A drawn rack: its name, what else is known of the place, its nodes and its picture."""

    name: str
    place: str
    nodes: int
    picture: SafeString


@dataclass(frozen=True, slots=True)
class Look:
    """What colours the squares, whether they hold its number, and the colour of each team."""

    metric: str
    has_numbers: bool
    teams: dict[str, int]

    @property
    def pitch(self) -> int:
        return WIDE if self.has_numbers else PITCH


def racks(nodes: list[MapNode], look: Look) -> Iterator[Rack]:
    """Racks as operators named them; nodes without one by pool, eight together."""
    link = links_to("nodes:detail")
    for (block, rack, pool), group in groupby(sorted(nodes, key=_place), key=_place):
        members = list(group)
        if rack:
            yield Rack(rack, block, len(members), draw(members, look, link))
            continue
        for first in range(0, len(members), NODES_A_RACK):
            some = members[first : first + NODES_A_RACK]
            yield Rack(pool, "", len(some), draw(some, look, link))


def _place(node: MapNode) -> tuple[str, str, str]:
    where = node.node
    return where.block, where.rack, "" if where.rack else where.pool.name


def draw(nodes: list[MapNode], look: Look, link: Callable[[str], str]) -> SafeString:
    """One rack."""
    width = LABEL + look.pitch * max((len(node.gpus) for node in nodes), default=0)
    rows = [_draw_node(node, row, look, link) for row, node in enumerate(nodes)]
    height = ROW * len(nodes)
    css = "rack nums" if look.has_numbers else "rack"
    return SafeString(
        f'<svg class="{css}" width="{width}" viewBox="0 0 {width} {height}" role="group" '
        f'aria-label="{escape(nodes[0].node.name)} to {escape(nodes[-1].node.name)}">'
        f"{''.join(rows)}</svg>"
    )


def _draw_node(node: MapNode, row: int, look: Look, link: Callable[[str], str]) -> str:
    name = node.node.name
    shades = [shade(node, gpu, look) for gpu in node.gpus]
    squares: dict[str, list[int]] = {}
    for place, css in enumerate(shades):
        squares.setdefault(css, []).append(place)
    drawn = [
        f'<path class="sq {css}" d="{_squares(tuple(places), look.pitch)}"/>'
        for css, places in squares.items()
    ]
    if OUT in squares:
        drawn.append(f'<path class="dn" d="{_crosses(tuple(squares[OUT]), look.pitch)}"/>')
    if idle := _booked(node, look):
        drawn.append(f'<path class="bk" d="{_dots(idle, look.pitch)}"/>')
    if look.has_numbers:
        drawn += _numbers(node, look, shades)
    url = escape(link(name))
    said = escape(f"{name}: {node.node.state}, {node.held} of {len(node.gpus)} GPUs held")
    at = f'href="{url}" transform="translate(0 {row * ROW})"'
    # The squares lead there, too, but are read out by nobody: the table has their numbers.
    return (
        f'<a {at} aria-label="{said}"><text y="10">{escape(name[-SHOWN:])}</text></a>'
        f'<a {at} tabindex="-1" aria-hidden="true"><title>{said}{escape(_lines(node))}</title>'
        f"{''.join(drawn)}</a>"
    )


def _booked(node: MapNode, look: Look) -> tuple[int, ...]:
    """Where a dot says so: on what is idle and takes work, unless a number stands there."""
    return tuple(
        place
        for place, gpu in enumerate(node.gpus)
        if gpu.is_booked
        and not (gpu.held or gpu.is_out or node.is_out)
        and not (look.has_numbers and METRICS[look.metric].shown(gpu) is not None)
    )


# Whole rows look alike, so few of these are ever made.
@lru_cache(4096)
def _squares(places: tuple[int, ...], pitch: int) -> str:
    side = pitch - (PITCH - SIDE) - 4
    corner = "q0-2 2-2"
    return "".join(
        f"M{LABEL + place * pitch} 2{corner}h{side}q2 0 2 2v9q0 2-2 2h-{side}q-2 0-2-2z"
        for place in places
    )


@lru_cache(4096)
def _crosses(places: tuple[int, ...], pitch: int) -> str:
    middle = LABEL + (pitch - PITCH) / 2
    return "".join(f"M{middle + place * pitch + 3:g} 3l7 7m0-7l-7 7" for place in places)


@lru_cache(4096)
def _dots(places: tuple[int, ...], pitch: int) -> str:
    middle = LABEL + (pitch - PITCH) / 2
    return "".join(
        f"M{middle + place * pitch + 4.5:g} 6.5a2 2 0 0 1 4 0a2 2 0 0 1-4 0" for place in places
    )


def _numbers(node: MapNode, look: Look, shades: list[str]) -> list[str]:
    """The values of a row as two lines of letters of one width: those on weak and strong shades."""
    weak, strong = [], []
    read = METRICS[look.metric]
    for gpu, css in zip(node.gpus, shades, strict=True):
        value = None if css == OUT else read.shown(gpu)
        words = "" if value is None else f"{min(value, 999):.0f}"
        is_strong = css in STRONG
        # A letter's room is left of three digits already.
        weak.append(f"{'' if is_strong else words:^{LETTERS}}")
        strong.append(f"{words if is_strong else '':^{LETTERS}}")
    head = f'x="{LABEL - 1}" y="10" textLength="{look.pitch * len(node.gpus)}"'
    return [
        f'<text class="{css}" {head}>{"".join(words)}</text>'
        for css, words in (("nm", weak), ("nm hi", strong))
        if any(word.strip() for word in words)
    ]


def shade(node: MapNode, gpu: MapGpu, look: Look) -> str:
    """The class of a square."""
    if node.is_out or gpu.is_out:
        return OUT
    metric = look.metric
    if metric == "health":
        return "frail" if str(gpu.health) == "suspect" else "well"
    if metric in METRICS:
        value = METRICS[metric].shown(gpu)
        if value is not None:
            return f"u{bisect_right(METRICS[metric].steps, value)}"
        if gpu.held or (METRICS[metric].of_idle and not node.is_drained):
            return UNREAD
    elif gpu.holding is not None:
        return f"c{look.teams[gpu.holding.team]}" if metric == "team" else "u5"
    elif gpu.held:
        return "u2"
    return "dr" if node.is_drained else "free"


def _lines(node: MapNode) -> str:
    """What the GPUs of a node say to those who ask: a line each, those alike together."""
    state = str(node.node.state) if node.is_out or node.is_drained else ""
    first, said = 0, [_words(state, gpu) for gpu in node.gpus]
    lines = []
    for words, alike in groupby(said):
        last = first + len(list(alike)) - 1
        span = str(node.gpus[first].index)
        if last > first:
            span += f"–{node.gpus[last].index}"
        lines.append(f"\nGPU {span}: {words}")
        first = last + 1
    return "".join(lines)


def _words(state: str, gpu: MapGpu) -> str:
    """`state`: of its node, if that takes no work."""
    parts = [state] if state else []
    if gpu.health != DeviceHealth.HEALTHY:
        parts.append(str(gpu.health))
    if gpu.holding is not None:
        whose = gpu.holding
        parts.append(f"#{whose.job} {whose.name} · {whose.team}/{whose.project}")
    elif gpu.held:
        parts.append("held by another team")
    elif not (state or gpu.is_out):
        parts.append("booked" if gpu.is_booked else "free")
    if gpu.reading is not None:
        seen = gpu.reading
        use = "use unknown" if seen.use is None else f"{seen.use:.0f} %"
        parts.append(f"{use}, {seen.power_watts:.0f} W, {seen.temperature_c:.0f} °C")
    return " · ".join(parts)
