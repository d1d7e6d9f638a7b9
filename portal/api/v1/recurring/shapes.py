"""What is sent and told of schedules."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.models import User
from portal.api.parts import Part
from portal.api.shapes import MONEY, viewer_of
from portal.api.v1.rules.windows import Zoned
from scheduler.models import JobSchedule, JobScheduleRun
from scheduler.selectors.recurring.schedules import (
    ahead_of,
    costs_of_runs,
    ended_lately,
    get_visible_schedule,
    shown_document,
    times_of,
)
from scheduler.services.recurring.keeping import may_rule, may_submit, owner_left
from scheduler.services.recurring.taking import may_take_over
from scheduler.services.recurring.terms import BOUNDS, Terms
from scheduler.spec import SpecInvalid, SpecProblem
from scheduler.spec.recurring.rules import MAX_RULE
from scheduler.spec.recurring.words import Overlap

OVERLAPS = [str(one) for one in Overlap]


def _whole(name: str) -> serializers.IntegerField:
    least, most = BOUNDS[name]
    return serializers.IntegerField(min_value=least, max_value=most, required=False)


class ScheduleChanges(serializers.Serializer[Any]):
    """What is to be different from the next due time on; `spec` is the whole job anew, and
    `version` the one you have read, if it matters."""

    name = serializers.CharField(max_length=128, required=False)
    rule = serializers.CharField(max_length=MAX_RULE, required=False)
    zone = serializers.CharField(max_length=64, required=False)
    overlap = serializers.ChoiceField(OVERLAPS, required=False)
    most_open = _whole("most_open")
    late_within_s = _whole("late_within_s")
    pause_after = _whole("pause_after")
    starts_at = Zoned(required=False, allow_null=True)
    ends_at = Zoned(required=False, allow_null=True)
    spec = serializers.DictField(required=False)
    version = serializers.IntegerField(min_value=1, required=False)


class ScheduleBody(ScheduleChanges):
    """A job, and when it comes again: `rule` is cron's five fields, such as `30 2 * * mon-fri`, or
    a word such as `@daily`, in the time of `zone`. `overlap`: what happens while an earlier one
    waits or runs; `queue` keeps at most `most_open`. A time that is found `late_within_s` late or
    less is made up for. After `pause_after` failures in a row it pauses itself, 0: never; so it
    does where Trainyard itself could not carry it out five times in a row. `template`,
    such as vision-ddp@3: `spec` goes over what it says, within its rules."""

    name = serializers.CharField(max_length=128)
    rule = serializers.CharField(max_length=MAX_RULE)
    spec = serializers.DictField()
    template = serializers.CharField(max_length=110, required=False, allow_blank=True)
    # There is none yet: DRF takes an inherited field away so.
    version = None  # type: ignore[assignment]


class ScheduleReason(serializers.Serializer[Any]):
    """Why, in one line; needed where the schedule is somebody else's."""

    reason = serializers.CharField(required=False, allow_blank=True)


