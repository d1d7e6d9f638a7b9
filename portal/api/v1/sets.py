"""Arrays as a whole: list, read, cancel, run again what failed."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.models import User
from portal.api.operations import ApiView, body_of, operation
from portal.api.pagination import PAGE_QUERY, page_of
from portal.api.shapes import MONEY, viewer_of
from portal.api.v1.requesting.cancels import BulkCancelShape, proposed
from portal.api.v1.standing.waiting import WaitedForBy, show_waiters
from scheduler.conf import load_conf
from scheduler.models import JobSet
from scheduler.selectors import sets as select
from scheduler.selectors.waits.waiters import waiters_of
from scheduler.services import sets as services
from scheduler.services.holding.alone import SecondNeeded
from scheduler.services.seconding.proposing import propose_to_cancel_set
from scheduler.states import JobState


class SetShape(serializers.Serializer[Any]):
    """An array. `counts`: its tasks by state; `done_at`: when the last is likely to end, null with
    `done_why`; `cost` is null for those who may not see it. The tasks: `/jobs/?set=<id>`."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    project = serializers.CharField()
    owner = serializers.CharField()
    range = serializers.CharField()
    size = serializers.IntegerField()
    max_parallel = serializers.IntegerField()
    rerun_of = serializers.IntegerField(allow_null=True)
    group = serializers.CharField(allow_null=True)
    state = serializers.ChoiceField([str(state) for state in JobState])
    counts = serializers.DictField(child=serializers.IntegerField())
    finished = serializers.IntegerField()
    done_at = serializers.DateTimeField(allow_null=True)
    done_why = serializers.CharField()
    cost = serializers.DecimalField(**MONEY, allow_null=True)
    currency = serializers.CharField()
    created_at = serializers.DateTimeField()
    actions = serializers.ListField(child=serializers.CharField())


class SetDetail(SetShape):
    """One array, and who waits for all of its tasks."""

    waited_for_by = WaitedForBy()


class SetPage(serializers.Serializer[Any]):
    """A page of sets; ask for the next with `next_cursor`."""

    items = SetShape(many=True)
    next_cursor = serializers.CharField(allow_null=True)


class Cancelled(serializers.Serializer[Any]):
    """How many tasks had not ended, and the set as it is now."""

    tasks = serializers.IntegerField()
    set = SetShape()


class CancelBody(serializers.Serializer[Any]):
    """Why, in one line of at most 200 characters, for the owner and whoever may read the tasks.
    Needed where the array is another's."""

    reason = serializers.CharField(required=False, allow_blank=True)


class Sets(ApiView):
    """`/sets/`."""

    @operation(
        "sets_list",
        "Arrays you may see, newest first",
        scope="jobs:read",
        query=PAGE_QUERY,
        reply=SetPage,
    )
    def get(self, request: Request) -> Response:
        viewer = viewer_of(request)
        shown = page_of(request, select.visible_sets(viewer), lambda sets: _shown(viewer, sets))
        return Response(shown)


class SetByNumber(ApiView):
    """`/sets/<id>/`."""

    @operation("sets_read", "One array", scope="jobs:read", reply=SetDetail)
    def get(self, request: Request, pk: int) -> Response:
        viewer = viewer_of(request)
        shown = _one(viewer, select.get_visible_set(viewer, pk))
        waiters = show_waiters(waiters_of(viewer, job_set=pk))
        return Response(shown | {"waited_for_by": waiters})


class SetCancel(ApiView):
    """`/sets/<id>/cancel/`."""

    @operation(
        "sets_cancel",
        "End every task that has not ended",
        scope="jobs:write",
        body=CancelBody,
        reply=Cancelled,
        replies={202: BulkCancelShape},
    )
    def post(self, request: Request, pk: int) -> Response:
        """202 where these are too many of somebody else for one person: nothing has ended yet, and
        a second person is asked to agree. Without a `reason` that is a 409,
        `second_person_needed`, and 422 `reason_needed` where there are fewer."""
        sent, actor = body_of(request, CancelBody), viewer_of(request)
        job_set = select.get_visible_set(actor, pk)
        try:
            tasks = services.cancel_set(actor=actor, job_set=job_set, **sent)
        except SecondNeeded:
            if "reason" not in sent:
                raise
            made = propose_to_cancel_set(actor=actor, job_set=job_set, reason=sent["reason"])
            return proposed(actor, made)
        return Response({"tasks": tasks, "set": _one(actor, job_set)})


class SetRerun(ApiView):
    """`/sets/<id>/rerun/`."""

    @operation(
        "sets_rerun",
        "Run the failed tasks again, as a new array",
        scope="jobs:write",
        reply=SetShape,
        status=201,
    )
    def post(self, request: Request, pk: int) -> Response:
        """409 when no task has failed, or all that have run again already."""
        body_of(request)
        actor = viewer_of(request)
        made = services.rerun_failed(actor=actor, job_set=select.get_visible_set(actor, pk))
        reply = Response(_one(actor, select.get_visible_set(actor, made.pk)), status=201)
        reply["Location"] = f"/api/v1/sets/{made.pk}/"
        return reply


def _one(viewer: User, job_set: JobSet) -> dict[str, Any]:
    return _shown(viewer, [job_set])[0]


def _shown(viewer: User, sets: list[JobSet]) -> list[dict[str, Any]]:
    views = select.set_views(viewer, sets, now=timezone.now())
    return [_show(viewer, views[one.pk]) for one in sets]


def _show(viewer: User, view: select.SetView) -> dict[str, Any]:
    """A set as SetShape."""
    one = view.job_set
    shown = {
        "id": one.pk,
        "name": one.name,
        "project": one.project.path,
        "owner": one.owner.username,
        "range": one.range,
        "size": one.size,
        "max_parallel": one.max_parallel,
        "rerun_of": one.rerun_of_id,
        "group": one.spec.get("group") or None,
        "state": view.state,
        "counts": view.counts,
        "finished": view.finished,
        "done_at": view.done_at,
        "done_why": view.done_why,
        "cost": view.cost,
        "currency": load_conf().currency,
        "created_at": one.created_at,
        "actions": sorted(select.set_actions(viewer, view)),
    }
    return dict(SetShape(shown).data)
