"""`/webhooks/…`: programs that are told what people are told, and what became of deliveries.

For administrators; to everybody else there is no such thing.
"""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.operations import ApiView, Query, body_of, operation, whole
from portal.api.pagination import PAGE_QUERY, page_of
from portal.api.parts import PART_QUERY, Part, part_of
from portal.api.shapes import viewer_of
from scheduler.models import Delivery
from scheduler.selectors.inbox import (
    deliveries_of,
    get_visible_delivery,
    get_visible_webhook,
    visible_webhooks,
)
from scheduler.services.inbox import add_webhook, change_webhook, remove_webhook, send_again
from scheduler.states import NoticeKind

_KINDS = [str(kind) for kind in NoticeKind]


class WebhookShape(serializers.Serializer[Any]):
    """An address by its host, for the rest of it may be as good as a password.

    `kinds`: the news it gets, none for all. Deliveries are counted: `sent`, still `waiting`, and
    given up (`lost`).
    """

    id = serializers.IntegerField()
    host = serializers.CharField()
    kinds = serializers.ListField(child=serializers.CharField())
    paused_at = serializers.DateTimeField(allow_null=True)
    created_at = serializers.DateTimeField()
    sent = serializers.IntegerField()
    waiting = serializers.IntegerField()
    lost = serializers.IntegerField()
    last_at = serializers.DateTimeField(allow_null=True)


class MadeWebhook(WebhookShape):
    """The same with the secret that signs what is sent: shown this once."""

    secret = serializers.CharField()


class Webhooks(Part):
    """All webhooks, by address."""

    items = WebhookShape(many=True)


class WebhookBody(serializers.Serializer[Any]):
    """Where to, and what of; no kinds: everything."""

    url = serializers.CharField(max_length=500)
    kinds = serializers.ListField(
        child=serializers.CharField(max_length=32), required=False, default=list, max_length=100
    )


class WebhookChange(serializers.Serializer[Any]):
    """What is left out stays. Nothing that is told while it is paused is sent later."""

    kinds = serializers.ListField(
        child=serializers.CharField(max_length=32), required=False, default=None, max_length=100
    )
    is_paused = serializers.BooleanField(required=False, default=None, allow_null=True)


class DeliveryShape(serializers.Serializer[Any]):
    """One piece of news on its way; `status` answered the last try, or it failed by `trouble`. What
    is for a webhook that `is_paused` goes out once that is resumed."""

    id = serializers.IntegerField()
    webhook = serializers.IntegerField()
    host = serializers.CharField()
    kind = serializers.ChoiceField(_KINDS)
    created_at = serializers.DateTimeField()
    tries = serializers.IntegerField()
    status = serializers.IntegerField(allow_null=True)
    trouble = serializers.CharField(allow_blank=True)
    not_before = serializers.DateTimeField()
    is_paused = serializers.BooleanField()
    sent_at = serializers.DateTimeField(allow_null=True)
    given_up_at = serializers.DateTimeField(allow_null=True)


class Deliveries(Part):
    """The newest first."""

    items = DeliveryShape(many=True)


def _show(hook: Any) -> dict[str, Any]:
    names = "host kinds paused_at created_at sent waiting lost last_at".split()
    # One that was just made has no delivery yet.
    counted = {"sent": 0, "waiting": 0, "lost": 0, "last_at": None}
    return {"id": hook.pk, **{name: getattr(hook, name, counted.get(name)) for name in names}}


def _show_delivery(row: Delivery) -> dict[str, Any]:
    names = "kind created_at tries status trouble not_before sent_at given_up_at".split()
    whose: dict[str, Any] = {"id": row.pk, "webhook": row.webhook_id, "host": row.webhook.host}
    whose["is_paused"] = row.webhook.paused_at is not None
    return whose | {name: getattr(row, name) for name in names}


class WebhookList(ApiView):
    """`/webhooks/`."""

    @operation(
        "webhooks_list",
        "Programs that are told what people are told (administrators)",
        scope="people:read",
        query=PART_QUERY,
        reply=Webhooks,
    )
    def get(self, request: Request) -> Response:
        hooks = visible_webhooks(viewer_of(request))
        return Response(part_of(request, hooks, lambda found: [_show(one) for one in found]))

    @operation(
        "webhooks_add",
        "Tell a program, signed with a secret that is shown this once (administrators)",
        scope="people:write",
        body=WebhookBody,
        reply=MadeWebhook,
        status=201,
    )
    def post(self, request: Request) -> Response:
        actor = viewer_of(request)
        visible_webhooks(actor)
        hook, secret = add_webhook(actor=actor, **body_of(request, WebhookBody))
        return Response({**_show(hook), "secret": secret}, status=201)


class WebhookByNumber(ApiView):
    """`/webhooks/<id>/`."""

    @operation(
        "webhooks_change",
        "Tell it of other things, pause it or let it go on (administrators)",
        scope="people:write",
        body=WebhookChange,
        reply=WebhookShape,
    )
    def post(self, request: Request, pk: int) -> Response:
        actor = viewer_of(request)
        hook = get_visible_webhook(actor, pk)
        change_webhook(actor=actor, webhook=hook, **body_of(request, WebhookChange))
        return Response(_show(visible_webhooks(actor).get(pk=hook.pk)))

    @operation(
        "webhooks_remove",
        "Forget it, its secret and its deliveries (administrators)",
        scope="people:write",
        status=204,
    )
    def delete(self, request: Request, pk: int) -> Response:
        actor = viewer_of(request)
        remove_webhook(actor=actor, webhook=get_visible_webhook(actor, pk))
        return Response(status=204)


class DeliveryList(ApiView):
    """`/webhooks/deliveries/`."""

    @operation(
        "webhooks_deliveries",
        "What became of the latest deliveries (administrators)",
        scope="people:read",
        query=[Query("webhook", int, "Of this one alone."), *PAGE_QUERY],
        reply=Deliveries,
    )
    def get(self, request: Request) -> Response:
        viewer = viewer_of(request)
        pk = whole(request, "webhook", 0, low=0, high=2**63 - 1)
        hook = get_visible_webhook(viewer, pk) if pk else None
        rows = deliveries_of(viewer, now=timezone.now(), webhook=hook)
        return Response(
            page_of(request, rows, lambda found: [_show_delivery(row) for row in found])
        )


class DeliveryAgain(ApiView):
    """`/webhooks/deliveries/<id>/again/`."""

    @operation(
        "webhooks_send_again",
        "Try one anew, whatever became of it (administrators)",
        scope="people:write",
        reply=DeliveryShape,
    )
    def post(self, request: Request, pk: int) -> Response:
        actor = viewer_of(request)
        row = get_visible_delivery(actor, pk)
        body_of(request)
        row = send_again(actor=actor, delivery=row)
        return Response(_show_delivery(row))