class ScheduleRow(serializers.Serializer[Any]):
    """A schedule in a list. `state` is active, paused or over; `last_*` what came of its last due
    time, null for none yet: `last_outcome` submitted, skipped, refused or missed."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    project = serializers.CharField()
    owner = serializers.CharField()
    state = serializers.CharField()
    rule = serializers.CharField()
    zone = serializers.CharField()
    next_due_at = serializers.DateTimeField(allow_null=True)
    last_due_at = serializers.DateTimeField(allow_null=True)
    last_outcome = serializers.CharField(allow_null=True)
    last_job = serializers.IntegerField(allow_null=True)
    last_job_state = serializers.CharField(allow_null=True)
    pause_reason = serializers.CharField(allow_blank=True)


class ScheduleDetail(ScheduleRow):
    """One schedule. `next_times`: the next five; `a_month`: about how many in 30 days, and
    `month_cost` what they cost then by the mean of the last ones, null where nobody knows.
    `spec` is null for those who may not read inside; `actions` is what you may do. `owner_left`:
    its owner may submit in the project no more, and a lead of the team may take it over."""

    overlap = serializers.ChoiceField(OVERLAPS)
    most_open = serializers.IntegerField()
    late_within_s = serializers.IntegerField()
    pause_after = serializers.IntegerField()
    starts_at = serializers.DateTimeField(allow_null=True)
    ends_at = serializers.DateTimeField(allow_null=True)
    template = serializers.CharField(allow_null=True)
    paused_at = serializers.DateTimeField(allow_null=True)
    paused_by = serializers.CharField(allow_null=True)
    created_at = serializers.DateTimeField()
    version = serializers.IntegerField()
    next_times = serializers.ListField(child=serializers.DateTimeField())
    a_month = serializers.IntegerField()
    month_cost = serializers.DecimalField(**MONEY, allow_null=True)
    actions = serializers.ListField(child=serializers.CharField())
    owner_left = serializers.BooleanField()
    spec = serializers.DictField(allow_null=True)


class Schedules(Part):
    """Those of the projects whose jobs you see, by name."""

    items = ScheduleRow(many=True)


class ScheduleRunShape(serializers.Serializer[Any]):
    """What came of one due time: `outcome` is submitted, skipped, refused or missed; `said` says
    why there is no job, or what is special. Times that are skipped one after the other for the same
    reason are one, the last, which says since when. `by_hand`: somebody asked for it in that
    minute. `cost` until now, null where you may not see it."""

    due_at = serializers.DateTimeField()
    by_hand = serializers.BooleanField()
    at = serializers.DateTimeField()
    outcome = serializers.CharField()
    said = serializers.CharField(allow_blank=True)
    job = serializers.IntegerField(allow_null=True)
    job_state = serializers.CharField(allow_null=True)
    cost = serializers.DecimalField(**MONEY, allow_null=True)


class ScheduleRuns(Part):
    """The latest first; those of the last 90 days are kept."""

    items = ScheduleRunShape(many=True)


def show_schedules(found: list[JobSchedule]) -> list[dict[str, Any]]:
    """Rows of `visible_schedules`."""
    return [_row(one) for one in found]


def shown(request: Request, pk: int, status: int = 200) -> Response:
    """The answer with one as it is now. Raises NotFound."""
    viewer = viewer_of(request)
    found = show_schedule(viewer, get_visible_schedule(viewer, pk), timezone.now())
    return Response(ScheduleDetail(found).data, status=status)


def show_schedule(viewer: User, schedule: JobSchedule, now: datetime) -> dict[str, Any]:
    """All of one of `visible_schedules` that the viewer may see."""
    runs = ended_lately(viewer, schedule)
    ahead = ahead_of(schedule, runs, costs_of_runs(viewer, runs, now=now), now=now)
    terms = {name: getattr(schedule, name) for name in Terms.__dataclass_fields__}
    return {
        **_row(schedule),
        **terms,
        "template": schedule.template.reference if schedule.template else None,
        "paused_at": schedule.paused_at,
        "paused_by": schedule.paused_by.username if schedule.paused_by else None,
        "created_at": schedule.created_at,
        "version": schedule.version,
        "next_times": times_of(schedule, now),
        "a_month": ahead.a_month,
        "month_cost": ahead.month_cost,
        "actions": _actions(viewer, schedule),
        "owner_left": owner_left(schedule),
        "spec": shown_document(viewer, schedule),
    }


def show_runs(viewer: User, found: list[JobScheduleRun], now: datetime) -> list[dict[str, Any]]:
    """Rows of `runs_of`."""
    costs = costs_of_runs(viewer, found, now=now)
    return [
        {
            "due_at": run.due_at,
            "by_hand": run.by_hand,
            "at": run.at,
            "outcome": run.outcome,
            "said": run.said,
            "job": run.job_id,
            "job_state": run.job.state if run.job else None,
            "cost": costs.get(run.pk),
        }
        for run in found
    ]


def _row(schedule: Any) -> dict[str, Any]:
    state = "paused" if schedule.paused_at else "over" if schedule.is_over else "active"
    return {
        "id": schedule.pk,
        "name": schedule.name,
        "project": schedule.project.path,
        "owner": schedule.owner.username,
        "state": state,
        "rule": schedule.rule,
        "zone": schedule.zone,
        "next_due_at": schedule.next_due_at,
        "last_due_at": schedule.last_due_at,
        "last_outcome": schedule.last_outcome,
        "last_job": schedule.last_job,
        "last_job_state": schedule.last_state,
        "pause_reason": schedule.pause_reason,
    }


def _actions(viewer: User, schedule: JobSchedule) -> list[str]:
    if may_submit(viewer, schedule):
        return ["change", "delete", "resume" if schedule.paused_at else "pause", "run"]
    found = []
    if may_rule(viewer, schedule):
        found = ["delete"] if schedule.paused_at else ["delete", "pause"]
    return [*found, "take_over"] if may_take_over(viewer, schedule) else found


@contextmanager
def spec_named() -> Iterator[None]:
    """What is wrong with the job is named as a field of `spec`."""
    try:
        yield
    except SpecInvalid as error:
        raise SpecInvalid([_within(one) for one in error.problems]) from None


def _within(problem: SpecProblem) -> SpecProblem:
    is_own = problem.field in ("template", "idempotency_key")
    return problem if is_own else replace(problem, field=f"spec.{problem.field}")
