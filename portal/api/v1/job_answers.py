"""Answers that take a decision: what blocks a job, what would help it, who was first."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.operations import ApiView, body_of, operation
from portal.api.shapes import viewer_of
from scheduler.loop.answering import answer_for, before_answer
from scheduler.selectors.forecasts import cycle_times, forecast_accuracy
from scheduler.selectors.jobs import get_visible_job
from scheduler.selectors.one_job.ruling import rules_of, try_rules
from scheduler.spec import SpecInvalid, SpecProblem
from scheduler.spec.retrying.rules import read_rules
from scheduler.states import WaitReason


class CheckShape(serializers.Serializer[Any]):
    """One check, in the order of precedence, and as pages call it; `sentence` is empty if it
    passes. `is_fault`: it fails, and nothing that comes free mends it."""

    reason = serializers.ChoiceField([str(reason) for reason in WaitReason])
    title = serializers.CharField()
    is_ok = serializers.BooleanField()
    is_fault = serializers.BooleanField()
    need = serializers.CharField(allow_blank=True)
    have = serializers.CharField(allow_blank=True)
    sentence = serializers.CharField(allow_blank=True)


class HolderShape(serializers.Serializer[Any]):
    """A job that holds GPUs this one could use. `job` is null for jobs you may not see."""

    job = serializers.IntegerField(allow_null=True)
    gpus = serializers.IntegerField()
    nodes = serializers.IntegerField()
    until = serializers.DateTimeField(allow_null=True)


class OptionShape(serializers.Serializer[Any]):
    """A change with which it starts now or sooner, as tried by deciding the whole cycle with it.
    `time_limit`: what to ask `change` for, where that is the change. `fix`: the change as the page
    of a new job takes it beside `clone`."""

    kind = serializers.ChoiceField(
        ["limit", "gpus", "nodes", "model", "place", "alone", "labels", "price", "pool"]
    )
    words = serializers.CharField()
    time_limit = serializers.CharField(allow_blank=True)
    starts_now = serializers.BooleanField()
    start_at = serializers.DateTimeField()
    wait_s = serializers.IntegerField()
    fix = serializers.ListField(child=serializers.CharField())


class AlsoShape(serializers.Serializer[Any]):
    """Why it waits for another pool that it chooses from."""

    pool = serializers.CharField()
    sentence = serializers.CharField()


class AnswerShape(serializers.Serializer[Any]):
    """What the scheduler says at `asked_at`. `start_at`: by when it has started in half of all
    cases, with the job as it is."""

    asked_at = serializers.DateTimeField()
    starts_now = serializers.BooleanField()
    start_at = serializers.DateTimeField(allow_null=True)
    checks = CheckShape(many=True)
    holders = HolderShape(many=True)
    other_holders = serializers.IntegerField()
    also = AlsoShape(many=True)
    options = OptionShape(many=True)


class Options(serializers.Serializer[Any]):
    """`answer` is null for a job that does not wait for the scheduler."""

    state = serializers.CharField()
    answer = AnswerShape(allow_null=True)


class PrecedenceShape(serializers.Serializer[Any]):
    """Why `other` was started before `job`; `code` names the factor that decided."""

    job = serializers.IntegerField()
    other = serializers.IntegerField()
    other_started_at = serializers.DateTimeField(allow_null=True)
    code = serializers.CharField()
    sentence = serializers.CharField()


class AccuracyShape(serializers.Serializer[Any]):
    """Of the jobs of a pool that waited in 30 days, shares that started within what they were told:
    by the likely time (`within_p50`; half of them should), by the late one (`within_p90`; nine of
    ten should)."""

    pool = serializers.CharField()
    waited = serializers.IntegerField()
    told = serializers.IntegerField()
    judged = serializers.IntegerField()
    within_p50 = serializers.FloatField(allow_null=True)
    within_p90 = serializers.FloatField(allow_null=True)


class PhaseShape(serializers.Serializer[Any]):
    """Milliseconds: half of the cycles took at most `p50`, 19 of 20 at most `p95`."""

    p50 = serializers.FloatField()
    p95 = serializers.FloatField()


class CyclesShape(serializers.Serializer[Any]):
    """The last recorded cycles."""

    cycles = serializers.IntegerField()
    total_ms = PhaseShape()
    load_ms = PhaseShape()
    plan_ms = PhaseShape()
    commit_ms = PhaseShape()
    most_statements = serializers.IntegerField()


class SchedulingShape(serializers.Serializer[Any]):
    """How the scheduler does."""

    cycles = CyclesShape(allow_null=True)
    forecasts = AccuracyShape(many=True)


class JobOptions(ApiView):
    """`/jobs/<id>/options/`."""

    @operation(
        "jobs_options",
        "All that stands in its way, who holds what it needs, what would help",
        scope="jobs:read",
        reply=Options,
    )
    def get(self, request: Request, pk: int) -> Response:
        """Each option was tried on the cluster as it is now. Nothing is reserved by asking."""
        viewer = viewer_of(request)
        job = get_visible_job(viewer, pk)
        answer = answer_for(viewer, job, now=timezone.now())
        return Response({"state": job.state, "answer": answer})


class JobBefore(ApiView):
    """`/jobs/<id>/before/<other>/`."""

    @operation(
        "jobs_before", "Why another job went before it", scope="jobs:read", reply=PrecedenceShape
    )
    def get(self, request: Request, pk: int, other: int) -> Response:
        """From what was kept at both starts, or as this one stands now while it waits; the other
        job needs not be yours."""
        viewer = viewer_of(request)
        job = get_visible_job(viewer, pk)
        return Response(asdict(before_answer(viewer, job, other, now=timezone.now())))


class RulesBody(serializers.Serializer[Any]):
    """Retry rules as a spec has them, as lines or objects; left out: the job's own."""

    retry_rules = serializers.JSONField(required=False)


