"""`/schedules/<id>/history/` and `/take-over/`: what was done with one, and its next owner."""

from __future__ import annotations

from typing import Any

from django.urls import path
from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.models import AuditEvent
from portal.api.operations import ApiView, body_of, operation
from portal.api.parts import PART_QUERY, Part, part_of
from portal.api.shapes import viewer_of
from portal.api.v1.recurring.shapes import (
    ScheduleDetail,
    ScheduleReason,
    show_schedule,
    spec_named,
)
from portal.reports.diffs import changes
from scheduler.selectors.recurring.acts import act_words, acts_on
from scheduler.selectors.recurring.schedules import get_visible_schedule
from scheduler.services.recurring.taking import take_over


class ActChange(serializers.Serializer[Any]):
    """One field in words; null where it was not there before, or is not afterwards."""

    field = serializers.CharField()
    before = serializers.CharField(allow_null=True)
    after = serializers.CharField(allow_null=True)


class ScheduleAct(serializers.Serializer[Any]):
    """What was done: made, changed, paused, resumed, run by hand, taken over. `actor` is null where
    it did it by itself."""

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
        rows = acts_on(viewer, get_visible_schedule(viewer, pk))
        part = part_of(request, rows, lambda found: [_show(one) for one in found])
        return Response(ScheduleActs(part).data)


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
        actor = viewer_of(request)
        schedule = get_visible_schedule(actor, pk)
        with spec_named():
            take_over(actor=actor, schedule=schedule, **body_of(request, ScheduleReason))
        shown = show_schedule(actor, get_visible_schedule(actor, pk), timezone.now())
        return Response(ScheduleDetail(shown).data)


def _show(event: AuditEvent) -> dict[str, Any]:
    different = changes(event.before, event.after)
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
    path("schedules/<int:pk>/history/", ScheduleHistory.as_view(), name="schedule_history"),
    path("schedules/<int:pk>/take-over/", ScheduleTakeOver.as_view(), name="schedule_take_over"),
]
