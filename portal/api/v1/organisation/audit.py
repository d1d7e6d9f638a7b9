"""`/audit/`: who changed what."""

from __future__ import annotations

import json
from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.models import AuditEvent
from accounts.trail import page_of_events, seal_state, sees_addresses
from portal.api.errors import BadRequest
from portal.api.operations import ApiView, Query, operation, whole
from portal.api.shapes import viewer_of
from portal.forms.audit import ORDERS, parse_audit_query

MAX_LIMIT = 500


class AuditEventShape(serializers.Serializer[Any]):
    """One change; `actor` is null for the system. `ip` and `user_agent`, what the caller's program
    said it was, are for auditors and administrators.
    """

    id = serializers.IntegerField()
    at = serializers.DateTimeField()
    actor = serializers.CharField(allow_null=True)
    on_behalf_of = serializers.CharField(allow_null=True)
    action = serializers.CharField()
    object_kind = serializers.CharField()
    object_id = serializers.CharField(allow_blank=True)
    object = serializers.CharField(allow_blank=True)
    before = serializers.DictField(allow_null=True)
    after = serializers.DictField(allow_null=True)
    reason = serializers.CharField(allow_blank=True)
    request_id = serializers.CharField(allow_blank=True)
    ip = serializers.CharField(allow_null=True)
    user_agent = serializers.CharField(allow_null=True)
    is_sealed = serializers.BooleanField()


class AuditSealShape(serializers.Serializer[Any]):
    """How far the chain over the events reaches; `head` is the hash of its last seal."""

    seals = serializers.IntegerField()
    head = serializers.CharField(allow_blank=True)
    sealed_at = serializers.DateTimeField(allow_null=True)
    until_id = serializers.IntegerField()
    waiting = serializers.IntegerField()


class AuditEvents(serializers.Serializer[Any]):
    """A page of events, newest first; `next_after` is null at the end."""

    items = AuditEventShape(many=True)
    next_after = serializers.CharField(allow_null=True)
    seal = AuditSealShape()


def _show(event: AuditEvent, sealed_until: int, shows_ip: bool) -> dict[str, Any]:
    return {
        "id": event.pk,
        "at": event.at,
        "actor": event.actor_name or None,
        "on_behalf_of": event.on_behalf_of_name or None,
        "action": event.action,
        "object_kind": event.subject_kind,
        "object_id": event.subject_id,
        "object": event.subject_label,
        "before": json.loads(event.before) if event.before else None,
        "after": json.loads(event.after) if event.after else None,
        "reason": event.reason,
        "request_id": event.request_id,
        "ip": event.ip if shows_ip else None,
        "user_agent": event.user_agent if shows_ip else None,
        "is_sealed": event.pk <= sealed_until,
    }


class AuditList(ApiView):
    """`/audit/`."""

    @operation(
        "audit_list",
        "Who changed what (auditors and administrators; operators and leads see their part)",
        scope="audit:read",
        query=(
            Query("actor", str, "User name of who acted, or for whom."),
            Query("action", str, "A whole action such as team.rename, or its noun."),
            Query("object", str, "A kind, kind:id, or part of a name."),
            Query("text", str, "Part of a name, reason or value."),
            Query("from", str, "First day, UTC."),
            Query("to", str, "Last day, UTC."),
            Query("sort", str, "-at for the newest first, at for the oldest.", ORDERS),
            Query("after", str, "Where to go on: next_after of the page before."),
            Query("limit", int, f"How many, 1 to {MAX_LIMIT}; 50 without."),
        ),
        reply=AuditEvents,
    )
    def get(self, request: Request) -> Response:
        query, viewer = parse_audit_query(request.query_params), viewer_of(request)
        if query.problems:
            raise BadRequest(
                "The query parameters are not right.",
                code="bad_query",
                errors=list(query.problems.items()),
            )
        limit = whole(request, "limit", 50, low=1, high=MAX_LIMIT)
        found, following = page_of_events(
            viewer,
            query.wanted,
            after=query.after,
            size=limit,
            oldest_first=query.oldest_first,
        )
        state, shows_ip = seal_state(), sees_addresses(viewer)
        items = [_show(event, state.until_id, shows_ip) for event in found]
        seal = {str(name): getattr(state, str(name)) for name in AuditSealShape().fields}
        reply = {"items": items, "next_after": str(following) if following else None, "seal": seal}
        return Response(reply)
