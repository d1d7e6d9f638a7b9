"""What was agreed becomes a grant, or part of a budget, in the transaction of the decision."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from django.db import transaction
from django.db.models import F

from accounts.models import User
from scheduler import events
from scheduler.conf import load_conf
from scheduler.models import Budget, Grant, Quota, QuotaRequest, SchedulerLease
from scheduler.money import from_steps, steps_of
from scheduler.services.errors import Conflict
from scheduler.services.requesting.amounts import (
    FIELD_OF,
    S_PER_HOUR,
    budget_at,
    limits_now,
    quota_for,
)
from scheduler.services.requesting.rights import owner_of
from scheduler.services.requesting.timeline import link_to, mail, note, title_of
from scheduler.services.sharing.grants import give_grant
from scheduler.services.sharing.guard import counts_now
from scheduler.services.sharing.tree import account_of
from scheduler.states import Outcome, RequestKind


def carry_out(
    request: QuotaRequest,
    *,
    actor: User,
    amount: int,
    valid_from: datetime,
    valid_until: datetime,
    now: datetime,
) -> dict[str, object]:
    """Fields of the request to store along. Raises Conflict if it cannot be granted any more."""
    start = max(now, valid_from)
    if valid_until <= start:
        raise Conflict("Its time is over; ask back for another one.", code="time_is_over")
    if request.kind == RequestKind.BUDGET:
        return {"budget": _add_hours(request, amount, start)}
    if request.kind == RequestKind.MONEY:
        budget = _add_money(request, amount, start)
        return {
            "budget": budget,
            "returns_at": valid_until if valid_until < budget.valid_until else None,
        }
    grant = _grant(request, actor, amount, start, valid_until, now)
    return {"granted": grant}


def _add_hours(request: QuotaRequest, hours: int, start: datetime) -> Budget:
    budget = budget_at(owner_of(request), start)
    if budget is None:
        raise Conflict("There is no budget any more that this could be added to.", code="no_limit")
    # Another version: its alerts go off anew, and a hard stop is looked at anew.
    Budget.objects.filter(pk=budget.pk).update(
        gpu_seconds=F("gpu_seconds") + hours * S_PER_HOUR,
        version=F("version") + 1,
        spent_out_at=None,
        looked_at=None,
    )
    events.wake_scheduler_on_commit()
    return budget


def _add_money(request: QuotaRequest, amount: int, start: datetime) -> Budget:
    budget = budget_at(owner_of(request), start, is_money=True)
    if budget is None or budget.currency != load_conf().currency:
        raise Conflict("There is no budget any more that this could be added to.", code="no_limit")
    more = steps_of(Decimal(amount))
    Budget.objects.filter(pk=budget.pk).update(
        money=F("money") + more, version=F("version") + 1, spent_out_at=None, looked_at=None
    )
    events.wake_scheduler_on_commit()
    return budget


@transaction.atomic
def take_money_back(request_id: int, *, now: datetime) -> bool:
    """What is neither used nor committed of money that was granted for a time, once it is over."""
    request = (
        QuotaRequest.objects.select_for_update(of=("self",))
        .select_related("team", "project__team")
        .get(pk=request_id)
    )
    if request.returns_at is None or request.returns_at > now:
        return False
    budget = None
    if request.budget_id is not None:
        budget = Budget.objects.select_for_update().filter(pk=request.budget_id).first()
    said = request.decisions.filter(outcome__in=(Outcome.APPROVE, Outcome.LESS)).last()
    assert said is not None and said.amount is not None
    back = 0
    if budget is not None and budget.money is not None:
        unused = max(0, budget.money - budget.spent - budget.committed)
        back = min(steps_of(Decimal(said.amount)), unused)
        Budget.objects.filter(pk=budget.pk).update(
            money=F("money") - back, version=F("version") + 1, looked_at=None
        )
    QuotaRequest.objects.filter(pk=request.pk).update(returns_at=None)
    currency = budget.currency if budget is not None else ""
    words = f"{from_steps(back):.2f} {currency} were not used and are taken back"
    note(request, "returned", actor=None, now=now, text=words)
    mail(
        [request.asked_by_id],
        key=f"request:{request.pk}:returned",
        subject=f"{request}: {title_of(request)} has come to its end",
        text=f"{words}.\n\n{link_to(request)}\n",
        now=now,
    )
    return True


def _grant(
    request: QuotaRequest,
    actor: User,
    amount: int,
    start: datetime,
    valid_until: datetime,
    now: datetime,
) -> Grant:
    kind = RequestKind(request.kind)
    quota = _quota(request, kind)
    added = {FIELD_OF[kind]: amount}
    limits = limits_now(quota, now=now)
    assert limits is not None
    if kind is RequestKind.GUARANTEED and limits.maximum is not None:
        # A guarantee that the maximum cuts off would be none.
        room = limits.maximum - limits.guaranteed
        added["maximum"] = max(0, amount - room)
    return give_grant(
        actor=actor,
        quota=quota,
        valid_from=start,
        valid_until=valid_until,
        reason=f"{request}: {request.kind}",
        now=now,
        **added,
    )


def _quota(request: QuotaRequest, kind: RequestKind) -> Quota:
    """The row to grant on; a first guarantee begins from one that limits nothing."""
    owner = owner_of(request)
    quota = quota_for(owner, request.pool, request.gpu_model)
    if quota is None and kind is RequestKind.GUARANTEED:
        list(SchedulerLease.objects.select_for_update())
        quota = Quota.objects.create(
            account=account_of(owner), pool=request.pool, gpu_model=request.gpu_model
        )
        Quota.objects.filter(pk=quota.pk).update(**counts_now(quota))
        quota.refresh_from_db()
    if quota is None or (
        kind is not RequestKind.GUARANTEED and getattr(quota, FIELD_OF[kind]) is None
    ):
        raise Conflict(
            "The limit that this would add to has been taken away; there is nothing to grant.",
            code="no_limit",
        )
    return quota
