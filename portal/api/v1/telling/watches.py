"""`/watches/`, `/jobs/<id>/watch/`, `/sets/<id>/watch/`: being told of the job of another."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.models import User
from portal.api.operations import ApiView, body_of, operation
from portal.api.parts import PART_QUERY, Part, part_of
from portal.api.shapes import viewer_of
from scheduler.models import Job, JobSet, JobWatch
from scheduler.selectors.watching.watches import watched_by, watchers_of_job, watchers_of_set
from scheduler.services.inbox.watching import (
    ALSO,
    unwatch_job,
    unwatch_set,
    watch_job,
    watch_set,
)


class WatchBody(serializers.Serializer[Any]):
    """What you want to be told of beside what everybody is who watches: `start`, when it starts;
    `warn`, at 80 and 90 % of its time limit, or of what its highest price pays for. Left out:
    neither, or as it is for what you watch already."""

    also = serializers.ListField(child=serializers.ChoiceField(ALSO), required=False)


class WatcherShape(serializers.Serializer[Any]):
    """One who is told of it beside its owner."""

    person = serializers.CharField()
    since = serializers.DateTimeField()


class Watchers(Part):
    """Who watches it, the first first; `is_watched`: you do, and chose `also`."""

    items = WatcherShape(many=True)
    is_watched = serializers.BooleanField()
    also = serializers.ListField(child=serializers.ChoiceField(ALSO))


class WatchShape(serializers.Serializer[Any]):
    """What you watch: a `job` or, with `set`, an array as a whole; the other of the two is null.
    `also`: what you chose beside what everybody is told."""

    job = serializers.IntegerField(allow_null=True)
    set = serializers.IntegerField(allow_null=True)
    name = serializers.CharField()
    owner = serializers.CharField()
    project = serializers.CharField()
    since = serializers.DateTimeField()
    also = serializers.ListField(child=serializers.ChoiceField(ALSO))


class Watches(Part):
    """The latest first."""

    items = WatchShape(many=True)


class WatchList(ApiView):
    """`/watches/`."""

    @operation(
        "watches_list",
        "What you watch of others and is not over",
        scope="people:read",
        query=PART_QUERY,
        reply=Watches,
    )
    def get(self, request: Request) -> Response:
        rows = watched_by(viewer_of(request))
        return Response(part_of(request, rows, lambda found: [_watch(one) for one in found]))


class JobWatchers(ApiView):
    """`/jobs/<id>/watch/`."""

    @operation(
        "watches_of_job",
        "Who watches a job; of a task, its array",
        scope="jobs:read",
        query=PART_QUERY,
        reply=Watchers,
    )
    def get(self, request: Request, pk: int) -> Response:
        viewer = viewer_of(request)
        return Response(_show(request, viewer, watchers_of_job(viewer, pk)))

    @operation(
        "watches_add_job",
        "Be told of the job of another as its owner is",
        scope="people:write",
        body=WatchBody,
        reply=Watchers,
    )
    def post(self, request: Request, pk: int) -> Response:
        """Of a task, of its array; twice is once, with another `also` it changes that. 409
        `job_over`, `own_job`, `too_many_watchers` (20 of a job), `too_many_watched` (200 that are
        not over of a person)."""
        actor = viewer_of(request)
        watch_job(actor=actor, pk=pk, now=timezone.now(), **body_of(request, WatchBody))
        return Response(_show(request, actor, watchers_of_job(actor, pk)))

    @operation("watches_end_job", "Watch it no more", scope="people:write", status=204)
    def delete(self, request: Request, pk: int) -> Response:
        unwatch_job(actor=viewer_of(request), pk=pk)
        return Response(status=204)


class SetWatchers(ApiView):
    """`/sets/<id>/watch/`."""

    @operation(
        "watches_of_set",
        "Who watches an array",
        scope="jobs:read",
        query=PART_QUERY,
        reply=Watchers,
    )
    def get(self, request: Request, pk: int) -> Response:
        viewer = viewer_of(request)
        return Response(_show(request, viewer, watchers_of_set(viewer, pk)))

    @operation(
        "watches_add_set",
        "Be told of the array of another as its owner is",
        scope="people:write",
        body=WatchBody,
        reply=Watchers,
    )
    def post(self, request: Request, pk: int) -> Response:
        """Refused as `watches_add_job` is."""
        actor = viewer_of(request)
        watch_set(actor=actor, pk=pk, now=timezone.now(), **body_of(request, WatchBody))
        return Response(_show(request, actor, watchers_of_set(actor, pk)))

    @operation("watches_end_set", "Watch it no more", scope="people:write", status=204)
    def delete(self, request: Request, pk: int) -> Response:
        unwatch_set(actor=viewer_of(request), pk=pk)
        return Response(status=204)


def _watch(row: JobWatch) -> dict[str, Any]:
    what: Job | JobSet | None = row.job or row.job_set
    assert what is not None, "one of the two is set, the database sees to it"
    return {
        "job": row.job_id,
        "set": row.job_set_id,
        "name": what.name,
        "owner": what.owner.username,
        "project": what.project.path,
        "since": row.since,
        "also": row.also,
    }


def _show(request: Request, viewer: User, rows: QuerySet[JobWatch]) -> dict[str, Any]:
    shown = part_of(
        request,
        rows,
        lambda found: [{"person": one.person.username, "since": one.since} for one in found],
    )
    own = rows.filter(person=viewer).first()
    return {**shown, "is_watched": own is not None, "also": own.also if own else []}
