"""`/rules/budgets/`: budgets of GPU-hours or money."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.operations import ApiView, body_of, operation
from portal.api.parts import PART_QUERY, Part, part_of
from portal.api.shapes import viewer_of
from scheduler.models import AlertAction, Enforcement, Threshold
from scheduler.selectors import sharing as select
from scheduler.selectors.sharing.budgets import (
    BudgetView,
    budget_views,
    budgets_for,
    views_of,
)
from scheduler.services.sharing.budgets import BudgetRules, remove_budget, set_budget
from scheduler.services.sharing.keeping.rules import usual_commit

_SUM: dict[str, Any] = {"max_digits": 30, "decimal_places": 10}


class BudgetAlertShape(serializers.Serializer[Any]):
    """A threshold that was reached, once for this version of the budget."""

    threshold = serializers.CharField()
    at = serializers.DateTimeField()


class BudgetShape(serializers.Serializer[Any]):
    """A budget in GPU-seconds (`gpu_seconds`) or in money (`amount`, `currency`), as one is null.

    Committed by what runs at its worst, and by what waits (`waiting`, a part of `committed`) where
    it commits at the submit, spent by what has ended, used by both so far: `used_percent` of the
    limit, and `over` it, 0 for not. `out_on`: the day on which it is used up if each day takes what
    its weekday took on average in the last four weeks, null for none that is foreseen. `version`
    goes into the next change.
    """

    id = serializers.IntegerField()
    owner = serializers.CharField(allow_blank=True)
    version = serializers.IntegerField()
    gpu_seconds = serializers.IntegerField(allow_null=True)
    committed_s = serializers.IntegerField()
    waiting_s = serializers.IntegerField()
    spent_s = serializers.IntegerField()
    used_s = serializers.IntegerField()
    over_s = serializers.IntegerField()
    amount = serializers.DecimalField(**_SUM, allow_null=True)
    committed = serializers.DecimalField(**_SUM, allow_null=True)
    waiting = serializers.DecimalField(**_SUM, allow_null=True)
    spent = serializers.DecimalField(**_SUM, allow_null=True)
    used = serializers.DecimalField(**_SUM, allow_null=True)
    over = serializers.DecimalField(**_SUM, allow_null=True)
    currency = serializers.CharField(allow_blank=True)
    used_percent = serializers.IntegerField()
    out_on = serializers.DateField(allow_null=True)
    valid_from = serializers.DateTimeField()
    valid_until = serializers.DateTimeField()
    enforcement = serializers.CharField()
    commits_at = serializers.CharField()
    grace_s = serializers.IntegerField()
    carry_percent = serializers.IntegerField()
    renewal = serializers.CharField(allow_blank=True)
    action = serializers.CharField()
    action_at = serializers.CharField()
    spent_out_at = serializers.DateTimeField(allow_null=True)
    alerts = BudgetAlertShape(many=True)


class Budgets(Part):
    """Budgets you may see."""

    items = BudgetShape(many=True)


class BudgetBody(serializers.Serializer[Any]):
    """GPU-hours or an amount of money for a period; replaces the budget of just this period.

    `commits_at`: left out, the submit if it reserves. `version`: of the budget you read, 0 for
    none; another one meanwhile is a 409.
    """

    owner = serializers.CharField(max_length=130, allow_blank=True)
    gpu_hours = serializers.IntegerField(required=False, allow_null=True, default=None)
    amount = serializers.DecimalField(
        max_digits=40, decimal_places=20, required=False, allow_null=True, default=None
    )
    valid_from = serializers.DateTimeField()
    valid_until = serializers.DateTimeField()
    enforcement = serializers.CharField(max_length=16, required=False, default=Enforcement.RESERVE)
    commits_at = serializers.CharField(max_length=16, required=False, allow_blank=True, default="")
    grace_s = serializers.IntegerField(required=False, default=600)
    carry_percent = serializers.IntegerField(required=False, default=0)
    renewal = serializers.CharField(max_length=16, required=False, allow_blank=True, default="")
    action = serializers.CharField(max_length=16, required=False, default=AlertAction.NOTIFY)
    action_at = serializers.CharField(max_length=16, required=False, default=Threshold.ALL)
    version = serializers.IntegerField(required=False, allow_null=True, default=None)


class BudgetVersion(serializers.Serializer[Any]):
    """The version that was read."""

    version = serializers.IntegerField(required=False, allow_null=True, default=None)


class BudgetList(ApiView):
    """`/rules/budgets/`."""

    @operation(
        "budgets_list",
        "Budgets of GPU-hours and money",
        scope="jobs:read",
        query=PART_QUERY,
        reply=Budgets,
    )
    def get(self, request: Request) -> Response:
        now = timezone.now()
        return Response(
            part_of(
                request,
                budgets_for(viewer_of(request)),
                lambda found: [_show(view) for view in views_of(found, now=now)],
            )
        )

    @operation(
        "budgets_set",
        "Set a budget (operators; money: those who keep the books; leads for their projects)",
        scope="nodes:write",
        body=BudgetBody,
        reply=BudgetShape,
    )
    def post(self, request: Request) -> Response:
        sent, actor = body_of(request, BudgetBody), viewer_of(request)
        sent["owner"] = select.get_visible_owner(actor, sent["owner"])
        sent["commits_at"] = sent["commits_at"] or usual_commit(sent["enforcement"])
        rules = BudgetRules(**{name: sent.pop(name) for name in BudgetRules.__dataclass_fields__})
        budget = set_budget(actor=actor, rules=rules, **sent)
        (view,) = budget_views(actor, now=timezone.now(), only=[budget.pk])
        return Response(_show(view))


class BudgetRemove(ApiView):
    """`/rules/budgets/<id>/remove/`."""

    @operation(
        "budgets_remove",
        "Remove a budget (who may set it)",
        scope="nodes:write",
        body=BudgetVersion,
        status=204,
    )
    def post(self, request: Request, pk: int) -> Response:
        sent, actor = body_of(request, BudgetVersion), viewer_of(request)
        budget = select.get_visible_budget(actor, min(pk, 2**63 - 1))
        remove_budget(actor=actor, budget=budget, version=sent["version"])
        return Response(status=204)


def _show(view: BudgetView) -> dict[str, Any]:
    budget = view.budget
    names = (
        "version gpu_seconds committed_s spent_s currency valid_from valid_until enforcement "
        "commits_at grace_s carry_percent renewal action action_at spent_out_at"
    ).split()
    used, over = view.standing.used, max(0, view.standing.used - budget.limit)
    figures = {
        "amount": budget.limit,
        "committed": budget.committed,
        "waiting": view.standing.waiting,
        "spent": budget.spent,
        "used": used,
        "over": over,
    }
    money = {name: view.amount(it) if budget.is_money else None for name, it in figures.items()}
    alerts = [{"threshold": one.threshold, "at": one.at} for one in view.alerts]
    shown = {
        **{name: getattr(budget, name) for name in names},
        **money,
        "waiting_s": 0 if budget.is_money else view.standing.waiting,
        "used_s": 0 if budget.is_money else used,
        "over_s": 0 if budget.is_money else over,
        "id": budget.pk,
        "owner": select.owner_path(budget),
        "used_percent": view.used_percent,
        "out_on": view.out_on,
        "alerts": alerts,
    }
    return dict(BudgetShape(shown).data)
