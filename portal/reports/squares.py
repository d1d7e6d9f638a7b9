"""The GPUs of a node as squares in a line; the words are in each title.

A page has hundreds of them, so they are joined as text: what somebody named is escaped where it is
put in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from html import escape

from django.utils.safestring import SafeString

from portal.reports.links import links_to
from scheduler.models import Job
from scheduler.selectors.cluster import DeviceView, NodeView
from scheduler.states import DeviceHealth, NodeState

SQUARE, GAP = 14, 4
_AWAY = (NodeState.SILENT, NodeState.LOST, NodeState.QUARANTINED)
_SOUND = (DeviceHealth.HEALTHY, DeviceHealth.SUSPECT)


@dataclass(frozen=True, slots=True)
class MapRow:
    """One node of the map, its address, its drawing, the jobs on it that the viewer may see with
    their addresses, and how many jobs are there on no square of it."""

    view: NodeView
    href: str
    picture: SafeString
    jobs: tuple[tuple[str, Job], ...]
    without_gpus: int = 0


def map_rows(
    views: Iterable[NodeView], without_gpus: Mapping[int, int] | None = None
) -> list[MapRow]:
    """Each node with its GPUs in the order of their indexes; jobs the viewer may see are links.

    `without_gpus`: jobs there that hold no GPU, by node; a node that is not in it has none.
    """
    link, to_node, beside = links_to("jobs:detail"), links_to("nodes:detail"), without_gpus or {}
    return [
        MapRow(
            view,
            to_node(view.node.name),
            _draw(view, link),
            tuple((link(job.pk), job) for job in view.jobs),
            beside.get(view.node.pk, 0),
        )
        for view in views
    ]


def _draw(view: NodeView, link: Callable[[object], str]) -> SafeString:
    squares = [_square(view, one, number, link) for number, one in enumerate(view.devices)]
    width = max(1, len(squares)) * (SQUARE + GAP)
    return SafeString(
        f'<svg class="gpu-map" viewBox="0 0 {width} 16" width="{width}" height="16" role="group" '
        f'aria-label="{escape(view.node.name)}: {view.held} of {view.total} GPUs held">'
        f"{''.join(squares)}</svg>"
    )


def _square(node: NodeView, device: DeviceView, number: int, link: Callable[[object], str]) -> str:
    css, words = _look(node, device)
    x = number * (SQUARE + GAP) + 1
    words = escape(f"{node.node.name} GPU {device.device.label}: {words}")
    drawn = (
        f'<rect class="sq {css}" x="{x}" y="1" width="14" height="14" rx="2">'
        f"<title>{words}</title></rect>"
    )
    if device.job is not None:
        return f'<a href="{link(device.job.pk)}" aria-label="{words}">{drawn}</a>'
    if css == "dnb":
        drawn += f'<path class="dn" transform="translate({x} 1)" d="M4 4l6 6m0-6l-6 6"/>'
    return drawn


def _look(node: NodeView, device: DeviceView) -> tuple[str, str]:
    """Class and words of a square."""
    if device.job is not None:
        return "u5", f"held by job #{device.job.pk}"
    if device.is_foreign:
        return "u2", "held by another team"
    if node.node.state in _AWAY or device.device.health not in _SOUND:
        return "dnb", "not available"
    if node.node.state != NodeState.READY:
        return "dr", str(node.node.state)
    return "free", "free"
