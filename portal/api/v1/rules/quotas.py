"""`/rules/quotas/` and `/rules/grants/`."""

from __future__ import annotations

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.operations import ApiView, body_of, operation
from portal.api.parts import PART_QUERY, part_of
from portal.api.shapes import viewer_of
from portal.api.v1.rules.shapes import (
    GrantBody,
    GrantShape,
    QuotaBody,
    Quotas,
    QuotaShape,
    show_grant,
    show_quota,
)
from scheduler.selectors import sharing as select
from scheduler.selectors.cluster import get_visible_pool
from scheduler.services.errors import NotFound
from scheduler.services.requesting.ending import remove_and_tell, revoke_and_tell
from scheduler.services.sharing.grants import add_grant
from scheduler.services.sharing.limits import set_quota


class QuotaList(ApiView):
    """`/rules/quotas/`."""

    @operation(
        "quotas_list",
        "What accounts may hold",
        scope="jobs:read",
        query=PART_QUERY,
        reply=Quotas,
    )
    def get(self, request: Request) -> Response:
        quotas = select.visible_quotas(viewer_of(request))
        return Response(part_of(request, quotas, lambda found: [show_quota(one) for one in found]))

    @operation(
        "quotas_set",
        "Set what an account may hold (operators)",
        scope="nodes:write",
        body=QuotaBody,
        reply=QuotaShape,
    )
    def post(self, request: Request) -> Response:
        sent, actor = body_of(request, QuotaBody), viewer_of(request)
        try:
            sent["pool"] = get_visible_pool(actor, sent["pool"]) if sent["pool"] else None
        except NotFound:
            raise serializers.ValidationError({"pool": ["there is no such pool"]}) from None
        sent["owner"] = select.get_visible_owner(actor, sent["owner"])
        return Response(show_quota(set_quota(actor=actor, **sent)))


class QuotaByNumber(ApiView):
    """`/rules/quotas/<id>/`."""

    @operation("quotas_remove", "Remove a quota (operators)", scope="nodes:write", status=204)
    def delete(self, request: Request, pk: int) -> Response:
        actor = viewer_of(request)
        quota = select.get_visible_quota(actor, min(pk, 2**63 - 1))
        remove_and_tell(actor=actor, quota_id=quota.pk)
        return Response(status=204)


class QuotaGrants(ApiView):
    """`/rules/quotas/<id>/grants/`."""

    @operation(
        "grants_add",
        "Add GPUs to a quota for a time (operators)",
        scope="nodes:write",
        body=GrantBody,
        reply=GrantShape,
        status=201,
    )
    def post(self, request: Request, pk: int) -> Response:
        sent, actor = body_of(request, GrantBody), viewer_of(request)
        quota = select.get_visible_quota(actor, min(pk, 2**63 - 1))
        return Response(show_grant(add_grant(actor=actor, quota=quota, **sent)), status=201)


class GrantRevoke(ApiView):
    """`/rules/grants/<id>/revoke/`."""

    @operation("grants_revoke", "Revoke a grant (operators)", scope="nodes:write", reply=GrantShape)
    def post(self, request: Request, pk: int) -> Response:
        body_of(request)
        grant = revoke_and_tell(actor=viewer_of(request), grant_id=min(pk, 2**63 - 1))
        return Response(show_grant(grant))
