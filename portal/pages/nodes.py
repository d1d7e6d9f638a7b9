"""Nodes: how full the cluster is, one machine in full, and the operators' buttons."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase, JsonResponse
from django.shortcuts import redirect, render
from django.utils import timezone

from accounts.permissions import can
from portal.forms.cluster.nodes import DrainForm, PlaceForm
from portal.forms.filters import unknown_parameters
from portal.forms.grammar.sorts import Sort, read_place, read_sort, write_place
from portal.pages.access import page, pool_asked, said_and_back, viewer_of
from portal.pages.event_lines import event_line, still_out
from portal.pages.job_tabs import read_since
from portal.pages.listing.heads import heads_of
from portal.pages.listing.tails import tail_of
from portal.pages.teams import made_with
from portal.reports.charts import device_charts, device_points, latest, slowed_of
from portal.reports.squares import map_rows
from scheduler.conf import load_conf
from scheduler.models import Node, NodeEvent
from scheduler.selectors.cluster import (
    get_visible_device,
    get_visible_node,
    node_events,
    node_view,
    nodes_overview,
    pool_summaries,
)
from scheduler.selectors.freeing.emptying import emptying, without_gpus
from scheduler.selectors.inbox import calls_along, keep_calls
from scheduler.selectors.ordered.columns import NODE_COLUMNS
from scheduler.selectors.ordered.ordering import Place, place_of
from scheduler.selectors.telemetry import node_series
from scheduler.services.nodes import drain_node, require_operator, resume_node, retire_node
from scheduler.services.nodes.devices.by_hand import act_on_device
from scheduler.services.nodes.quarantine import may_be_quarantined
from scheduler.services.sites.places import note_node
from scheduler.states import NodeState

EVENTS_SHOWN = 50
CHART_SPAN = timedelta(hours=1)
PAGE_SIZE = 100
PARAMETERS = ("pool", "after", "sort", "part")
USUAL_ORDER = "name"
# What may be asked of a node in each state, and of a GPU; the services decide again.
RESUMABLE = (NodeState.DRAINING, NodeState.DRAINED, NodeState.QUARANTINED)
DEVICE_ACTIONS = {
    "quarantine": "out of service; a job that runs there goes on.",
    "check": "the node tries it out, and it returns if it passes.",
    "return": "back in service.",
    "cut": "offered as you said.",
}
# Kinds of events that tell of Xid and ECC errors, heat, failed checks and what became of them.
HARDWARE = (
    "device_quarantined", "device_check", "device_check_failed", "device_returned",
    "node_quarantined", "node_returned", "quarantine",
)  # fmt: skip
DRAINABLE = (NodeState.READY, NodeState.SILENT, NodeState.QUARANTINED, NodeState.LOST)


@page("GET")
def node_list(request: HttpRequest) -> HttpResponseBase:
    """Pools as bars, GPUs as squares, nodes as rows; `?pool=` narrows to one pool, `?after=` is the
    name behind which a page begins, or a mark where `?sort=` puts them in another order."""
    viewer = viewer_of(request)
    summaries = pool_summaries(viewer)
    problems: list[str] = []
    by_name = {summary.pool.name: summary for summary in summaries}
    chosen = pool_asked(request, by_name, problems, "these are all nodes")
    after = request.GET.get("after", "").replace("\x00", "")
    pool = chosen.pool if chosen else None
    sort = read_sort(request.GET.get("sort", ""), NODE_COLUMNS, USUAL_ORDER, problems)
    place = _place_of(after, sort, problems)
    views = nodes_overview(
        viewer,
        pool=pool,
        column=sort.column,
        falls=sort.falls,
        after=place,
        limit=PAGE_SIZE + 1,
    )
    last = views[PAGE_SIZE - 1].node if len(views) > PAGE_SIZE else None
    is_by_name = str(sort) == USUAL_ORDER
    shown = [chosen] if chosen else summaries
    context = {
        "summaries": summaries,
        "chosen": chosen,
        "shown": shown,
        "rows": map_rows(
            views[:PAGE_SIZE], without_gpus([view.node for view in views[:PAGE_SIZE]])
        ),
        "heads": heads_of(sort, NODE_COLUMNS),
        "after": after if place else "",
        "following": "" if last is None else _mark_of(last, sort),
        "follows": last.name if last and is_by_name else "",
        "totals": _totals(shown),
        "has_simulated": any(one.has_simulated for one in shown),
        "may_operate": can(viewer, "operate", None),
        "problems": problems,
        "unknown": unknown_parameters(request.GET, PARAMETERS),
        "now": timezone.now(),
    }
    part = "#live" if request.GET.get("part") == "live" else ""
    return render(request, f"nodes/list.html{part}", context)


def _place_of(after: str, sort: Sort, problems: list[str]) -> Place | None:
    if not after or str(sort) == USUAL_ORDER:
        return (after, after) if after else None
    try:
        return read_place(after, sort)
    except ValueError as error:
        problems.append(f"after: is {error}; these are the first nodes.")
        return None


def _mark_of(node: Node, sort: Sort) -> str:
    """In the usual order a name that people can read and type."""
    return node.name if str(sort) == USUAL_ORDER else write_place(sort, place_of(node, sort.column))


def _totals(summaries: Sequence[object]) -> dict[str, int]:
    names = ("total", "allocated", "free", "down", "queued", "nodes")
    return {name: sum(getattr(one, name) for one in summaries) for name in names}


@page("GET")
def node_detail(request: HttpRequest, name: str) -> HttpResponseBase:
    """One machine: devices and who holds them, host facts, history, charts of the last hour."""
    viewer, now = viewer_of(request), timezone.now()
    part = request.GET.get("part", "")
    is_part = part in ("head", "live")
    node = get_visible_node(viewer, name, **({} if is_part else calls_along(viewer)))
    keep_calls(viewer, node)
    view = node_view(viewer, node)
    # The charts are outside the parts that are fetched again.
    series = [] if is_part else node_series(viewer, node, since=now - CHART_SPAN, now=now)
    asked = request.GET.get("events", "")
    is_hardware = asked == "hardware"
    problems = [] if asked in ("", "hardware") else ["events: choose hardware, or leave it out."]
    kinds = HARDWARE if is_hardware else ()

    def read(before: int | None, most: int) -> Iterable[NodeEvent]:
        return node_events(viewer, node, kinds=kinds, limit=most, before=before)

    context = {
        "node": node,
        "view": view,
        "row": map_rows([view])[0],
        "charts": device_charts(series)[:2],
        "slowed": slowed_of(series),
        "since": latest(series),
        "events": tail_of(request, read, size=EVENTS_SHOWN).made(
            lambda event: event_line(event, event.detail)
        ),
        "is_hardware": is_hardware,
        "empties": emptying(viewer, [node], now=now)[node.pk],
        "lease_s": load_conf().node_lease_s,
        "token_days": load_conf().node_token_days,
        "problems": problems,
        "may_operate": can(viewer, "operate", None),
        "may_resume": rests(node),
        "may_drain": node.state in DRAINABLE and node.drain_requested_at is None,
        "may_quarantine": may_be_quarantined(node),
        "may_stop_jobs": node.state == NodeState.DRAINING and bool(view.held),
        "may_retire": not view.held,
        "place_form": PlaceForm.of_node(node),
        "drain_form": DrainForm(),
        "now": now,
    }
    return render(request, f"nodes/detail.html#{part}" if is_part else "nodes/detail.html", context)


def rests(node: Node) -> bool:
    """Whether it takes no work because somebody said so, and may be resumed."""
    return node.state in RESUMABLE or node.drain_requested_at is not None


@page("GET")
def node_series_points(request: HttpRequest, name: str) -> HttpResponseBase:
    """New readings since `?since=` as JSON."""
    viewer = viewer_of(request)
    node = get_visible_node(viewer, name)
    text = request.GET.get("since", "")
    since = read_since(text)
    if text and since is None:
        return JsonResponse({"detail": "since: write it like 2026-11-20T12:00:00Z."}, status=400)
    series = node_series(viewer, node, since=since or timezone.now() - CHART_SPAN)
    newest = latest(series) or since
    return JsonResponse(
        {
            "points": device_points(series),
            "latest": newest.isoformat() if newest else "",
            "done": False,
        }
    )


@page("POST")
def node_drain(request: HttpRequest, name: str) -> HttpResponseBase:
    """Accept no work; what runs finishes, or stops now. The reason is shown to everybody."""
    viewer = viewer_of(request)
    node = get_visible_node(viewer, name)
    form = DrainForm(request.POST)
    if can(viewer, "operate", None) and not form.is_valid():
        context = {"form": form, "node": node}
        return render(request, "nodes/drain.html", context, status=422)

    def act() -> str:
        stop_jobs = form.cleaned_data.get("stop_jobs", False)
        reason = form.cleaned_data.get("reason", "")
        drain_node(actor=viewer, node=node, reason=reason, stop_jobs=stop_jobs)
        if stop_jobs:
            return f"Node {name} drains: its jobs save, stop and queue again in their place."
        return f"Node {name} drains: running work goes on, new work goes elsewhere."

    form.is_valid()
    return said_and_back(request, act, "nodes:detail", name)


@page("POST")
def node_place(request: HttpRequest, name: str) -> HttpResponseBase:
    """Say where the node stands and what it has; what is refused comes back as it was typed."""
    viewer = viewer_of(request)
    node, form = get_visible_node(viewer, name), PlaceForm(request.POST)
    require_operator(viewer)

    def act() -> Node:
        return note_node(actor=viewer, node=node, **form.cleaned_data)

    if not form.is_valid() or not made_with(form, act):
        return render(request, "nodes/place.html", {"form": form, "node": node}, status=422)
    messages.success(request, f"Node {name}: place and labels are noted.")
    return redirect("nodes:detail", name)


@page("POST")
def node_resume(request: HttpRequest, name: str) -> HttpResponseBase:
    """Let the node take work again."""
    viewer = viewer_of(request)
    node = get_visible_node(viewer, name)

    def act() -> str:
        resumed = resume_node(actor=viewer, node=node)
        return still_out(resumed) or f"Node {name} takes work again."

    return said_and_back(request, act, "nodes:detail", name)


@page("POST")
def node_device(request: HttpRequest, name: str, index: int) -> HttpResponseBase:
    """Take a GPU out of service, have it checked, return it or cut it: `action` says which."""
    viewer = viewer_of(request)
    device = get_visible_device(viewer, name, index)

    def act() -> str:
        action, reason = request.POST.get("action", ""), request.POST.get("reason", "")
        act_on_device(
            actor=viewer,
            device=device,
            action=action,
            reason=reason,
            slots=_whole(request.POST.get("slots", "1")),
            isolation=request.POST.get("isolation", "timeslice"),
        )
        return f"GPU {index} of {name}: {DEVICE_ACTIONS[action]}"

    return said_and_back(request, act, "nodes:detail", name)


def _whole(text: str) -> int:
    """A number as typed; what is none is 0, which nothing takes."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 4 else 0


@page("POST")
def node_retire(request: HttpRequest, name: str) -> HttpResponseBase:
    """Take an empty node out for good."""
    viewer = viewer_of(request)
    node = get_visible_node(viewer, name)

    def act() -> str:
        retire_node(actor=viewer, node=node)
        return f"Node {name} is retired; its history stays."

    answer = said_and_back(request, act, "nodes:detail", name)
    node.refresh_from_db()
    return redirect("nodes:list") if node.state == NodeState.RETIRED else answer
