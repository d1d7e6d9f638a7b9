"""`/projects/<team>/<project>/retention/`: how long what jobs leave is kept."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.models import Project, User
from accounts.selectors import get_visible_project
from portal.api.operations import ApiView, body_of, operation
from portal.api.shapes import viewer_of
from scheduler.selectors.kept.retention import retention_of
from scheduler.services.kept.pruning import MAX_DAYS, set_retention, would_prune


class RetentionShape(serializers.Serializer[Any]):
    """Days after a job's end; null: the default beside it."""

    project = serializers.CharField()
    log_days = serializers.IntegerField(allow_null=True)
    file_days = serializers.IntegerField(allow_null=True)
    sample_days = serializers.IntegerField(allow_null=True)
    default_log_days = serializers.IntegerField()
    default_file_days = serializers.IntegerField()
    default_sample_days = serializers.IntegerField()


class RetentionBody(serializers.Serializer[Any]):
    """Null, or left out: the default."""

    log_days = serializers.IntegerField(
        min_value=1, max_value=MAX_DAYS, required=False, default=None, allow_null=True
    )
    file_days = serializers.IntegerField(
        min_value=1, max_value=MAX_DAYS, required=False, default=None, allow_null=True
    )
    sample_days = serializers.IntegerField(
        min_value=1, max_value=MAX_DAYS, required=False, default=None, allow_null=True
    )


class PrunedShape(serializers.Serializer[Any]):
    """What would go within the hour."""

    logs = serializers.IntegerField()
    files = serializers.IntegerField()
    bytes = serializers.IntegerField()
    samples = serializers.IntegerField()


class ProjectRetention(ApiView):
    """`/projects/<team>/<project>/retention/`."""

    @operation(
        "retention_show",
        "How long a project's logs, files and readings of GPUs are kept",
        scope="jobs:read",
        reply=RetentionShape,
    )
    def get(self, request: Request, team: str, project: str) -> Response:
        viewer = viewer_of(request)
        return Response(_show(viewer, get_visible_project(viewer, f"{team}/{project}")))

    @operation(
        "retention_set",
        "Keep what jobs leave for so many days (leads); what is older goes within the hour",
        scope="people:write",
        body=RetentionBody,
        reply=RetentionShape,
    )
    def post(self, request: Request, team: str, project: str) -> Response:
        actor = viewer_of(request)
        found = get_visible_project(actor, f"{team}/{project}")
        set_retention(actor=actor, project=found, **body_of(request, RetentionBody))
        return Response(_show(actor, found))


class ProjectRetentionTrial(ApiView):
    """`/projects/<team>/<project>/retention/trial/`."""

    @operation(
        "retention_try",
        "What another number of days would delete (leads); deletes nothing",
        scope="people:write",
        body=RetentionBody,
        reply=PrunedShape,
    )
    def post(self, request: Request, team: str, project: str) -> Response:
        actor = viewer_of(request)
        found = get_visible_project(actor, f"{team}/{project}")
        sent = body_of(request, RetentionBody)
        return Response(asdict(would_prune(actor=actor, project=found, **sent, now=timezone.now())))


def _show(viewer: User, project: Project) -> dict[str, Any]:
    kept = asdict(retention_of(viewer, project))
    del kept["may_set"]
    return {"project": project.path, **kept}
