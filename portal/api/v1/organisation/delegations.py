"""`/delegations/…`: who acts for whom."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.models import Delegation, DelegationScope
from accounts.selectors import delegations_of, get_deputy, get_visible_team
from accounts.services import delegate, end_delegation, require_lender
from portal.api.operations import ApiView, body_of, operation
from portal.api.parts import PART_QUERY, Part, part_of
from portal.api.shapes import viewer_of
from scheduler.services.errors import NotFound


class DelegationShape(serializers.Serializer[Any]):
    """`deputy` acts for `giver` between the two times, unless it was ended early."""

    id = serializers.IntegerField()
    giver = serializers.CharField()
    deputy = serializers.CharField()
    scope = serializers.ChoiceField(DelegationScope.choices)
    team = serializers.CharField(allow_null=True)
    starts_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField()
    reason = serializers.CharField()
    ended_early_at = serializers.DateTimeField(allow_null=True)


class Delegations(Part):
    """Those you gave and hold, the latest first."""

    items = DelegationShape(many=True)


class DelegationBody(serializers.Serializer[Any]):
    """Who acts for you, in what, from when until when; an empty team: wherever you may."""

    deputy = serializers.CharField(max_length=150)
    scope = serializers.ChoiceField(DelegationScope.choices)
    team = serializers.CharField(max_length=63, required=False, default="", allow_blank=True)
    starts_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField()
    reason = serializers.CharField(max_length=255, required=False, default="", allow_blank=True)


def _show(row: Delegation) -> dict[str, Any]:
    return {
        "id": row.pk,
        "giver": row.giver.username,
        "deputy": row.deputy.username,
        "scope": row.scope,
        "team": row.team.slug if row.team else None,
        "starts_at": row.starts_at,
        "ends_at": row.ends_at,
        "reason": row.reason,
        "ended_early_at": row.ended_early_at,
    }


class DelegationList(ApiView):
    """`/delegations/`: made by people, so that a token lends nobody anything."""

    @operation(
        "delegations_list",
        "Who acts for whom",
        scope="people:read",
        query=PART_QUERY,
        reply=Delegations,
    )
    def get(self, request: Request) -> Response:
        found = delegations_of(viewer_of(request))
        return Response(part_of(request, found, lambda rows: [_show(row) for row in rows]))

    @operation(
        "delegations_give",
        "Let somebody act for you",
        scope=None,
        body=DelegationBody,
        reply=DelegationShape,
        status=201,
    )
    def post(self, request: Request) -> Response:
        sent, actor = body_of(request, DelegationBody), viewer_of(request)
        sent["team"] = get_visible_team(actor, sent["team"]) if sent["team"] else None
        require_lender(actor, sent["scope"], sent["team"])
        sent["deputy"] = get_deputy(actor, sent["deputy"])
        return Response(_show(delegate(actor=actor, **sent)), status=201)


class DelegationEnd(ApiView):
    """`/delegations/<id>/end/`."""

    @operation("delegations_end", "End it now", scope="people:write", reply=DelegationShape)
    def post(self, request: Request, pk: int) -> Response:
        body_of(request)
        actor = viewer_of(request)
        found = delegations_of(actor).filter(pk=min(pk, 2**63 - 1)).first()
        if found is None:
            raise NotFound("There is no such delegation for you.")
        return Response(_show(end_delegation(actor=actor, delegation=found)))
