"""Months of the books and amounts by hand: looked at, closed, corrected, posted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.selectors import get_visible_project
from portal.api.operations import ApiView, body_of, operation
from portal.api.parts import PART_QUERY, Part, part_of
from portal.api.shapes import viewer_of
from portal.api.v1.finance.countings import CountingShape
from portal.api.v1.finance.deciding import decided
from scheduler.models import CountingAct
from scheduler.selectors.books.desk import (
    MonthDesk,
    adjustments_for,
    get_adjustment,
    month_desks,
    month_names,
)
from scheduler.services import books
from scheduler.services.books.posting import require_bookkeeper, stamp_of
from scheduler.services.errors import NotFound

_AMOUNT: dict[str, Any] = {"max_digits": 38, "decimal_places": 15}


class CloseShape(serializers.Serializer[Any]):
    """One version of a closed month; `head_hash` is the chain's after it."""

    version = serializers.IntegerField()
    closed_at = serializers.DateTimeField(source="at")
    closed_by = serializers.CharField(source="by")
    control = serializers.DecimalField(**_AMOUNT)
    lines = serializers.IntegerField()
    head_number = serializers.IntegerField()
    head_hash = serializers.CharField()


class MonthShape(serializers.Serializer[Any]):
    """A month, its closes from the latest on; `seen` is what a decision on it was made upon.

    `counting`: what was asked for in the background and waits, or ended within a day.
    """

    month = serializers.CharField(source="period.name")
    state = serializers.CharField(source="period.state")
    version = serializers.IntegerField(source="period.version")
    currency = serializers.CharField(source="period.currency")
    charging = serializers.CharField(source="period.charging")
    is_over = serializers.BooleanField()
    seen = serializers.SerializerMethodField()
    closes = CloseShape(many=True)
    counting = CountingShape(allow_null=True)

    def get_seen(self, desk: MonthDesk) -> str:
        """State, version and who proposed to reopen it, as one word."""
        return stamp_of(desk.period)


class Months(Part):
    """The latest first."""

    items = MonthShape(many=True)


class MonthBody(serializers.Serializer[Any]):
    """`seen`: of the month as it was looked at; if it has changed since, the answer is 409."""

    seen = serializers.CharField(max_length=64, required=False)


class ReasonedMonthBody(MonthBody):
    """With why it is reopened; `decline`: it stays closed, whatever was proposed."""

    reason = serializers.CharField(max_length=255, required=False)
    decline = serializers.BooleanField(required=False)


class CorrectionBody(serializers.Serializer[Any]):
    """Why a closed month is counted again."""

    reason = serializers.CharField(max_length=255)


class CorrectionShape(serializers.Serializer[Any]):
    """How many entries the correction took, in the month that is open."""

    month = serializers.CharField()
    entries = serializers.IntegerField()


class AdjustmentShape(serializers.Serializer[Any]):
    """Positive amounts are owed by the project, negative ones to it. `entry`: once it is posted."""

    id = serializers.IntegerField()
    project = serializers.CharField(source="project.path")
    amount = serializers.DecimalField(**_AMOUNT)
    currency = serializers.CharField()
    reason = serializers.CharField()
    proposed_by = serializers.CharField(
        source="proposed_by.username", default=None, allow_null=True
    )
    proposed_at = serializers.DateTimeField()
    decided_by = serializers.CharField(source="decided_by.username", default=None, allow_null=True)
    decided_at = serializers.DateTimeField(allow_null=True)
    entry = serializers.IntegerField(source="entry.number", default=None, allow_null=True)


class Adjustments(Part):
    """Those that wait first, then the latest."""

    items = AdjustmentShape(many=True)


class AdjustmentBody(serializers.Serializer[Any]):
    """An amount in the currency of the books, with a point before its decimals."""

    project = serializers.CharField(max_length=130)
    amount = serializers.DecimalField(**_AMOUNT)
    reason = serializers.CharField(max_length=255)


_BEHIND = {202: MonthShape}


def _acted(
    request: Request,
    month: str,
    act: Callable[..., Any],
    body: type[serializers.Serializer[Any]],
    behind: CountingAct | None = None,
) -> Response:
    """Do it, or have it done, and show the month as it is now."""
    asked = {"actor": viewer_of(request), "period": month, **body_of(request, body)}
    if behind is None or books.count_behind(act=behind, **asked) is None:
        act(**asked)
        behind = None
    return _shown(request, month, status=202 if behind else 200)


def _shown(request: Request, month: str, *, status: int) -> Response:
    viewer, now = viewer_of(request), timezone.now()
    if month not in month_names(viewer, now=now):
        raise NotFound("There are no books for this month.")
    [desk] = month_desks(viewer, [month], now=now)
    return Response(MonthShape(desk).data, status=status)


