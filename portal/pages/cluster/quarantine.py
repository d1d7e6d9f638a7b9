"""A node out of service by an operator's hand; its page's button Resume returns it.

That may be later: `still_out` says so.
"""

from __future__ import annotations

from django.http import HttpRequest, HttpResponseBase

from portal.pages.access import page, said_and_back, viewer_of
from scheduler.models import Node
from scheduler.selectors.cluster import get_visible_node
from scheduler.services.nodes.quarantine import quarantine_by_hand
from scheduler.states import NodeState


def still_out(node: Node) -> str:
    """What a node that was just resumed waits for; empty: it takes work again."""
    if node.state == NodeState.READY:
        return ""
    if node.state == NodeState.QUARANTINED:
        return f"Node {node.name} returns by itself once this is over: {node.state_reason}."
    well = " and well" if node.trouble or node.own_trouble else ""
    return f"Node {node.name} takes work again once it is heard{well}."


@page("POST")
def node_quarantine(request: HttpRequest, name: str) -> HttpResponseBase:
    """Start nothing new there; the reason is shown to everybody."""
    viewer = viewer_of(request)
    node = get_visible_node(viewer, name)

    def act() -> str:
        quarantine_by_hand(actor=viewer, node=node, reason=request.POST.get("reason", ""))
        return f"Node {name} is out of service: nothing new starts there, what runs goes on."

    return said_and_back(request, act, "nodes:detail", name)
