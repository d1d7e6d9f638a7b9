"""`/users/…`: who has an account, let in no longer and again; for administrators."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.services.audit import MAX_REASON
from accounts.services.ending.access import reactivate_person
from portal.api.errors import BadRequest
from portal.api.operations import ApiView, Query, body_of, choice, operation, whole
from portal.api.shapes import viewer_of
from scheduler.selectors.people.everybody import STANDINGS, everybody, get_somebody
from scheduler.services.people.leaving import end_access

MAX_LIMIT = 500
_MAX_TEXT = 100
_JOBS = ("go", "cancel")


class PlaceInTeam(serializers.Serializer[Any]):
    """A team that a person is in, and as what."""

    team = serializers.CharField()
    role = serializers.CharField()


class PersonShape(serializers.Serializer[Any]):
    """A person; `tokens` are those that are accepted, `jobs` those that wait or run.
    `address_asked`: the mail address that waits to be confirmed."""

    username = serializers.CharField()
    display_name = serializers.CharField()
    email = serializers.CharField(allow_blank=True)
    address_asked = serializers.CharField(allow_null=True)
    is_active = serializers.BooleanField()
    is_administrator = serializers.BooleanField()
    joined_at = serializers.DateTimeField()
    seen_at = serializers.DateTimeField(allow_null=True)
    tokens = serializers.IntegerField()
    jobs = serializers.IntegerField()
    teams = PlaceInTeam(many=True)


class People(serializers.Serializer[Any]):
    """A page of people by user name; `next_after` is null at the end."""

    items = PersonShape(many=True)
    next_after = serializers.CharField(allow_null=True)


class ReasonBody(serializers.Serializer[Any]):
    """Why, for those who look at the audit."""

    reason = serializers.CharField(max_length=MAX_REASON)


class LeavingBody(ReasonBody):
    """Why, and whether their jobs go on or are cancelled."""

    jobs = serializers.ChoiceField(_JOBS, required=False, default="go")


class LeftShape(serializers.Serializer[Any]):
    """What ended; `refused` jobs could not be cancelled just now. `bulk_cancel`: the number of the
    proposal where there were too many for one person; they go on until a second one agrees.
    `schedules` of theirs were paused, which leads may take over."""

    person = PersonShape()
    tokens = serializers.IntegerField()
    sessions = serializers.IntegerField()
    cancelled = serializers.IntegerField()
    refused = serializers.IntegerField()
    bulk_cancel = serializers.IntegerField(allow_null=True)
    schedules = serializers.IntegerField()


def show_person(person: Any) -> dict[str, Any]:
    """One of `everybody`, as replies have them."""
    return {
        "username": person.username,
        "display_name": person.get_full_name(),
        "email": person.email,
        "address_asked": person.address_asked,
        "is_active": person.is_active,
        "is_administrator": person.is_superuser,
        "joined_at": person.date_joined,
        "seen_at": person.seen_at,
        "tokens": person.tokens_alive,
        "jobs": person.jobs_open,
        "teams": [{"team": one.team.slug, "role": one.role} for one in person.in_teams],
    }


def _standing(request: Request) -> str:
    asked = request.query_params.get("state", "")
    return choice(request, "state", STANDINGS, asked) if asked else ""


class PersonList(ApiView):
    """`/users/`."""

    @operation(
        "users_list",
        "Who has an account (administrators)",
        scope="people:read",
        query=(
            Query("q", str, "Part of a name, an address or a team."),
            Query("state", str, "active or inactive; both without.", STANDINGS),
            Query("after", str, "Where to go on: next_after of the page before."),
            Query("limit", int, f"How many, 1 to {MAX_LIMIT}; 50 without."),
        ),
        reply=People,
    )
    def get(self, request: Request) -> Response:
        text = request.query_params.get("q", "").strip()
        if len(text) > _MAX_TEXT:
            words = f"has more than {_MAX_TEXT} characters; shorten it"
            raise BadRequest(f"q {words}.", code="bad_query", errors=[("q", words)])
        limit = whole(request, "limit", 50, low=1, high=MAX_LIMIT)
        found = everybody(
            viewer_of(request),
            text=text,
            standing=_standing(request),
            after=request.query_params.get("after", ""),
            limit=limit + 1,
        )
        following = found[limit - 1].username if len(found) > limit else None
        return Response(
            {"items": [show_person(one) for one in found[:limit]], "next_after": following}
        )


class PersonByName(ApiView):
    """`/users/<username>/`."""

    @operation("users_read", "One person (administrators)", scope="people:read", reply=PersonShape)
    def get(self, request: Request, username: str) -> Response:
        return Response(show_person(get_somebody(viewer_of(request), username)))


class PersonDeactivate(ApiView):
    """`/users/<username>/deactivate/`."""

    @operation(
        "users_deactivate",
        "Let somebody in no longer; tokens and browser sessions end (administrators)",
        scope="people:write",
        body=LeavingBody,
        reply=LeftShape,
    )
    def post(self, request: Request, username: str) -> Response:
        actor = viewer_of(request)
        person = get_somebody(actor, username)
        sent = body_of(request, LeavingBody)
        left = end_access(
            actor=actor, user=person, reason=sent["reason"], cancel_jobs=sent["jobs"] == "cancel"
        )
        ended = {"tokens": left.ended.tokens, "sessions": left.ended.sessions}
        jobs = {
            "cancelled": left.cancelled,
            "refused": left.refused,
            "bulk_cancel": left.proposal.pk if left.proposal else None,
            "schedules": left.schedules,
        }
        return Response({"person": show_person(get_somebody(actor, username)), **ended, **jobs})


class PersonReactivate(ApiView):
    """`/users/<username>/reactivate/`."""

    @operation(
        "users_reactivate",
        "Let somebody in again; tokens they make anew (administrators)",
        scope="people:write",
        body=ReasonBody,
        reply=PersonShape,
    )
    def post(self, request: Request, username: str) -> Response:
        actor = viewer_of(request)
        person = get_somebody(actor, username)
        reactivate_person(actor=actor, user=person, **body_of(request, ReasonBody))
        return Response(show_person(get_somebody(actor, username)))
