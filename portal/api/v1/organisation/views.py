"""`/views/…`: saved views of tables."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.selectors import get_visible_team
from portal.api.operations import ApiView, Query, body_of, choice, operation
from portal.api.parts import PART_QUERY, Part, part_of
from portal.api.shapes import viewer_of
from scheduler.models import SavedView
from scheduler.selectors.saved import visible_views
from scheduler.services.errors import NotFound
from scheduler.services.saved import TABLES, delete_view, save_view


class ViewShape(serializers.Serializer[Any]):
    """A query string of a table under a name; `team`: whose members see it, too."""

    id = serializers.IntegerField()
    table = serializers.ChoiceField(TABLES)
    name = serializers.CharField()
    query = serializers.CharField(allow_blank=True)
    team = serializers.CharField(allow_null=True)
    owner = serializers.CharField()
    is_default = serializers.BooleanField()


class Views(Part):
    """Your own and those shared with your teams, by name."""

    items = ViewShape(many=True)


class ViewBody(serializers.Serializer[Any]):
    """What to keep; a view of yours with that name is replaced."""

    table = serializers.ChoiceField(TABLES)
    name = serializers.CharField(max_length=60)
    query = serializers.CharField(max_length=1000, allow_blank=True)
    team = serializers.CharField(max_length=63, required=False, default="", allow_blank=True)


def _show(view: SavedView) -> dict[str, Any]:
    return {
        "id": view.pk,
        "table": view.table,
        "name": view.name,
        "query": view.query,
        "team": view.team.slug if view.team else None,
        "owner": view.person.username,
        "is_default": view.is_default,
    }


class ViewList(ApiView):
    """`/views/`."""

    @operation(
        "views_list",
        "Saved views",
        scope="people:read",
        query=[Query("table", str, "Those of one table only.", TABLES), *PART_QUERY],
        reply=Views,
    )
    def get(self, request: Request) -> Response:
        table = choice(request, "table", ("", *TABLES), "")
        rows = visible_views(viewer_of(request), table)
        return Response(part_of(request, rows, lambda found: [_show(row) for row in found]))

    @operation(
        "views_save",
        "Save a view",
        scope="people:write",
        body=ViewBody,
        reply=ViewShape,
        status=201,
    )
    def post(self, request: Request) -> Response:
        sent, actor = body_of(request, ViewBody), viewer_of(request)
        sent["team"] = get_visible_team(actor, sent["team"]) if sent["team"] else None
        return Response(_show(save_view(actor=actor, **sent)), status=201)


class ViewByNumber(ApiView):
    """`/views/<id>/`."""

    @operation("views_delete", "Delete a view of yours", scope="people:write", status=204)
    def delete(self, request: Request, pk: int) -> Response:
        actor = viewer_of(request)
        found = visible_views(actor).filter(pk=min(pk, 2**63 - 1)).first()
        if found is None:
            raise NotFound("There is no such view for you.")
        delete_view(actor=actor, view=found)
        return Response(status=204)
