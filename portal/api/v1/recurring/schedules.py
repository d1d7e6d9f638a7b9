"""`/schedules/`: jobs that come again, by a rule of time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.urls import path, reverse
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.errors import NotFound
from accounts.selectors import get_visible_project
from portal import limits
from portal.api.operations import ApiView, Query, body_of, flag, operation, refuse_fast
from portal.api.parts import PART_QUERY, part_of
from portal.api.shapes import viewer_of
from portal.api.v1.recurring.acts import act_urls
from portal.api.v1.recurring.shapes import (
    ScheduleBody,
    ScheduleChanges,
    ScheduleDetail,
    ScheduleReason,
    ScheduleRuns,
    ScheduleRunShape,
    Schedules,
    show_runs,
    show_schedules,
    shown,
    spec_named,
)
from scheduler.models import TemplateVersion
from scheduler.selectors.composing.templates import get_version
from scheduler.selectors.recurring.schedules import (
    get_visible_schedule,
    runs_of,
    visible_schedules,
)
from scheduler.services.recurring.keeping import (
    change_schedule,
    create_schedule,
    delete_schedule,
)
from scheduler.services.recurring.running import run_now
from scheduler.services.recurring.terms import Terms
from scheduler.spec import JobSpec, SpecInvalid, SpecProblem, parse_spec

_FILTERS = (
    Query("project", str, "Those of this project, such as vision/digits."),
    Query("mine", bool, "1: only your own."),
)


class ScheduleList(ApiView):
    """`/schedules/`."""

    @operation(
        "schedules_list",
        "Schedules you may see, by name",
        scope="jobs:read",
        query=[*_FILTERS, *PART_QUERY],
        reply=Schedules,
    )
    def get(self, request: Request) -> Response:
        viewer, wanted = viewer_of(request), request.query_params.get("project", "")
        project = get_visible_project(viewer, wanted) if wanted else None
        rows = visible_schedules(viewer, project=project, mine=flag(request, "mine"))
        return Response(Schedules(part_of(request, rows, show_schedules)).data)

    @operation(
        "schedules_create",
        "Submit a job again and again, by a rule of time",
        scope="jobs:write",
        body=ScheduleBody,
        reply=ScheduleDetail,
        status=201,
    )
    def post(self, request: Request) -> Response:
        """The job is checked as if it were submitted now; 422 names what is wrong with it as
        `spec.<field>`. It is submitted in your name, with your rights at each due time."""
        actor, sent = viewer_of(request), body_of(request, ScheduleBody)
        document, reference = sent.pop("spec"), sent.pop("template", "")
        refuse_fast(limits.SUBMIT, actor.pk)
        with spec_named():
            version = _version(request, reference)
            spec = parse_spec({**(version.document if version else {}), **document})
            made = create_schedule(actor=actor, spec=spec, terms=Terms(**sent), template=version)
        return shown(request, made.pk, status=201)


class ScheduleByNumber(ApiView):
    """`/schedules/<id>/`."""

    @operation(
        "schedules_read", "One schedule, with its next times", scope="jobs:read",
        reply=ScheduleDetail,
    )  # fmt: skip
    def get(self, request: Request, pk: int) -> Response:
        return shown(request, pk)

    @operation(
        "schedules_change",
        "Another rule, job or name, from the next due time on (its owner)",
        scope="jobs:write",
        body=ScheduleChanges,
        reply=ScheduleDetail,
    )
    def post(self, request: Request, pk: int) -> Response:
        actor = viewer_of(request)
        schedule = get_visible_schedule(actor, pk)
        changes = body_of(request, ScheduleChanges)
        version, document = changes.pop("version", None), changes.pop("spec", None)
        with spec_named():
            spec = _read(document)
            change_schedule(
                actor=actor, schedule=schedule, changes=changes, spec=spec, version=version
            )
        return shown(request, pk)


class ScheduleRunList(ApiView):
    """`/schedules/<id>/runs/`."""

    @operation(
        "schedules_runs",
        "What came of a schedule's due times, the latest first",
        scope="jobs:read",
        query=PART_QUERY,
        reply=ScheduleRuns,
    )
    def get(self, request: Request, pk: int) -> Response:
        viewer, now = viewer_of(request), timezone.now()
        rows = runs_of(viewer, get_visible_schedule(viewer, pk))
        part = part_of(request, rows, lambda found: show_runs(viewer, found, now))
        return Response(ScheduleRuns(part).data)


class ScheduleDelete(ApiView):
    """`/schedules/<id>/delete/`."""

    @operation(
        "schedules_delete",
        "Forget a schedule; its jobs stay",
        scope="jobs:write",
        body=ScheduleReason,
        reply=Schedules,
    )
    def post(self, request: Request, pk: int) -> Response:
        """Its owner, a lead of the team or an operator. Answers with those that are left."""
        actor = viewer_of(request)
        schedule = get_visible_schedule(actor, pk)
        delete_schedule(actor=actor, schedule=schedule, **body_of(request, ScheduleReason))
        rows = visible_schedules(actor)
        part = part_of(request, rows, show_schedules, path=reverse("api:schedules"))
        return Response(Schedules(part).data)


class ScheduleRunNow(ApiView):
    """`/schedules/<id>/run/`."""

    @operation(
        "schedules_run",
        "Submit its job now, beside its due times (its owner)",
        scope="jobs:write",
        reply=ScheduleRunShape,
        status=201,
    )
    def post(self, request: Request, pk: int) -> Response:
        """Sent twice within a minute it is one job. 409 while an earlier one waits or runs that it
        does not replace."""
        actor = viewer_of(request)
        schedule = get_visible_schedule(actor, pk)
        body_of(request)
        refuse_fast(limits.SUBMIT, actor.pk)
        with spec_named():
            run = run_now(actor=actor, schedule=schedule)
        found = runs_of(actor, schedule).filter(pk=run.pk)
        return Response(show_runs(actor, list(found), timezone.now())[0], status=201)


def _version(request: Request, reference: str) -> TemplateVersion | None:
    if not reference:
        return None
    try:
        return get_version(viewer_of(request), reference)
    except NotFound:
        words = "is no template for you; see the list of templates"
        raise SpecInvalid([SpecProblem("template", words)]) from None


def _read(document: Mapping[str, Any] | None) -> JobSpec | None:
    return None if document is None else parse_spec(document)


schedule_urls = [
    *act_urls,
    path("schedules/", ScheduleList.as_view(), name="schedules"),
    path("schedules/<int:pk>/", ScheduleByNumber.as_view(), name="schedule"),
    path("schedules/<int:pk>/runs/", ScheduleRunList.as_view(), name="schedule_runs"),
    path("schedules/<int:pk>/delete/", ScheduleDelete.as_view(), name="schedule_delete"),
    path("schedules/<int:pk>/run/", ScheduleRunNow.as_view(), name="schedule_run"),
]
