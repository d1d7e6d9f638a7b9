"""`/nodes/tokens/…`: single-use tokens that enrol a node."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.operations import ApiView, body_of, operation
from portal.api.parts import PART_QUERY, Part, part_of
from portal.api.shapes import viewer_of
from scheduler.models import NodeToken
from scheduler.selectors import cluster as select
from scheduler.services import nodes as services
from scheduler.services.errors import NotFound


class NodeTokenBody(serializers.Serializer[Any]):
    """For which pool, and for how long the token may be used."""

    pool = serializers.CharField(max_length=63)
    minutes = serializers.IntegerField(required=False, default=15)


class NodeTokenShape(serializers.Serializer[Any]):
    """A single-use enrolment token, shown once, and the line to type on the node."""

    id = serializers.IntegerField()
    token = serializers.CharField()
    pool = serializers.CharField()
    expires_at = serializers.DateTimeField()
    command = serializers.CharField()


class OpenTokenShape(serializers.Serializer[Any]):
    """An enrolment token that nobody has used yet, without its secret."""

    id = serializers.IntegerField()
    pool = serializers.CharField()
    created_by = serializers.CharField(allow_null=True)
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()


class OpenTokens(Part):
    """Open enrolment tokens, the next to end first."""

    items = OpenTokenShape(many=True)


def _show(token: NodeToken) -> dict[str, Any]:
    return {
        "id": token.pk,
        "pool": token.pool.name,
        "created_by": token.created_by.username if token.created_by else None,
        "created_at": token.created_at,
        "expires_at": token.expires_at,
    }


class NodeTokens(ApiView):
    """`/nodes/tokens/`."""

    @operation(
        "nodes_tokens_list",
        "Enrolment tokens that nobody has used, the next to end first (operators)",
        scope="nodes:read",
        query=PART_QUERY,
        reply=OpenTokens,
    )
    def get(self, request: Request) -> Response:
        viewer = viewer_of(request)
        services.require_operator(viewer)
        tokens = select.open_node_tokens(viewer, now=timezone.now())
        return Response(part_of(request, tokens, lambda found: [_show(one) for one in found]))

    @operation(
        "nodes_tokens_create",
        "Make a single-use enrolment token (operators)",
        scope="nodes:write",
        body=NodeTokenBody,
        reply=NodeTokenShape,
        status=201,
    )
    def post(self, request: Request) -> Response:
        sent, actor = body_of(request, NodeTokenBody), viewer_of(request)
        try:
            pool = select.get_visible_pool(actor, sent["pool"])
        except NotFound:
            raise serializers.ValidationError({"pool": ["there is no such pool"]}) from None
        token, secret = services.issue_node_token(actor=actor, pool=pool, minutes=sent["minutes"])
        shown = {"id": token.pk, "token": secret, "pool": pool.name}
        more = {"expires_at": token.expires_at, "command": services.enrol_line(secret)}
        return Response({**shown, **more}, status=201)


class NodeTokenByNumber(ApiView):
    """`/nodes/tokens/<number>/`."""

    @operation(
        "nodes_tokens_revoke",
        "End an enrolment token that nobody has used (operators)",
        scope="nodes:write",
        status=204,
    )
    def delete(self, request: Request, pk: int) -> Response:
        actor = viewer_of(request)
        services.require_operator(actor)
        token = select.get_visible_node_token(actor, pk)
        services.revoke_node_token(actor=actor, token=token)
        return Response(status=204)
