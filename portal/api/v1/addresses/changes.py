"""`/me/address/…`: one's own mail address; `/users/<username>/address/`: somebody else's, for
administrators."""

from __future__ import annotations

from typing import Any, cast

from django.urls import path
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.models import User
from accounts.selectors.addresses import MAX_EMAIL, decided_by, open_change_of
from accounts.services.addresses.asking import (
    ask_address,
    ask_address_for,
    cancel_address,
    send_address_link,
)
from accounts.services.addresses.changing import set_address
from accounts.services.audit import MAX_REASON
from portal import limits
from portal.api.operations import ApiView, body_of, operation, too_fast
from portal.api.shapes import viewer_of
from portal.api.v1.organisation.users import PersonShape, show_person
from scheduler.selectors.people.everybody import get_somebody

_DECIDERS = ("", "provider", "administrators")
_HOW = ("link", "now")


class WaitingAddress(serializers.Serializer[Any]):
    """An address that waits to be confirmed. Its link is good until `expires_at`;
    `by_administrator`: an administrator asked for it."""

    email = serializers.CharField(source="new_email")
    asked_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()
    by_administrator = serializers.SerializerMethodField()

    def get_by_administrator(self, change: Any) -> bool:
        """Whether somebody else asked."""
        return not change.is_own


class AddressShape(serializers.Serializer[Any]):
    """Your mail address. `decided_by`: empty, you do; provider, it is the one that your identity
    provider tells of; administrators, ask one. `waiting` is null where nothing waits."""

    email = serializers.CharField(allow_blank=True)
    decided_by = serializers.ChoiceField(_DECIDERS, allow_blank=True)
    waiting = WaitingAddress(allow_null=True)


class AddressBody(serializers.Serializer[Any]):
    """The new address."""

    email = serializers.CharField(max_length=MAX_EMAIL)


class OthersAddressBody(AddressBody):
    """The new address, how (link: they confirm it; now: at once, without their word) and why."""

    how = serializers.ChoiceField(_HOW, required=False, default="link")
    reason = serializers.CharField(max_length=MAX_REASON)


def _show(viewer: User) -> dict[str, Any]:
    change = open_change_of(viewer, viewer)
    waiting = WaitingAddress(change).data if change else None
    # As it is by now, whatever was read with the caller.
    return {"email": viewer.email, "decided_by": decided_by(viewer), "waiting": waiting}


def _take_letter(person: User, to: str) -> None:
    if wait_s := limits.letter_wait_s(person.pk, to):
        raise too_fast(wait_s)


class OwnAddress(ApiView):
    """`/me/address/`."""

    @operation(
        "address_read",
        "Your mail address, and one that waits to be confirmed",
        scope="people:read",
        reply=AddressShape,
    )
    def get(self, request: Request) -> Response:
        return Response(_show(viewer_of(request)))

    @operation(
        "address_ask",
        "Ask for another mail address; it counts once the link that goes there is followed",
        scope=None,
        body=AddressBody,
        reply=AddressShape,
    )
    def post(self, request: Request) -> Response:
        actor, sent = viewer_of(request), body_of(request, AddressBody)
        _take_letter(actor, sent["email"])
        ask_address(actor=actor, **sent)
        return Response(_show(actor))

    @operation(
        "address_cancel",
        "Keep the mail address: the one that waits is forgotten",
        scope="people:write",
        reply=AddressShape,
    )
    def delete(self, request: Request) -> Response:
        actor = viewer_of(request)
        cancel_address(actor=actor)
        return Response(_show(actor))


class OwnAddressAgain(ApiView):
    """`/me/address/again/`."""

    @operation(
        "address_again",
        "Send the link again to the mail address that waits; the one of before is good no more",
        scope="people:write",
        reply=AddressShape,
    )
    def post(self, request: Request) -> Response:
        actor = viewer_of(request)
        if waits := open_change_of(actor, actor):
            _take_letter(actor, waits.new_email)
        send_address_link(actor=actor)
        return Response(_show(actor))


class PersonAddress(ApiView):
    """`/users/<username>/address/`."""

    @operation(
        "users_address",
        "Ask for another mail address for somebody, or set it at once (administrators)",
        scope=None,
        body=OthersAddressBody,
        reply=PersonShape,
    )
    def post(self, request: Request, username: str) -> Response:
        actor = viewer_of(request)
        person = get_somebody(actor, username)
        sent = dict(body_of(request, OthersAddressBody))
        _take_letter(actor, sent["email"])
        is_now = sent.pop("how") == "now"
        change = cast(Any, set_address if is_now else ask_address_for)
        change(actor=actor, user=person, **sent)
        return Response(show_person(get_somebody(actor, username)))

    @operation(
        "users_address_cancel",
        "Keep somebody's mail address: the one that waits is forgotten (administrators)",
        scope="people:write",
        reply=PersonShape,
    )
    def delete(self, request: Request, username: str) -> Response:
        actor = viewer_of(request)
        cancel_address(actor=actor, user=get_somebody(actor, username))
        return Response(show_person(get_somebody(actor, username)))


address_urls = [
    path("me/address/", OwnAddress.as_view(), name="own_address"),
    path("me/address/again/", OwnAddressAgain.as_view(), name="own_address_again"),
    path("users/<str:username>/address/", PersonAddress.as_view(), name="person_address"),
]
