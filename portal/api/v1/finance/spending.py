"""What pools cost: assets, other costs, what of it was recovered, and how a month charges."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.operations import ApiView, Query, body_of, operation
from portal.api.parts import PART_QUERY, part_of
from portal.api.shapes import viewer_of
from portal.api.v1.finance.deciding import decided, pool_of
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
from scheduler.selectors.books import spending as select
from scheduler.services import books


class AssetList(ApiView):
    """`/finance/assets/`."""

    @operation(
        "assets_list",
        "What was bought for pools",
        scope="costs:read",
        query=PART_QUERY,
        reply=Assets,
    )
    def get(self, request: Request) -> Response:
        found = select.assets_so_far(viewer_of(request))
        return Response(Assets(part_of(request, found, list)).data)

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
        pool = pool_of(actor, sent)
        asset = books.propose_asset(actor=actor, pool=pool, **sent)
        return Response(AssetShape(asset).data, status=201)


class AssetApprove(ApiView):
    """`/finance/assets/<id>/approve/`."""

    @operation("assets_approve", "Approve a purchase", scope=None, reply=AssetShape)
    def post(self, request: Request, pk: int) -> Response:
        return decided(request, pk, select.get_visible_asset, books.approve_spending, AssetShape)


class AssetDecline(ApiView):
    """`/finance/assets/<id>/decline/`."""

    @operation("assets_decline", "Turn a purchase down", scope=None, reply=AssetShape)
    def post(self, request: Request, pk: int) -> Response:
        return decided(request, pk, select.get_visible_asset, books.decline_spending, AssetShape)


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
        return decided(
            request,
            pk,
            select.get_visible_asset,
            books.retire_asset,
            AssetShape,
            "asset",
            body=RetireBody,
        )


class RetirementApprove(ApiView):
    """`/finance/assets/<id>/retire/approve/`."""

    @operation(
        "retirements_approve", "Agree that an asset leaves early", scope=None, reply=AssetShape
    )
    def post(self, request: Request, pk: int) -> Response:
        return decided(
            request, pk, select.get_visible_asset, books.approve_retirement, AssetShape, "asset"
        )


class RetirementDecline(ApiView):
    """`/finance/assets/<id>/retire/decline/`."""

    @operation("retirements_decline", "Keep an asset in service", scope=None, reply=AssetShape)
    def post(self, request: Request, pk: int) -> Response:
        return decided(
            request, pk, select.get_visible_asset, books.decline_retirement, AssetShape, "asset"
        )


class CostList(ApiView):
    """`/finance/costs/`."""

    @operation(
        "pool_costs_list",
        "Other costs of pools",
        scope="costs:read",
        query=PART_QUERY,
        reply=PoolCosts,
    )
    def get(self, request: Request) -> Response:
        found = select.costs_so_far(viewer_of(request))
        return Response(PoolCosts(part_of(request, found, list)).data)

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
        pool = pool_of(actor, sent)
        cost = books.propose_cost(actor=actor, pool=pool, **sent)
        return Response(CostShape(cost).data, status=201)


class CostApprove(ApiView):
    """`/finance/costs/<id>/approve/`."""

    @operation("pool_costs_approve", "Approve and book a cost", scope=None, reply=CostShape)
    def post(self, request: Request, pk: int) -> Response:
        return decided(request, pk, select.get_visible_cost, books.approve_spending, CostShape)


class CostDecline(ApiView):
    """`/finance/costs/<id>/decline/`."""

    @operation("pool_costs_decline", "Turn a cost down", scope=None, reply=CostShape)
    def post(self, request: Request, pk: int) -> Response:
        return decided(request, pk, select.get_visible_cost, books.decline_spending, CostShape)


class RecoveryByMonth(ApiView):
    """`/finance/recovery/`."""

    @operation(
        "recovery",
        "What pools cost and what was charged",
        scope="costs:read",
        query=[
            Query("month", str, "Such as 2026-11; the last closed one by default."),
            *PART_QUERY,
        ],
        reply=RecoveryRows,
    )
    def get(self, request: Request) -> Response:
        month = request.query_params.get("month", "")
        found = select.recovery(viewer_of(request), month)
        return Response(RecoveryRows(part_of(request, found, list, key=lambda row: row.pool)).data)


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
