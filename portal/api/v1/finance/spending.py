"""What pools cost: assets, other costs, what of it was recovered, and how a month charges."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.models import User
from portal.api.operations import ApiView, Query, body_of, operation
from portal.api.shapes import viewer_of
from portal.api.v1.finance.spending_shapes import (
    AssetBody,
    Assets,
    AssetShape,
    ChargingBody,
    ChargingShape,
    CostBody,
    CostShape,
    PoolCosts,
    RecoveryRows,
    RetireBody,
)
from scheduler.models import Pool
from scheduler.selectors.books import spending as select
from scheduler.selectors.cluster import get_visible_pool
from scheduler.services import books
from scheduler.services.errors import NotFound

_MOST = 2**63 - 1


def _pool(actor: User, sent: dict[str, Any]) -> Pool:
    try:
        return get_visible_pool(actor, sent.pop("pool"))
    except NotFound:
        raise serializers.ValidationError({"pool": ["there is no such pool"]}) from None


class AssetList(ApiView):
    """`/finance/assets/`."""

    @operation("assets_list", "What was bought for pools", scope="costs:read", reply=Assets)
    def get(self, request: Request) -> Response:
        return Response(Assets({"items": select.assets_so_far(viewer_of(request))}).data)

    @operation(
        "assets_propose",
        "Propose a purchase to write off (bookkeepers)",
        scope=None,
        body=AssetBody,
        reply=AssetShape,
        status=201,
    )
    def post(self, request: Request) -> Response:
        sent, actor = body_of(request, AssetBody), viewer_of(request)
        pool = _pool(actor, sent)
        asset = books.propose_asset(actor=actor, pool=pool, **sent)
        return Response(AssetShape(asset).data, status=201)


class AssetApprove(ApiView):
    """`/finance/assets/<id>/approve/`."""

    @operation("assets_approve", "Approve a purchase", scope=None, reply=AssetShape)
    def post(self, request: Request, pk: int) -> Response:
        body_of(request)
        actor = viewer_of(request)
        asset = select.get_visible_asset(actor, min(pk, _MOST))
        return Response(AssetShape(books.approve_spending(actor=actor, row=asset)).data)


class AssetDecline(ApiView):
    """`/finance/assets/<id>/decline/`."""

    @operation("assets_decline", "Turn a purchase down", scope=None, reply=AssetShape)
    def post(self, request: Request, pk: int) -> Response:
        body_of(request)
        actor = viewer_of(request)
        asset = select.get_visible_asset(actor, min(pk, _MOST))
        return Response(AssetShape(books.decline_spending(actor=actor, row=asset)).data)


class AssetRetire(ApiView):
    """`/finance/assets/<id>/retire/`."""

    @operation(
        "assets_retire",
        "Propose to take an asset out of service before its time (bookkeepers)",
        scope=None,
        body=RetireBody,
        reply=AssetShape,
    )
    def post(self, request: Request, pk: int) -> Response:
        sent, actor = body_of(request, RetireBody), viewer_of(request)
        asset = select.get_visible_asset(actor, min(pk, _MOST))
        return Response(AssetShape(books.retire_asset(actor=actor, asset=asset, **sent)).data)


class RetirementApprove(ApiView):
    """`/finance/assets/<id>/retire/approve/`."""

    @operation(
        "retirements_approve", "Agree that an asset leaves early", scope=None, reply=AssetShape
    )
    def post(self, request: Request, pk: int) -> Response:
        body_of(request)
        actor = viewer_of(request)
        asset = select.get_visible_asset(actor, min(pk, _MOST))
        return Response(AssetShape(books.approve_retirement(actor=actor, asset=asset)).data)


class RetirementDecline(ApiView):
    """`/finance/assets/<id>/retire/decline/`."""

    @operation("retirements_decline", "Keep an asset in service", scope=None, reply=AssetShape)
    def post(self, request: Request, pk: int) -> Response:
        body_of(request)
        actor = viewer_of(request)
        asset = select.get_visible_asset(actor, min(pk, _MOST))
        return Response(AssetShape(books.decline_retirement(actor=actor, asset=asset)).data)


class CostList(ApiView):
    """`/finance/costs/`."""

    @operation("pool_costs_list", "Other costs of pools", scope="costs:read", reply=PoolCosts)
    def get(self, request: Request) -> Response:
        return Response(PoolCosts({"items": select.costs_so_far(viewer_of(request))}).data)

    @operation(
        "pool_costs_propose",
        "Propose a cost of a pool (bookkeepers)",
        scope=None,
        body=CostBody,
        reply=CostShape,
        status=201,
    )
    def post(self, request: Request) -> Response:
        sent, actor = body_of(request, CostBody), viewer_of(request)
        pool = _pool(actor, sent)
        cost = books.propose_cost(actor=actor, pool=pool, **sent)
        return Response(CostShape(cost).data, status=201)


class CostApprove(ApiView):
    """`/finance/costs/<id>/approve/`."""

    @operation("pool_costs_approve", "Approve and book a cost", scope=None, reply=CostShape)
    def post(self, request: Request, pk: int) -> Response:
        body_of(request)
        actor = viewer_of(request)
        cost = select.get_visible_cost(actor, min(pk, _MOST))
        return Response(CostShape(books.approve_spending(actor=actor, row=cost)).data)


class CostDecline(ApiView):
    """`/finance/costs/<id>/decline/`."""

    @operation("pool_costs_decline", "Turn a cost down", scope=None, reply=CostShape)
    def post(self, request: Request, pk: int) -> Response:
        body_of(request)
        actor = viewer_of(request)
        cost = select.get_visible_cost(actor, min(pk, _MOST))
        return Response(CostShape(books.decline_spending(actor=actor, row=cost)).data)


class RecoveryByMonth(ApiView):
    """`/finance/recovery/`."""

    @operation(
        "recovery",
        "What pools cost and what was charged",
        scope="costs:read",
        query=[Query("month", str, "Such as 2026-11; the last closed one by default.")],
        reply=RecoveryRows,
    )
    def get(self, request: Request) -> Response:
        month = request.query_params.get("month", "")
        return Response(RecoveryRows({"items": select.recovery(viewer_of(request), month)}).data)


class ChargingByMonth(ApiView):
    """`/finance/charging/<month>/`."""

    @operation(
        "charging_set",
        "Let a month inform or charge (bookkeepers)",
        scope=None,
        body=ChargingBody,
        reply=ChargingShape,
    )
    def post(self, request: Request, month: str) -> Response:
        sent = body_of(request, ChargingBody)
        row = books.set_charging(actor=viewer_of(request), period=month, **sent)
        return Response(ChargingShape(row).data)
