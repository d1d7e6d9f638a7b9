"""`/teams/…`: the tree of teams."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.models import Team
from accounts.selectors import get_visible_team, visible_teams
from accounts.selectors.cost_centres import Centre, cost_centres
from accounts.services import create_team, set_cost_centre
from portal.api.operations import ApiView, body_of, operation
from portal.api.pagination import MAX_LIMIT
from portal.api.parts import PART_QUERY, Part, part_of
from portal.api.shapes import viewer_of
from scheduler.services.teams import move_team


class TeamShape(serializers.Serializer[Any]):
    """A team; `parent` is the team right above, null at the top; `cost_centre` a code or null."""

    slug = serializers.CharField()
    name = serializers.CharField()
    parent = serializers.CharField(allow_null=True)  # type: ignore[assignment]
    cost_centre = serializers.CharField(allow_null=True)


class Teams(Part):
    """Teams you may see."""

    items = TeamShape(many=True)


class TeamBody(serializers.Serializer[Any]):
    """A new team; without a parent it is at the top."""

    name = serializers.CharField(max_length=128)
    slug = serializers.CharField(max_length=63, required=False, default="")
    parent = serializers.CharField(max_length=63, required=False, default="", allow_blank=True)  # type: ignore[assignment]


class MoveBody(serializers.Serializer[Any]):
    """The team to be below; empty for the top."""

    parent = serializers.CharField(max_length=63, allow_blank=True)  # type: ignore[assignment]


class CostCentreBody(serializers.Serializer[Any]):
    """A cost centre by its code, empty for none; `name` is what people call it, for all its
    teams; left out, it stays."""

    code = serializers.CharField(max_length=32, allow_blank=True)
    name = serializers.CharField(max_length=128, required=False, default="", allow_blank=True)


def _show(team: Team) -> dict[str, Any]:
    parent = team.parent.slug if team.parent else None
    return {
        "slug": team.slug,
        "name": team.name,
        "parent": parent,
        "cost_centre": team.cost_centre_id,
    }


class TeamList(ApiView):
    """`/teams/`."""

    @operation(
        "teams_list",
        "Teams you may see",
        scope="people:read",
        query=PART_QUERY,
        reply=Teams,
    )
    def get(self, request: Request) -> Response:
        found = visible_teams(viewer_of(request)).select_related("parent")
        return Response(part_of(request, found, lambda teams: [_show(team) for team in teams]))

    @operation(
        "teams_create",
        "Make a team (operators; leads below their own)",
        scope="people:write",
        body=TeamBody,
        reply=TeamShape,
        status=201,
    )
    def post(self, request: Request) -> Response:
        sent, actor = body_of(request, TeamBody), viewer_of(request)
        sent["parent"] = get_visible_team(actor, sent["parent"]) if sent["parent"] else None
        return Response(_show(create_team(actor=actor, **sent)), status=201)


class TeamMove(ApiView):
    """`/teams/<slug>/move/`."""

    @operation(
        "teams_move",
        "Put a team below another (leads of both; administrators)",
        scope="people:write",
        body=MoveBody,
        reply=TeamShape,
    )
    def post(self, request: Request, slug: str) -> Response:
        sent, actor = body_of(request, MoveBody), viewer_of(request)
        team = get_visible_team(actor, slug)
        parent = get_visible_team(actor, sent["parent"]) if sent["parent"] else None
        return Response(_show(move_team(actor=actor, team=team, parent=parent)))


class TeamCostCentre(ApiView):
    """`/teams/<slug>/cost-centre/`."""

    @operation(
        "teams_cost_centre",
        "Charge a team to a cost centre from now on, or to none (finance)",
        scope=None,
        body=CostCentreBody,
        reply=TeamShape,
    )
    def post(self, request: Request, slug: str) -> Response:
        sent, actor = body_of(request, CostCentreBody), viewer_of(request)
        team = get_visible_team(actor, slug)
        return Response(_show(set_cost_centre(actor=actor, team=team, **sent)))


class ChargedShape(serializers.Serializer[Any]):
    """`since`: when the team came to the centre; null where it never was elsewhere."""

    slug = serializers.CharField()
    name = serializers.CharField()
    since = serializers.DateTimeField(allow_null=True)


class CentreShape(serializers.Serializer[Any]):
    """A cost centre and its teams of now; the one without a code has the teams of none.

    `teams` names at most 200 of `team_count`; `/teams/` says of every team where it belongs.
    """

    code = serializers.CharField(allow_blank=True)
    name = serializers.CharField(allow_blank=True)
    teams = ChargedShape(many=True)
    team_count = serializers.IntegerField()


class Centres(Part):
    """By code, those without one last."""

    items = CentreShape(many=True)


class CostCentreList(ApiView):
    """`/finance/cost-centres/`."""

    @operation(
        "cost_centres_list",
        "Cost centres and their teams",
        scope="costs:read",
        query=PART_QUERY,
        reply=Centres,
    )
    def get(self, request: Request) -> Response:
        found = cost_centres(viewer_of(request))
        part = part_of(
            request,
            found,
            lambda some: [_show_centre(one) for one in some],
            key=lambda one: one.code,
        )
        return Response(Centres(part).data)


def _show_centre(centre: Centre) -> dict[str, Any]:
    return {
        "code": centre.code,
        "name": centre.name,
        "teams": centre.teams[:MAX_LIMIT],
        "team_count": len(centre.teams),
    }
