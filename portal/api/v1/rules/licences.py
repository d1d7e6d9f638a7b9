"""Licences: tokens that jobs hold while they run."""

from __future__ import annotations

from typing import Any

from django.urls import reverse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.operations import ApiView, body_of, operation
from portal.api.parts import PART_QUERY, Part, part_of
from portal.api.shapes import viewer_of
from scheduler.selectors.sharing.licences import get_visible_licence, licence_views
from scheduler.services.sites.licences import remove_licence, set_licence


class LicenceShape(serializers.Serializer[Any]):
    """`held` tokens are with live jobs; more than `total` if that was lowered meanwhile."""

    name = serializers.CharField()
    total = serializers.IntegerField()
    held = serializers.IntegerField()


class Licences(Part):
    """All licences."""

    items = LicenceShape(many=True)


class LicenceBody(serializers.Serializer[Any]):
    """A licence and how many tokens of it there are."""

    name = serializers.CharField(max_length=63)
    total = serializers.IntegerField()


class LicenceList(ApiView):
    """`/licences/`."""

    @operation(
        "licences_list",
        "Licences and who uses them",
        scope="nodes:read",
        query=PART_QUERY,
        reply=Licences,
    )
    def get(self, request: Request) -> Response:
        return Response(_shown(request))

    @operation(
        "licences_set",
        "Make a licence or change its tokens (operators)",
        scope="nodes:write",
        body=LicenceBody,
        reply=Licences,
    )
    def post(self, request: Request) -> Response:
        set_licence(actor=viewer_of(request), **body_of(request, LicenceBody))
        return Response(_shown(request))


class LicenceRemove(ApiView):
    """`/licences/<name>/remove/`."""

    @operation(
        "licences_remove",
        "Forget a licence that no job asks for (operators)",
        scope="nodes:write",
        reply=Licences,
    )
    def post(self, request: Request, name: str) -> Response:
        body_of(request)
        actor = viewer_of(request)
        remove_licence(actor=actor, licence=get_visible_licence(actor, name))
        return Response(_shown(request))


def _shown(request: Request) -> dict[str, Any]:
    return part_of(
        request,
        licence_views(viewer_of(request)),
        lambda found: [
            {"name": view.licence.name, "total": view.licence.total, "held": view.held}
            for view in found
        ],
        key=lambda view: view.licence.pk,
        path=reverse("api:licences"),
    )
