"""`/jobs/<id>/keep/`: saying that a job is still needed, though its GPUs do little."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.operations import ApiView, body_of, operation
from portal.api.shapes import viewer_of
from portal.api.v1.job_shapes import JobDetail, show_job
from scheduler.selectors.jobs import get_visible_job
from scheduler.services.idling.keeping import keep_job
from scheduler.states import MOST_REASON


class KeepBody(serializers.Serializer[Any]):
    """For how many hours, of those that the rule leaves, and what for."""

    hours = serializers.IntegerField(min_value=1, max_value=1000)
    reason = serializers.CharField(max_length=MOST_REASON)


class JobKeep(ApiView):
    """`/jobs/<id>/keep/`."""

    @operation(
        "jobs_keep",
        "Say that a job is still needed, though its GPUs do little",
        scope="jobs:write",
        body=KeepBody,
        reply=JobDetail,
    )
    def post(self, request: Request, pk: int) -> Response:
        """For its owner and leads of its team, while a warning stands: 409 `not_warned` else, and
        `no_hours_left` where the rule's hours are used up."""
        actor = viewer_of(request)
        job = get_visible_job(actor, pk)
        sent = body_of(request, KeepBody)
        keep_job(actor=actor, job=job, **sent)
        return Response(show_job(actor, get_visible_job(actor, pk)))
