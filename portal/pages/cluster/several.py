"""Several nodes at once: when each is empty, and draining or resuming all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase, QueryDict
from django.shortcuts import redirect, render
from django.utils import timezone

from accounts.errors import DomainError, Forbidden
from accounts.models import User
from accounts.permissions import can
from portal.forms.cluster.nodes import DrainForm
from portal.forms.filters import unknown_parameters
from portal.pages.access import page, viewer_of
from portal.pages.event_lines import still_out
from portal.pages.nodes import rests
from scheduler.models import Node
from scheduler.selectors.cluster import nodes_overview
from scheduler.selectors.freeing.emptying import Emptying, emptying
from scheduler.services.nodes import drain_node, resume_node

MOST = 200
PARAMETERS = ("node",)
_MOST_SAID = 5


@dataclass(frozen=True, slots=True)
class Row:
    """A chosen node and when it is empty."""

    node: Node
    held: int
    total: int
    empties: Emptying


@page("GET", "POST")
def node_several(request: HttpRequest) -> HttpResponseBase:
    """`?node=` many times over; a POST of `action` drain or resume acts on each by itself."""
    viewer, now = viewer_of(request), timezone.now()
    if not can(viewer, "operate", None):
        raise Forbidden("Only operators drain and resume nodes. Ask one of them.")
    sent = request.POST if request.method == "POST" else None
    asked, problems = _asked(request.GET if sent is None else sent)
    rows = _rows(viewer, asked, now)
    problems += _missing(asked, rows)
    form = DrainForm(sent if sent is not None and sent.get("action") == "drain" else None)
    if sent is not None and rows:
        if sent.get("action") == "resume":
            return _act(request, rows, "takes work again", lambda node: _resume(viewer, node))
        if sent.get("action") != "drain":
            problems.append("action: choose drain or resume.")
        elif form.is_valid():
            said = form.cleaned_data
            return _act(request, rows, "drains", lambda node: _drain(viewer, node, said))
    ends = [row.empties for row in rows if row.empties.holders]
    likely = [end.likely for end in ends]
    context = {
        "rows": rows,
        "held": sum(row.held for row in rows),
        "total": sum(row.total for row in rows),
        "jobs": len({one.attempt for end in ends for one in end.holders}),
        "latest": max((end.latest for end in ends if end.latest), default=None),
        "likely": None if None in likely else max((at for at in likely if at), default=None),
        "form": form,
        "may_resume": any(rests(row.node) for row in rows),
        "problems": problems,
        "unknown": unknown_parameters(request.GET, PARAMETERS),
        "now": now,
    }
    status = 422 if sent is not None else 200
    return render(request, "nodes/several.html", context, status=status)


def _asked(sent: QueryDict) -> tuple[list[str], list[str]]:
    names = list(dict.fromkeys(sent.getlist("node")))
    if len(names) <= MOST:
        return names, []
    return names[:MOST], [f"node: these are the first {MOST} of {len(names)}; take the rest after."]


def _rows(viewer: User, asked: list[str], now: datetime) -> list[Row]:
    views = nodes_overview(viewer, names=[name for name in asked if "\x00" not in name])
    ends = emptying(viewer, [view.node for view in views], now=now)
    return [Row(view.node, view.held, view.total, ends[view.node.pk]) for view in views]


def _missing(asked: list[str], rows: list[Row]) -> list[str]:
    gone = [name for name in asked if name not in {row.node.name for row in rows}]
    return [f"node: there is no node {', '.join(name[:63] for name in gone[:5])}."] if gone else []


def _drain(viewer: User, node: Node, said: dict[str, Any]) -> str:
    drain_node(actor=viewer, node=node, reason=said["reason"], stop_jobs=said["stop_jobs"])
    return ""


def _resume(viewer: User, node: Node) -> str:
    return still_out(resume_node(actor=viewer, node=node))


def _act(
    request: HttpRequest, rows: list[Row], words: str, act: Callable[[Node], str]
) -> HttpResponseBase:
    """Each node by itself: one that refuses does not keep the others from it. `act` returns what
    there is to say of a node for which `words` do not hold."""
    done, others = 0, []
    for row in rows:
        try:
            other = act(row.node)
        except Forbidden:
            raise
        except DomainError as error:
            other = f"{row.node.name}: {error.detail}"
        others += [other] if other else []
        done += not other
    if done:
        messages.success(request, f"{done} node{'s' if done > 1 else ''}: each {words}.")
    if others:
        more = [f"And {len(others) - _MOST_SAID} more."] if len(others) > _MOST_SAID else []
        messages.warning(request, " ".join(others[:_MOST_SAID] + more))
    return redirect("nodes:list")
