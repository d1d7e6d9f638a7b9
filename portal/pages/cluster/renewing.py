"""A node's token is replaced because an operator wants it so."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponseBase

from portal.pages.access import page, said_and_back, viewer_of
from scheduler.selectors.cluster import get_visible_node
from scheduler.services.nodes.credentials import OLD_TOKEN_S, renew_token


@page("POST")
def node_renew_token(request: HttpRequest, name: str) -> HttpResponseBase:
    """Offer a new token to the node's agent; the present one ends once the agent uses it."""
    viewer = viewer_of(request)
    node = get_visible_node(viewer, name)

    def act() -> str:
        renew_token(actor=viewer, node=node)
        return (
            f"Node {name} is offered a new token. The present one ends {OLD_TOKEN_S} s after the "
            "agent first uses it."
        )

    return said_and_back(request, act, "nodes:detail", name)
