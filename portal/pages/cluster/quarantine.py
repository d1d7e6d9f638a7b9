"""A node out of service by an operator's hand; its page's button Resume returns it."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponseBase

from portal.pages.access import page, said_and_back, viewer_of
from scheduler.selectors.cluster import get_visible_node
from scheduler.services.nodes.quarantine import quarantine_by_hand


@page("POST")
def node_quarantine(request: HttpRequest, name: str) -> HttpResponseBase:
    """Start nothing new there; the reason is shown to everybody."""
    viewer = viewer_of(request)
    node = get_visible_node(viewer, name)

    def act() -> str:
        quarantine_by_hand(actor=viewer, node=node, reason=request.POST.get("reason", ""))
        return f"Node {name} is out of service: nothing new starts there, what runs goes on."

    return said_and_back(request, act, "nodes:detail", name)