class TriedShape(serializers.Serializer[Any]):
    """An attempt that has ended, and the first of the rules that meets its end; `rule` counts from
    one, null: none. `action`: retry, stop, or "" where what is usual follows."""

    attempt = serializers.IntegerField()
    sentence = serializers.CharField()
    rule = serializers.IntegerField(allow_null=True)
    action = serializers.ChoiceField(["retry", "stop", ""])
    words = serializers.CharField()


class RulesTried(serializers.Serializer[Any]):
    """The last attempts that have ended, oldest first."""

    items = TriedShape(many=True)


class JobRetryRules(ApiView):
    """`/jobs/<id>/retry-rules/`."""

    @operation(
        "jobs_retry_rules",
        "Which retry rule would have acted on the ends of its attempts; writes nothing",
        scope="jobs:read",
        body=RulesBody,
        reply=RulesTried,
    )
    def post(self, request: Request, pk: int) -> Response:
        """Looks at the last ten attempts, and at their logs where a rule asks for them: 403 without
        the right to read the log. 422 says what is wrong with which rule."""
        viewer = viewer_of(request)
        job = get_visible_job(viewer, pk)
        sent = body_of(request, RulesBody)
        try:
            rules = read_rules(sent["retry_rules"]) if "retry_rules" in sent else rules_of(job)
        except ValueError as error:
            raise SpecInvalid([SpecProblem("retry_rules", str(error))]) from None
        return Response({"items": [asdict(one) for one in try_rules(viewer, job, rules)]})


class Scheduling(ApiView):
    """`/scheduling/`."""

    @operation(
        "scheduling",
        "How long cycles take, and how forecasts came true",
        scope="jobs:read",
        reply=SchedulingShape,
    )
    def get(self, request: Request) -> Response:
        viewer = viewer_of(request)
        times = cycle_times(viewer)
        phases = ("total_ms", "load_ms", "plan_ms", "commit_ms")
        cycles = None if times is None else asdict(times)
        for name in phases if cycles else ():
            assert cycles is not None
            cycles[name] = dict(zip(("p50", "p95"), cycles[name], strict=True))
        accuracy = forecast_accuracy(viewer, now=timezone.now())
        return Response({"cycles": cycles, "forecasts": [asdict(one) for one in accuracy]})
