"""Who I am, my projects, my API tokens."""

from __future__ import annotations

from collections.abc import Container
from typing import Any, cast

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.bounds.networks import MOST
from accounts.models import ApiToken, Project
from accounts.permissions import can, is_operator
from accounts.selectors import named_project, submittable_projects, tokens_of, visible_projects
from accounts.selectors import visible_teams as teams_of
from accounts.services import SCOPES, issue_token, revoke_token
from portal.api.auth import ANY_SCOPE
from portal.api.operations import ApiView, body_of, operation
from portal.api.parts import PART_QUERY, Part, part_of
from portal.api.shapes import viewer_of
from scheduler.services.errors import NotFound


class MyTeam(serializers.Serializer[Any]):
    """A team I see; `role` is null when I am not in it."""

    slug = serializers.CharField()
    name = serializers.CharField()
    role = serializers.CharField(allow_null=True)


class Me(serializers.Serializer[Any]):
    """The caller. `scopes` and `token` are null for a signed-in browser. A token that is bound to a
    project knows of no teams, and holds no role beyond it."""

    username = serializers.CharField()
    display_name = serializers.CharField()
    email = serializers.CharField()
    is_operator = serializers.BooleanField()
    is_administrator = serializers.BooleanField()
    teams = MyTeam(many=True)
    scopes = serializers.ListField(child=serializers.CharField(), allow_null=True)
    token = serializers.CharField(allow_null=True)
    token_expires_at = serializers.DateTimeField(allow_null=True)
    token_project = serializers.CharField(allow_null=True)
    token_networks = serializers.ListField(child=serializers.CharField())


class ProjectShape(serializers.Serializer[Any]):
    """`path` is what a job names as its project."""

    path = serializers.CharField()
    name = serializers.CharField()
    team = serializers.CharField()
    description = serializers.CharField()
    is_archived = serializers.BooleanField()
    may_submit = serializers.BooleanField()


class Projects(Part):
    """Projects you may see."""

    items = ProjectShape(many=True)


class TokenShape(serializers.Serializer[Any]):
    """An API token without its secret. `refused_at`: when it was last sent from elsewhere."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    prefix = serializers.CharField()
    scopes = serializers.ListField(child=serializers.CharField())
    project = serializers.CharField(source="project.path", default=None, allow_null=True)
    networks = serializers.ListField(child=serializers.CharField())
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()
    last_used_at = serializers.DateTimeField(allow_null=True)
    refused_at = serializers.DateTimeField(allow_null=True)
    revoked_at = serializers.DateTimeField(allow_null=True)


class Tokens(Part):
    """Your tokens."""

    items = TokenShape(many=True)


class NewToken(TokenShape):
    """A new token; `secret` is shown this once."""

    secret = serializers.CharField()


class TokenBounds(serializers.Serializer[Any]):
    """What may narrow a token: only this project (team/project), only from these networks."""

    project = serializers.CharField(required=False, default="", allow_blank=True, max_length=160)
    networks = serializers.ListField(
        child=serializers.CharField(max_length=64), required=False, default=list, max_length=MOST
    )


class TokenBody(TokenBounds):
    """What the token is called, may do, and how long it lives."""

    name = serializers.CharField(max_length=128)
    scopes = serializers.ListField(child=serializers.ChoiceField(SCOPES), min_length=1)
    expires_in_days = serializers.IntegerField(required=False, default=90)


class WhoAmI(ApiView):
    """`/me/`."""

    @operation("me_read", "Who I am and what my token may do", scope=ANY_SCOPE, reply=Me)
    def get(self, request: Request) -> Response:
        viewer, token = viewer_of(request), cast(object, request.auth)
        roles = dict(viewer.memberships.values_list("team_id", "role"))
        teams = [
            {"slug": team.slug, "name": team.name, "role": roles.get(team.pk)}
            for team in teams_of(viewer)
        ]
        held = token if isinstance(token, ApiToken) else None
        return Response(
            {
                "username": viewer.username,
                "display_name": viewer.get_full_name(),
                "email": viewer.email,
                "is_operator": is_operator(viewer),
                "is_administrator": can(viewer, "administer_cluster", None),
                "teams": teams,
                "scopes": held.scopes if held else None,
                "token": held.name if held else None,
                "token_expires_at": held.expires_at if held else None,
                "token_project": held.project.path if held and held.project else None,
                "token_networks": held.networks if held else [],
            }
        )


class ProjectList(ApiView):
    """`/projects/`."""

    @operation(
        "projects_list",
        "Projects you may see",
        scope="jobs:read",
        query=PART_QUERY,
        reply=Projects,
    )
    def get(self, request: Request) -> Response:
        viewer = viewer_of(request)
        mine = set(submittable_projects(viewer).values_list("pk", flat=True))
        found = visible_projects(viewer)
        return Response(
            part_of(request, found, lambda some: [_show_project(one, mine) for one in some])
        )


def _show_project(project: Project, mine: Container[int]) -> dict[str, Any]:
    return {
        "path": project.path,
        "name": project.name,
        "team": project.team.slug,
        "description": project.description,
        "is_archived": project.is_archived,
        "may_submit": project.pk in mine,
    }


def _show_token(token: ApiToken) -> dict[str, Any]:
    return dict(TokenShape(token).data)


class TokenList(ApiView):
    """`/tokens/`: for people, so that a token cannot make another that outlives it."""

    @operation(
        "tokens_list",
        "Your API tokens",
        scope=None,
        query=PART_QUERY,
        reply=Tokens,
    )
    def get(self, request: Request) -> Response:
        tokens = tokens_of(viewer_of(request))
        return Response(part_of(request, tokens, lambda found: [_show_token(one) for one in found]))

    @operation(
        "tokens_create", "Make a token", scope=None, body=TokenBody, reply=NewToken, status=201
    )
    def post(self, request: Request) -> Response:
        actor, sent = viewer_of(request), body_of(request, TokenBody)
        sent["project"] = named_project(actor, sent["project"])
        token, secret = issue_token(actor=actor, **sent)
        return Response({**_show_token(token), "secret": secret}, status=201)


class TokenByNumber(ApiView):
    """`/tokens/<id>/`."""

    @operation("tokens_revoke", "Revoke a token", scope=None, reply=TokenShape)
    def delete(self, request: Request, pk: int) -> Response:
        viewer = viewer_of(request)
        token = tokens_of(viewer).filter(pk=min(pk, 2**63 - 1)).first()
        if token is None:
            raise NotFound("There is no such token of yours.")
        return Response(_show_token(revoke_token(actor=viewer, token=token)))
