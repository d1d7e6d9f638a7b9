"""Terms of pools: who pays for what nobody used."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.operations import ApiView, body_of, operation
from portal.api.parts import PART_QUERY, Part, part_of
from portal.api.shapes import viewer_of
from portal.api.v1.finance.deciding import decided, pool_of
from scheduler.selectors.books.terms import get_visible_terms, terms_so_far
from scheduler.services import books


class TermsShape(serializers.Serializer[Any]):
    """They hold from `from_month` on once approved; the newest approved row of a month counts."""

    id = serializers.IntegerField()
    pool = serializers.CharField(source="pool.name")
    from_month = serializers.CharField()
    idle = serializers.CharField()
    platform = serializers.CharField()
    guarantee_percent = serializers.IntegerField()
    refund_s = serializers.IntegerField()
    recovery = serializers.CharField()
    unreachable = serializers.CharField()
    reason = serializers.CharField()
    decision = serializers.CharField()
    proposed_by = serializers.CharField(
        source="proposed_by.username", default=None, allow_null=True
    )
    decided_by = serializers.CharField(source="decided_by.username", default=None, allow_null=True)


class TermsRows(Part):
    """The newest first."""

    items = TermsShape(many=True)


class TermsBody(serializers.Serializer[Any]):
    """Other terms of a pool; what is left out stays as it is. Null and none differ: use `none`."""

    pool = serializers.CharField(max_length=63)
    from_month = serializers.CharField(max_length=7, required=False)
    idle = serializers.CharField(max_length=16, required=False)
    platform = serializers.CharField(max_length=16, required=False)
    guarantee_percent = serializers.IntegerField(required=False)
    refund_s = serializers.IntegerField(required=False)
    recovery = serializers.CharField(max_length=8, required=False)
    unreachable = serializers.CharField(max_length=8, required=False)
    reason = serializers.CharField(max_length=255, required=False)


class TermsList(ApiView):
    """`/finance/terms/`."""

    @operation(
        "terms_list",
        "Terms of pools",
        scope="costs:read",
        query=PART_QUERY,
        reply=TermsRows,
    )
    def get(self, request: Request) -> Response:
        found = terms_so_far(viewer_of(request))
        return Response(TermsRows(part_of(request, found, list)).data)

    @operation(
        "terms_propose",
        "Propose who pays for what nobody used (bookkeepers)",
        scope=None,
        body=TermsBody,
        reply=TermsShape,
        status=201,
    )
    def post(self, request: Request) -> Response:
        sent, actor = body_of(request, TermsBody), viewer_of(request)
        pool = pool_of(actor, sent)
        row = books.propose_terms(actor=actor, pool=pool, **sent)
        return Response(TermsShape(row).data, status=201)


class TermsApprove(ApiView):
    """`/finance/terms/<id>/approve/`."""

    @operation(
        "terms_approve", "Approve terms somebody else proposed", scope=None, reply=TermsShape
    )
    def post(self, request: Request, pk: int) -> Response:
        return decided(request, pk, get_visible_terms, books.approve_terms, TermsShape, "terms")


class TermsDecline(ApiView):
    """`/finance/terms/<id>/decline/`."""

    @operation("terms_decline", "Turn proposed terms down", scope=None, reply=TermsShape)
    def post(self, request: Request, pk: int) -> Response:
        return decided(request, pk, get_visible_terms, books.decline_terms, TermsShape, "terms")
