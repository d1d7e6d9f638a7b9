"""`/channels/…`: chats that are told a person's news, or a team's; for whose they are."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.errors import NotFound
from accounts.selectors import get_visible_team
from portal.api.operations import ApiView, body_of, operation
from portal.api.pagination import PAGE_QUERY, page_of
from portal.api.parts import PART_QUERY, Part, part_of
from portal.api.shapes import viewer_of
from scheduler.models import Delivery, Webhook
from scheduler.selectors.inbox import get_visible_channel, messages_to, visible_channels
from scheduler.services.inbox import add_channel, change_channel, remove_channel, try_channel
from scheduler.services.inbox.chat.channels import CHATS

_CHATS = [str(one) for one in CHATS]


class ChannelShape(serializers.Serializer[Any]):
    """A channel by its host: its address is not told again. `team` is null for your own.

    `kinds`: the news it gets, none for all it may. Messages are counted: `sent`, still `waiting`,
    and given up (`lost`).
    """

    id = serializers.IntegerField()
    name = serializers.CharField(allow_blank=True)
    dialect = serializers.ChoiceField(_CHATS)
    host = serializers.CharField()
    team = serializers.CharField(allow_null=True)
    kinds = serializers.ListField(child=serializers.CharField())
    paused_at = serializers.DateTimeField(allow_null=True)
    created_at = serializers.DateTimeField()
    sent = serializers.IntegerField()
    waiting = serializers.IntegerField()
    lost = serializers.IntegerField()
    last_at = serializers.DateTimeField(allow_null=True)


class Channels(Part):
    """Your own, and those of teams that you manage."""

    items = ChannelShape(many=True)


class ChannelBody(serializers.Serializer[Any]):
    """`dialect` slack: Slack, Mattermost, Rocket.Chat; teams: Microsoft Teams. With `team` it gets
    what everybody in that team may read; no kinds: everything of that."""

    dialect = serializers.ChoiceField(_CHATS)
    url = serializers.CharField(max_length=500)
    team = serializers.CharField(required=False, default="", allow_blank=True, max_length=63)
    name = serializers.CharField(required=False, default="", allow_blank=True, max_length=60)
    kinds = serializers.ListField(
        child=serializers.CharField(max_length=32), required=False, default=list, max_length=100
    )


class ChannelChange(serializers.Serializer[Any]):
    """What is left out stays. Nothing that is told while it is paused is sent later."""

    name = serializers.CharField(required=False, default=None, allow_blank=True, max_length=60)
    kinds = serializers.ListField(
        child=serializers.CharField(max_length=32), required=False, default=None, max_length=100
    )
    is_paused = serializers.BooleanField(required=False, default=None, allow_null=True)


class TestedShape(serializers.Serializer[Any]):
    """Whether the message is there, what was answered (null: nothing), and what that means."""

    is_there = serializers.BooleanField()
    status = serializers.IntegerField(allow_null=True)
    said = serializers.CharField()


class MessageShape(serializers.Serializer[Any]):
    """One message on its way, of kind `several` where it holds more than one piece of news;
    `status` answered the last try, or it failed by `trouble`."""

    id = serializers.IntegerField()
    kind = serializers.CharField()
    created_at = serializers.DateTimeField()
    tries = serializers.IntegerField()
    status = serializers.IntegerField(allow_null=True)
    trouble = serializers.CharField(allow_blank=True)
    not_before = serializers.DateTimeField()
    sent_at = serializers.DateTimeField(allow_null=True)
    given_up_at = serializers.DateTimeField(allow_null=True)


class Messages(Part):
    """The newest first."""

    items = MessageShape(many=True)


def _show(channel: Webhook) -> dict[str, Any]:
    names = "name dialect host kinds paused_at created_at sent waiting lost last_at".split()
    shown = {name: getattr(channel, name) for name in names}
    team = channel.team.slug if channel.team else None
    return {"id": channel.pk, "team": team, **shown}


def _show_message(row: Delivery) -> dict[str, Any]:
    names = "kind created_at tries status trouble not_before sent_at given_up_at".split()
    return {"id": row.pk, **{name: getattr(row, name) for name in names}}


class ChannelList(ApiView):
    """`/channels/`."""

    @operation(
        "channels_list",
        "Chats that are told your news, or those of teams you manage",
        scope="people:read",
        query=PART_QUERY,
        reply=Channels,
    )
    def get(self, request: Request) -> Response:
        rows = visible_channels(viewer_of(request))
        return Response(part_of(request, rows, lambda found: [_show(one) for one in found]))

    @operation(
        "channels_add",
        "Tell a chat; its address is kept sealed",
        scope="people:write",
        body=ChannelBody,
        reply=ChannelShape,
        status=201,
    )
    def post(self, request: Request) -> Response:
        sent, actor = body_of(request, ChannelBody), viewer_of(request)
        slug = sent.pop("team")
        try:
            team = get_visible_team(actor, slug) if slug else None
        except NotFound:
            raise serializers.ValidationError({"team": ["there is no such team"]}) from None
        made = add_channel(actor=actor, team=team, **sent)
        return Response(_show(get_visible_channel(actor, made.pk)), status=201)


class ChannelByNumber(ApiView):
    """`/channels/<id>/`."""

    @operation(
        "channels_change",
        "Call it otherwise, tell it of other things, pause it or let it go on",
        scope="people:write",
        body=ChannelChange,
        reply=ChannelShape,
    )
    def post(self, request: Request, pk: int) -> Response:
        actor = viewer_of(request)
        channel = get_visible_channel(actor, pk)
        change_channel(actor=actor, channel=channel, **body_of(request, ChannelChange))
        return Response(_show(get_visible_channel(actor, pk)))

    @operation(
        "channels_remove",
        "Forget it, its address and its messages",
        scope="people:write",
        status=204,
    )
    def delete(self, request: Request, pk: int) -> Response:
        actor = viewer_of(request)
        remove_channel(actor=actor, channel=get_visible_channel(actor, pk))
        return Response(status=204)


class ChannelTest(ApiView):
    """`/channels/<id>/test/`."""

    @operation(
        "channels_test",
        "Send a test now, and tell what was answered; within ten seconds",
        scope="people:write",
        reply=TestedShape,
    )
    def post(self, request: Request, pk: int) -> Response:
        actor = viewer_of(request)
        channel = get_visible_channel(actor, pk)
        body_of(request)
        found = try_channel(actor=actor, channel=channel)
        shown = {"is_there": found.is_there, "status": found.status, "said": found.said}
        return Response(shown)


class ChannelMessages(ApiView):
    """`/channels/<id>/messages/`."""

    @operation(
        "channels_messages",
        "What became of the latest messages to it",
        scope="people:read",
        query=PAGE_QUERY,
        reply=Messages,
    )
    def get(self, request: Request, pk: int) -> Response:
        viewer = viewer_of(request)
        rows = messages_to(viewer, get_visible_channel(viewer, pk), now=timezone.now())
        return Response(page_of(request, rows, lambda found: [_show_message(row) for row in found]))
