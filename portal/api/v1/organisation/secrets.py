"""Secrets for jobs over REST: set, listed by name, deleted; never read."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.errors import NotFound
from accounts.selectors import get_visible_project
from portal.api.operations import ApiView, body_of, operation
from portal.api.parts import PART_QUERY, Part, part_of
from portal.api.shapes import viewer_of
from scheduler.models import Secret
from scheduler.selectors.secrets import get_visible_secret, visible_secrets
from scheduler.services.secrets import delete_secret, set_secret


class SecretShape(serializers.Serializer[Any]):
    """A kept secret without its value. `project` is null for one of your own."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    project = serializers.CharField(allow_null=True)
    set_by = serializers.CharField(allow_null=True)
    set_at = serializers.DateTimeField()
    used_at = serializers.DateTimeField(allow_null=True)


class Secrets(Part):
    """Your own secrets and those of the projects you see."""

    items = SecretShape(many=True)


class SecretBody(serializers.Serializer[Any]):
    """A value to keep; with `project` for all of that project's jobs."""

    name = serializers.CharField(max_length=63)
    value = serializers.CharField(max_length=8192, trim_whitespace=False)
    project = serializers.CharField(required=False, default="", allow_blank=True, max_length=127)


def show_secret(secret: Secret) -> dict[str, Any]:
    """A secret as SecretShape."""
    return {
        "id": secret.pk,
        "name": secret.name,
        "project": secret.project.path if secret.project else None,
        "set_by": secret.set_by.username if secret.set_by else None,
        "set_at": secret.set_at,
        "used_at": secret.used_at,
    }


class SecretList(ApiView):
    """`/secrets/`."""

    @operation(
        "secrets_list",
        "Secrets that jobs may name",
        scope="jobs:read",
        query=PART_QUERY,
        reply=Secrets,
    )
    def get(self, request: Request) -> Response:
        rows = visible_secrets(viewer_of(request))
        return Response(part_of(request, rows, lambda found: [show_secret(one) for one in found]))

    @operation(
        "secrets_set",
        "Keep a secret, or replace its value; it can never be read again",
        scope="jobs:write",
        body=SecretBody,
        reply=SecretShape,
        status=201,
    )
    def post(self, request: Request) -> Response:
        sent, actor = body_of(request, SecretBody), viewer_of(request)
        path = sent.pop("project")
        try:
            project = get_visible_project(actor, path) if path else None
        except NotFound:
            raise serializers.ValidationError({"project": ["there is no such project"]}) from None
        secret = set_secret(actor=actor, project=project, **sent)
        return Response(show_secret(secret), status=201)


class SecretByNumber(ApiView):
    """`/secrets/<id>/`."""

    @operation("secrets_delete", "Delete a secret", scope="jobs:write", reply=SecretShape)
    def delete(self, request: Request, pk: int) -> Response:
        actor = viewer_of(request)
        secret = get_visible_secret(actor, pk)
        shown = show_secret(secret)
        delete_secret(actor=actor, secret=secret)
        return Response(shown)
