"""Interactive sessions: what is beside the job. One is started as a job, and stopped as one."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.models import User
from portal.api.operations import ApiView, body_of, operation
from portal.api.pagination import PAGE_QUERY, page_of
from portal.api.shapes import viewer_of
from scheduler.conf import load_conf
from scheduler.models import Session
from scheduler.selectors import sessions as select
from scheduler.services import sessions as services
from scheduler.services.sessions.entering import TICKET_LIFE
from scheduler.spec.parts import SESSION_APPS
from scheduler.states import JobState
from scheduler.wire.sessions import path_of

_LEVELS = ("", "half", "soon", "last")


class SessionShape(serializers.Serializer[Any]):
    """A session; `id` is its job's number. `idle_level` says how much of the idle time has run
    down: half (50 %), soon (80 %), last (95 %). `gpu_percent`: mean of the last minute, null for
    those who may not see it or while nothing was read. The rest: `/jobs/<id>/`."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    app = serializers.ChoiceField(list(SESSION_APPS))
    project = serializers.CharField()
    owner = serializers.CharField()
    state = serializers.ChoiceField([str(state) for state in JobState])
    node = serializers.CharField()
    started_at = serializers.DateTimeField(allow_null=True)
    ends_at = serializers.DateTimeField(allow_null=True)
    idle_stop_s = serializers.IntegerField()
    idle_since = serializers.DateTimeField(allow_null=True)
    idle_stop_at = serializers.DateTimeField(allow_null=True)
    idle_level = serializers.ChoiceField(list(_LEVELS))
    gpu_percent = serializers.FloatField(allow_null=True)
    actions = serializers.ListField(child=serializers.CharField())


class SessionPage(serializers.Serializer[Any]):
    """A page of sessions; ask for the next with `next_cursor`."""

    items = SessionShape(many=True)
    next_cursor = serializers.CharField(allow_null=True)


class Ticket(serializers.Serializer[Any]):
    """An address that lets a browser in once, until `expires_at`."""

    url = serializers.CharField()
    expires_at = serializers.DateTimeField()


class Sessions(ApiView):
    """`/sessions/`."""

    @operation(
        "sessions_list",
        "Interactive sessions you may see, newest first",
        scope="jobs:read",
        query=PAGE_QUERY,
        reply=SessionPage,
    )
    def get(self, request: Request) -> Response:
        viewer = viewer_of(request)
        rows = select.visible_sessions(viewer)
        return Response(page_of(request, rows, lambda found: _shown(viewer, found)))


class SessionByNumber(ApiView):
    """`/sessions/<id>/`."""

    @operation("sessions_read", "One session", scope="jobs:read", reply=SessionShape)
    def get(self, request: Request, pk: int) -> Response:
        viewer = viewer_of(request)
        return Response(_shown(viewer, [select.get_visible_session(viewer, pk)])[0])


class SessionTicket(ApiView):
    """`/sessions/<id>/ticket/`."""

    @operation(
        "sessions_ticket",
        "An address that lets your browser in once, within a minute",
        scope="jobs:write",
        reply=Ticket,
        status=201,
    )
    def post(self, request: Request, pk: int) -> Response:
        """For the session's owner; 409 while it does not run."""
        body_of(request)
        actor, now = viewer_of(request), timezone.now()
        session = select.get_visible_session(actor, pk)
        ticket = services.issue_ticket(actor=actor, session=session, now=now)
        conf = load_conf()
        origin = conf.session_origin or conf.public_url
        url = f"{origin}{path_of(pk)}?ticket={ticket}"
        return Response({"url": url, "expires_at": now + TICKET_LIFE}, status=201)


class SessionKeep(ApiView):
    """`/sessions/<id>/keep/`."""

    @operation("sessions_keep", "Set the idle clock back", scope="jobs:write", reply=SessionShape)
    def post(self, request: Request, pk: int) -> Response:
        """For the session's owner; 409 while it does not run."""
        body_of(request)
        actor = viewer_of(request)
        session = select.get_visible_session(actor, pk)
        services.keep_session(actor=actor, session=session)
        return Response(_shown(actor, [select.get_visible_session(actor, pk)])[0])


def _shown(viewer: User, sessions: list[Session]) -> list[dict[str, Any]]:
    cards = select.session_cards(viewer, sessions, now=timezone.now())
    return [_show(card) for card in cards]


def _show(card: select.SessionCard) -> dict[str, Any]:
    job = card.session.job
    return {
        "id": job.pk,
        "name": job.name,
        "app": card.session.app,
        "project": job.project.path,
        "owner": job.owner.username,
        "state": str(job.state),
        "node": card.node,
        "started_at": card.started_at,
        "ends_at": card.ends_at,
        "idle_stop_s": card.session.idle_stop_s,
        "idle_since": card.idle_since,
        "idle_stop_at": card.idle_stop_at,
        "idle_level": card.level,
        "gpu_percent": None if card.gpu_percent is None else round(card.gpu_percent, 1),
        "actions": sorted(card.actions),
    }
