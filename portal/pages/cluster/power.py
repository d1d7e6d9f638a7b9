"""A silent node without power: said by one operator, confirmed by another."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponseBase

from portal.pages.access import page, said_and_back, viewer_of
from scheduler.selectors.cluster import get_visible_node
from scheduler.services.nodes.power import say_node_is_off
from scheduler.states import NodeState


@page("POST")
def node_off(request: HttpRequest, name: str) -> HttpResponseBase:
    """Say that it has no power, or confirm what another has said."""
    viewer = viewer_of(request)
    node = get_visible_node(viewer, name)

    def act() -> str:
        found = say_node_is_off(actor=viewer, node=node, reason=request.POST.get("reason", ""))
        if found.state == NodeState.LOST:
            return f"Node {name} is given up: its jobs wait to run elsewhere."
        return f"It is noted that {name} has no power. Another operator has to confirm it."

    return said_and_back(request, act, "nodes:detail", name)
