"""`/teams/<slug>/services/…`: a team's accounts of programs. For people, not for tokens."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.models import User
from accounts.selectors import get_visible_team, named_project, service_accounts_of
from accounts.services import (
    SERVICE_SCOPES,
    end_service_account,
    issue_service_token,
    make_service_account,
)
from portal.api.operations import ApiView, body_of, operation
from portal.api.parts import PART_QUERY, Part, part_of
from portal.api.shapes import viewer_of
from portal.api.v1.people import NewToken, TokenBounds, TokenShape
from scheduler.services.errors import NotFound


class ServiceShape(serializers.Serializer[Any]):
    """An account of programs, with its tokens but not their secrets."""

    username = serializers.CharField()
    team = serializers.CharField()
    is_active = serializers.BooleanField()
    tokens = TokenShape(many=True)


class Services(Part):
    """The team's, ended ones last."""

    items = ServiceShape(many=True)


class ServiceBody(serializers.Serializer[Any]):
    """A new one is called `svc-` and this name."""

    name = serializers.CharField(max_length=67)


class ServiceTokenBody(TokenBounds):
    """What the token is called, may do, and how long it lives."""

    name = serializers.CharField(max_length=128)
    scopes = serializers.ListField(child=serializers.ChoiceField(SERVICE_SCOPES), min_length=1)
    expires_in_days = serializers.IntegerField(required=False, default=90)


def _show(account: User, team: str) -> dict[str, Any]:
    tokens = [dict(TokenShape(token).data) for token in account.api_tokens.all()]
    return {
        "username": account.username,
        "team": team,
        "is_active": account.is_active,
        "tokens": tokens,
    }


def _account(request: Request, slug: str, username: str) -> User:
    viewer = viewer_of(request)
    accounts = service_accounts_of(viewer, get_visible_team(viewer, slug))
    found = accounts.filter(username=username).first()
    if found is None:
        raise NotFound("There is no such service account for you.")
    return found


class ServiceList(ApiView):
    """`/teams/<slug>/services/`."""

    @operation(
        "services_list",
        "Service accounts of a team",
        scope="people:read",
        query=PART_QUERY,
        reply=Services,
    )
    def get(self, request: Request, slug: str) -> Response:
        viewer = viewer_of(request)
        accounts = service_accounts_of(viewer, get_visible_team(viewer, slug))
        return Response(
            part_of(request, accounts, lambda found: [_show(one, slug) for one in found])
        )

    @operation(
        "services_make",
        "Make a service account (leads)",
        scope=None,
        body=ServiceBody,
        reply=ServiceShape,
        status=201,
    )
    def post(self, request: Request, slug: str) -> Response:
        sent, actor = body_of(request, ServiceBody), viewer_of(request)
        team = get_visible_team(actor, slug)
        made = make_service_account(actor=actor, team=team, name=sent["name"])
        return Response(_show(made, slug), status=201)


class ServiceEnd(ApiView):
    """`/teams/<slug>/services/<username>/end/`."""

    @operation("services_end", "End it and all its tokens (leads)", scope=None, reply=ServiceShape)
    def post(self, request: Request, slug: str, username: str) -> Response:
        body_of(request)
        account = _account(request, slug, username)
        ended = end_service_account(actor=viewer_of(request), account=account)
        return Response(_show(ended, slug))


class ServiceTokens(ApiView):
    """`/teams/<slug>/services/<username>/tokens/`."""

    @operation(
        "services_token",
        "Make a token of it (leads)",
        scope=None,
        body=ServiceTokenBody,
        reply=NewToken,
        status=201,
    )
    def post(self, request: Request, slug: str, username: str) -> Response:
        sent, account = body_of(request, ServiceTokenBody), _account(request, slug, username)
        actor = viewer_of(request)
        sent["project"] = named_project(actor, sent["project"])
        token, secret = issue_service_token(actor=actor, account=account, **sent)
        return Response({**TokenShape(token).data, "secret": secret}, status=201)