class MonthList(ApiView):
    """`/finance/periods/`."""

    @operation(
        "periods_list",
        "Months of the books",
        scope="costs:read",
        query=PART_QUERY,
        reply=Months,
    )
    def get(self, request: Request) -> Response:
        viewer, now = viewer_of(request), timezone.now()
        names = month_names(viewer, now=now)
        part = part_of(
            request, names, lambda found: month_desks(viewer, found, now=now), key=lambda name: name
        )
        return Response(Months(part).data)


class MonthSoftClose(ApiView):
    """`/finance/periods/<month>/soft-close/`."""

    @operation(
        "periods_soft_close",
        "Let nobody post by hand in a month any more (bookkeepers)",
        scope=None,
        body=MonthBody,
        reply=MonthShape,
        replies=_BEHIND,
    )
    def post(self, request: Request, month: str) -> Response:
        """Of a large month budgets are counted in the background: 202, as for a close."""
        return _acted(request, month, books.soft_close_period, MonthBody, CountingAct.SOFT_CLOSE)


class MonthClose(ApiView):
    """`/finance/periods/<month>/close/`."""

    @operation(
        "periods_close",
        "Close a month (bookkeepers); 409 with findings where something is in the way",
        scope=None,
        body=MonthBody,
        reply=MonthShape,
        replies=_BEHIND,
    )
    def post(self, request: Request, month: str) -> Response:
        """A large month is counted in the background: 202, and `counting` says what came of it."""
        return _acted(request, month, books.close_period, MonthBody, CountingAct.CLOSE)


class MonthReopen(ApiView):
    """`/finance/periods/<month>/reopen/`."""

    @operation(
        "periods_reopen",
        "Propose to reopen a closed month, agree to what another proposed or decline (bookkeepers)",
        scope=None,
        body=ReasonedMonthBody,
        reply=MonthShape,
    )
    def post(self, request: Request, month: str) -> Response:
        return _acted(request, month, books.reopen_period, ReasonedMonthBody)


class MonthCorrect(ApiView):
    """`/finance/periods/<month>/correct/`."""

    @operation(
        "periods_correct",
        "Post what was learnt about a closed month into an open one (bookkeepers)",
        scope=None,
        body=CorrectionBody,
        reply=CorrectionShape,
        replies=_BEHIND,
    )
    def post(self, request: Request, month: str) -> Response:
        """A large month is counted in the background: 202, as for a close."""
        asked = {"actor": viewer_of(request), "period": month, **body_of(request, CorrectionBody)}
        if books.count_behind(act=CountingAct.CORRECT, **asked):
            return _shown(request, month, status=202)
        entries = books.correct_period(**asked)
        return Response({"month": month, "entries": len(entries)})


class AdjustmentList(ApiView):
    """`/finance/adjustments/`."""

    @operation(
        "adjustments_list",
        "Amounts by hand",
        scope="costs:read",
        query=PART_QUERY,
        reply=Adjustments,
    )
    def get(self, request: Request) -> Response:
        found = adjustments_for(viewer_of(request))
        return Response(Adjustments(part_of(request, found, list)).data)

    @operation(
        "adjustments_propose",
        "Propose an amount by hand (bookkeepers)",
        scope=None,
        body=AdjustmentBody,
        reply=AdjustmentShape,
        status=201,
    )
    def post(self, request: Request) -> Response:
        sent, actor = body_of(request, AdjustmentBody), viewer_of(request)
        require_bookkeeper(actor)
        try:
            project = get_visible_project(actor, sent.pop("project"))
        except NotFound:
            raise serializers.ValidationError({"project": ["there is no such project"]}) from None
        made = books.propose_adjustment(actor=actor, project=project, **sent)
        return Response(AdjustmentShape(made).data, status=201)


class AdjustmentPost(ApiView):
    """`/finance/adjustments/<id>/post/`."""

    @operation(
        "adjustments_post",
        "Post an amount that somebody else proposed",
        scope=None,
        reply=AdjustmentShape,
    )
    def post(self, request: Request, pk: int) -> Response:
        return decided(
            request, pk, get_adjustment, books.post_adjustment, AdjustmentShape, "adjustment"
        )


class AdjustmentDecline(ApiView):
    """`/finance/adjustments/<id>/decline/`."""

    @operation(
        "adjustments_decline", "Turn an amount by hand down", scope=None, reply=AdjustmentShape
    )
    def post(self, request: Request, pk: int) -> Response:
        return decided(
            request, pk, get_adjustment, books.decline_adjustment, AdjustmentShape, "adjustment"
        )
