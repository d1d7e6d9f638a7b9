"""`/requests/policies/`: who decides on which requests, and how soon."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.operations import ApiView, body_of, operation
from portal.api.shapes import viewer_of
from scheduler.models import RequestPolicy
from scheduler.selectors.requesting.rules import HeldRule, desk_of_rules
from scheduler.services.requesting import policies

_WRITE = "requests:write"


class RequestPolicyShape(serializers.Serializer[Any]):
    """Who decides and how soon, from now on; an empty kind is any. `auto_up_to`: so much of this
    kind needs nobody where a lead alone could agree; null for none."""

    kind = serializers.CharField(max_length=16, required=False, default="", allow_blank=True)
    money_limit = serializers.DecimalField(
        max_digits=20, decimal_places=6, required=False, allow_null=True, default=None
    )
    always_admin = serializers.BooleanField(required=False, default=False)
    sla_hours = serializers.IntegerField(required=False, default=48)
    most_days = serializers.IntegerField(required=False, default=365)
    auto_up_to = serializers.IntegerField(required=False, allow_null=True, default=None)


class HeldPolicy(RequestPolicyShape):
    """What holds for a kind. `rule`: its `own`, that for `any` kind, or `usual` (then `policy` is
    null). `means` is the same in words; `decided` requests of the last 30 days were decided on
    under it, `latest` names the last of them."""

    policy = serializers.IntegerField(allow_null=True)
    rule = serializers.CharField()
    means = serializers.ListField(child=serializers.CharField())
    set_by = serializers.CharField(allow_null=True)
    set_at = serializers.DateTimeField(allow_null=True)
    decided = serializers.IntegerField()
    latest = serializers.ListField(child=serializers.IntegerField())


class PastPolicy(RequestPolicyShape):
    """A rule that was laid down, or with `is_end` the end of the rules of its kind."""

    policy = serializers.IntegerField(source="pk")
    is_end = serializers.BooleanField()
    set_by = serializers.CharField(source="created_by.username", default=None, allow_null=True)
    set_at = serializers.DateTimeField(source="created_at")


class HeldPolicies(serializers.Serializer[Any]):
    """What holds by kind, and what was laid down, newest first (at most 50)."""

    items = HeldPolicy(many=True)
    history = PastPolicy(many=True)


class EndPolicyBody(serializers.Serializer[Any]):
    """Whose rule ends; empty: the one for any kind."""

    kind = serializers.CharField(max_length=16, required=False, default="", allow_blank=True)


class RequestPolicies(ApiView):
    """`/requests/policies/`."""

    @operation(
        "request_policies_list",
        "Who decides on which requests, and how soon",
        scope="jobs:read",
        reply=HeldPolicies,
    )
    def get(self, request: Request) -> Response:
        desk = desk_of_rules(viewer_of(request), now=timezone.now())
        items = [_show(one) for one in desk.held]
        return Response({"items": items, "history": PastPolicy(desk.history, many=True).data})

    @operation(
        "request_policies_set",
        "Say who decides, and how soon (administrators)",
        scope=_WRITE,
        body=RequestPolicyShape,
        reply=RequestPolicyShape,
    )
    def post(self, request: Request) -> Response:
        sent = body_of(request, RequestPolicyShape)
        row = policies.set_request_policy(actor=viewer_of(request), **sent)
        return Response(dict(RequestPolicyShape(row).data))


class RequestPoliciesEnd(ApiView):
    """`/requests/policies/end/`."""

    @operation(
        "request_policies_end",
        "End the rule of a kind (administrators)",
        scope=_WRITE,
        body=EndPolicyBody,
        reply=PastPolicy,
    )
    def post(self, request: Request) -> Response:
        sent = body_of(request, EndPolicyBody)
        row = policies.end_request_policy(actor=viewer_of(request), **sent)
        return Response(dict(PastPolicy(row).data))


def _show(held: HeldRule) -> dict[str, Any]:
    row: RequestPolicy | None = held.routing.row
    dials = ("money_limit", "always_admin", "sla_hours", "most_days", "auto_up_to")
    found = {
        **{dial: getattr(held.routing, dial) for dial in dials},
        "kind": held.kind,
        "policy": row.pk if row else None,
        "rule": held.source,
        "means": held.words,
        "set_by": row.created_by.username if row and row.created_by else None,
        "set_at": row.created_at if row else None,
        "decided": held.decided,
        "latest": [one.pk for one in held.latest],
    }
    return dict(HeldPolicy(found).data)
