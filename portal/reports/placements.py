"""Where an attempt is, drawn: the GPUs of each of its nodes as squares, linked ones together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from scheduler.models import Attempt, Placement
from scheduler.selectors.machines.beside import Beside, devices_beside
from scheduler.states import AttemptState, DeviceHealth

SQUARE, STEP, BETWEEN, HEIGHT = 14, 18, 8, 20
# Beyond, a row says in words alone which GPUs it has.
MOST_DRAWN = 64
_LINK = '<path class="lk" d="M{} 18.5H{}"><title>{}</title></path>'
_USABLE = (DeviceHealth.HEALTHY, DeviceHealth.SUSPECT)


@dataclass(frozen=True, slots=True)
class PlacementRow:
    """One rank: its placement, and its node drawn; empty where nothing is to be drawn."""

    placement: Placement
    picture: SafeString


def placement_rows(attempt: Attempt) -> list[PlacementRow]:
    """Every rank of an attempt with its placements prefetched; one query."""
    around = devices_beside(attempt, nodes=MOST_DRAWN)
    is_past = attempt.state == AttemptState.ENDED
    return [
        PlacementRow(placement, _picture(placement, around, is_past))
        for placement in attempt.placements.all()
    ]


def _picture(
    placement: Placement, around: Mapping[int, Sequence[Beside]], is_past: bool
) -> SafeString:
    devices = around.get(placement.node_id, ())
    if not any(one.is_mine for one in devices):
        return SafeString("")
    x, pieces = 1, []
    for group, members in groupby(devices, key=lambda one: one.device.link_group):
        begin = x
        for one in members:
            pieces.append(_square(one, x, is_past))
            x += STEP
        if group:
            link = (begin, x - STEP + SQUARE, f"linked: {group}")
            pieces.append(format_html(_LINK, *link))
            x += BETWEEN
    width = x - 1
    own = sum(one.is_mine for one in devices)
    words = f"{placement.node.name}: {own} of {len(devices)} GPUs are this job's"
    return format_html(
        '<svg class="gpu-map" viewBox="0 0 {} {}" width="{}" height="{}" role="img" '
        'aria-label="{}">{}</svg>',
        width, HEIGHT, width, HEIGHT, words, format_html_join("", "{}", ((p,) for p in pieces)),
    )  # fmt: skip


def _square(one: Beside, x: int, is_past: bool) -> SafeString:
    css, words = _look(one, is_past)
    return format_html(
        '<rect class="sq {}" x="{}" y="1" width="{}" height="{}" rx="2"><title>{}</title></rect>',
        css, x, SQUARE, SQUARE, f"GPU {one.device.label}: {words}",
    )  # fmt: skip


def _look(one: Beside, is_past: bool) -> tuple[str, str]:
    if one.is_mine:
        return "own", "this job's"
    if is_past:
        return "free", "not this job's"
    if one.is_held:
        return "u2", "held by others"
    if one.device.health not in _USABLE:
        return "dnb", "not available"
    return "free", "free"
