"""What is done with a schedule as a whole: paused, resumed, taken over; and its history."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.urls import path
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.models import AuditEvent, User
from portal.api.operations import ApiView, body_of, operation
from portal.api.parts import PART_QUERY, Part, part_of
from portal.api.shapes import viewer_of
from portal.api.v1.recurring.shapes import ScheduleDetail, ScheduleReason, shown, spec_named
from portal.reports.diffs import changes
from scheduler.models import JobSchedule
from scheduler.selectors.recurring.acts import act_words, acts_on, told_of
from scheduler.selectors.recurring.schedules import get_visible_schedule
from scheduler.services.recurring.keeping import pause_schedule, resume_schedule
from scheduler.services.recurring.taking import take_over


class ActChange(serializers.Serializer[Any]):
    """One field in words; null where it was not there before, or is not afterwards."""

    field = serializers.CharField()
    before = serializers.CharField(allow_null=True)
    after = serializers.CharField(allow_null=True)


class ScheduleAct(serializers.Serializer[Any]):
    """What was done: made, changed, paused, resumed, run by hand, taken over. `actor` is null where
    it did it by itself. `times_skipped` among the changes: how many due times a pause left out."""

    at = serializers.DateTimeField()
    act = serializers.CharField()
    actor = serializers.CharField(allow_null=True)
    on_behalf_of = serializers.CharField(allow_null=True)
    changes = ActChange(many=True)
    reason = serializers.CharField(allow_blank=True)


class ScheduleActs(Part):
    """The latest first."""

    items = ScheduleAct(many=True)


class ScheduleHistory(ApiView):
    """`/schedules/<id>/history/`."""

    @operation(
        "schedules_history",
        "What people did with a schedule, and what it did by itself",
        scope="jobs:read",
        query=PART_QUERY,
        reply=ScheduleActs,
    )
    def get(self, request: Request, pk: int) -> Response:
        viewer = viewer_of(request)
        schedule = get_visible_schedule(viewer, pk)
        part = part_of(
            request,
            acts_on(viewer, schedule),
            lambda found: [_show(viewer, schedule, one) for one in found],
        )
        return Response(ScheduleActs(part).data)


class SchedulePause(ApiView):
    """`/schedules/<id>/pause/`."""

    @operation(
        "schedules_pause",
        "Submit nothing more until it is resumed",
        scope="jobs:write",
        body=ScheduleReason,
        reply=ScheduleDetail,
    )
    def post(self, request: Request, pk: int) -> Response:
        """Its owner, a lead of the team or an operator; jobs that are there go on."""
        return _done(request, pk, pause_schedule, ScheduleReason)


class ScheduleResume(ApiView):
    """`/schedules/<id>/resume/`."""

    @operation(
        "schedules_resume",
        "Go on with the next due time (its owner)",
        scope="jobs:write",
        reply=ScheduleDetail,
    )
    def post(self, request: Request, pk: int) -> Response:
        """Times of the pause are not made up for; `history` says how many there were."""
        return _done(request, pk, resume_schedule)


class ScheduleTakeOver(ApiView):
    """`/schedules/<id>/take-over/`."""

    @operation(
        "schedules_take_over",
        "Become the owner of a schedule whose owner has left (leads)",
        scope="jobs:write",
        body=ScheduleReason,
        reply=ScheduleDetail,
    )
    def post(self, request: Request, pk: int) -> Response:
        """It is paused until you resume it, and then submits in your name; values of variables that
        are secrets of the owner before are left out. 409 `owner_here` while its owner may still
        submit, `too_many`; 422 where you could not submit its job."""
        return _done(request, pk, take_over, ScheduleReason)


def _done(
    request: Request,
    pk: int,
    act: Callable[..., object],
    body: type[serializers.Serializer[Any]] | None = None,
) -> Response:
    """Do this with a schedule that the caller finds; the answer has it as it is then."""
    actor = viewer_of(request)
    schedule = get_visible_schedule(actor, pk)
    with spec_named():
        act(actor=actor, schedule=schedule, **body_of(request, body))
    return shown(request, pk)


def _show(viewer: User, schedule: JobSchedule, event: AuditEvent) -> dict[str, Any]:
    different = changes(*told_of(viewer, schedule, event))
    return {
        "at": event.at,
        "act": act_words(event),
        "actor": event.actor_name or None,
        "on_behalf_of": event.on_behalf_of_name or None,
        "changes": [
            {"field": one.field, "before": one.before, "after": one.after} for one in different
        ],
        "reason": event.reason,
    }


act_urls = [
    path("schedules/<int:pk>/pause/", SchedulePause.as_view(), name="schedule_pause"),
    path("schedules/<int:pk>/resume/", ScheduleResume.as_view(), name="schedule_resume"),
    path("schedules/<int:pk>/history/", ScheduleHistory.as_view(), name="schedule_history"),
    path("schedules/<int:pk>/take-over/", ScheduleTakeOver.as_view(), name="schedule_take_over"),
]
