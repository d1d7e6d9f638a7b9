"""Another time limit, tier, size or other GPUs for a job, and what that means for others."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.operations import ApiView, body_of, operation
from portal.api.shapes import Spelled, viewer_of
from portal.api.v1.job_shapes import JobDetail, show_job
from portal.api.v1.jobs import IF_MATCH, expected_version
from portal.api.v1.standing.waiting import FinishShape
from scheduler.loop.changing import TIERS, change_job, preview, read_change
from scheduler.selectors.jobs import get_visible_job
from scheduler.services.errors import Forbidden
from scheduler.services.jobs import check_actor
from scheduler.spec.schema import MAX_GPUS_PER_NODE
from scheduler.states import FinishPolicy


class ChangeBody(serializers.Serializer[Any]):
    """`time_limit` like 6h or a count of seconds, from the start of an attempt; `nodes`, the most
    of an elastic job, which goes on with those if it has more. While it waits also `tier`, `nodes`
    as any number or as a range like 2..8, `gpus_per_node`, `gpu_model` (empty: any) and `pool`, of
    several with commas the most wanted first; it keeps its age then. `finish_by`: the moment by
    which it has to be finished, as in a spec, +6h from now, or none; `finish_by_policy`: keep or
    cancel; of a running job only what gives it more time. `max_cost`: what all its attempts
    together may cost, or none. `dry_run`: change nothing, only say what it would mean."""

    time_limit = Spelled(required=False, max_length=40)
    tier = serializers.ChoiceField(sorted(TIERS), required=False)
    nodes = Spelled(required=False, max_length=24)
    gpus_per_node = serializers.IntegerField(
        required=False, min_value=0, max_value=MAX_GPUS_PER_NODE
    )
    gpu_model = serializers.CharField(required=False, allow_blank=True, max_length=96)
    pool = serializers.CharField(required=False, max_length=600)
    finish_by = serializers.CharField(required=False, allow_blank=True, max_length=40)
    finish_by_policy = serializers.ChoiceField(list(FinishPolicy), required=False)
    max_cost = Spelled(required=False, max_length=32)
    dry_run = serializers.BooleanField(required=False, default=False)


class StartShape(serializers.Serializer[Any]):
    """A waiting job's start at the latest, as it was and as it would be; null: nobody knows.
    `job` is null for jobs you may not see; `delay_s` is negative for sooner."""

    job = serializers.IntegerField(allow_null=True)
    was_at = serializers.DateTimeField(allow_null=True)
    then_at = serializers.DateTimeField(allow_null=True)
    delay_s = serializers.IntegerField(allow_null=True)


class ResizeShape(serializers.Serializer[Any]):
    """A running job that goes on with so many nodes; `job` is null for jobs you may not see."""

    job = serializers.IntegerField(allow_null=True)
    nodes = serializers.IntegerField()


class MostCost(serializers.Serializer[Any]):
    """All GPUs for the whole time limit, or what is left of its highest price; null where no price
    is known, and `was` where the GPUs become others."""

    was = serializers.CharField(allow_null=True)
    then = serializers.CharField(allow_null=True)


class ImpactShape(serializers.Serializer[Any]):
    """`own`: this job's start, if it waits. `delayed`: the ten that lose most, `sooner`: those that
    gain most. `stopped`: ten of the running jobs that are stopped for it at once, null for those
    you may not see; `resized`: that give nodes back or get more. `consent`: whose word it takes,
    empty for the owner's own. `more_cost`: of the added time, at most. `most_cost`: of a job that
    asks for other GPUs or nodes, with the time limit it gets. `finish`: of one that waits and has a
    moment to be finished by, with the start that is expected of it as it is. `highest`: for how
    long its highest price is enough then, empty without one."""

    asked_at = serializers.DateTimeField()
    own = StartShape(allow_null=True)
    delayed = StartShape(many=True)
    delayed_count = serializers.IntegerField()
    sooner = StartShape(many=True)
    sooner_count = serializers.IntegerField()
    stopped = serializers.ListField(child=serializers.IntegerField(allow_null=True))
    stopped_count = serializers.IntegerField()
    resized = ResizeShape(many=True)
    finish = FinishShape(allow_null=True)
    consent = serializers.ChoiceField(["", "lead", "operator"], allow_blank=True)
    may = serializers.BooleanField()
    more_cost = serializers.CharField(allow_null=True)
    most_cost = MostCost(allow_null=True)
    highest = serializers.CharField(allow_blank=True)


class Changed(serializers.Serializer[Any]):
    """The job as it is now."""

    impact = ImpactShape()
    job = JobDetail()


class JobChange(ApiView):
    """`/jobs/<id>/change/`."""

    @operation(
        "jobs_change",
        "Give it another time limit, tier, size, GPUs, moment or price, or ask what that would do",
        scope="jobs:write",
        headers=[IF_MATCH],
        body=ChangeBody,
        reply=Changed,
    )
    def post(self, request: Request, pk: int) -> Response:
        """A running job gets more time, never less. If others would start later because of it, a
        lead (their jobs are the same team's) or an operator has to ask: 403 for others. What only a
        waiting job may have is refused with 409 once it has started, and nothing is changed."""
        viewer, now = viewer_of(request), timezone.now()
        job = get_visible_job(viewer, pk)
        version = expected_version(request)
        body = body_of(request, ChangeBody)
        change = read_change(
            body.get("time_limit", ""),
            body.get("tier", ""),
            body.get("nodes", ""),
            gpus_per_node=str(body.get("gpus_per_node", "")),
            gpu_model=body.get("gpu_model"),
            pool=body.get("pool", ""),
            finish_by=body.get("finish_by", ""),
            finish_by_policy=body.get("finish_by_policy", ""),
            max_cost=body.get("max_cost", ""),
            now=now,
        )
        check_actor(viewer, job, version)
        impact = preview(viewer, job, change, now=now)
        if not body["dry_run"]:
            if not impact["may"]:
                raise Forbidden(f"Others would start later; it takes: {impact['consent']}.")
            job = change_job(actor=viewer, job=job, change=change, version=version, now=now)
        return Response({"impact": impact, "job": show_job(viewer, job)})
