"""Budgets while time goes by: alerts, hard stops, and what is carried over.

Every alert is a row that exists once for a budget, its version and a threshold, so looking twice,
or from two processes, tells nobody twice.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F, Q

from scheduler import events
from scheduler.models import Attempt, Budget, BudgetAlert, Enforcement, Threshold
from scheduler.selectors.sharing.periods import to_renew
from scheduler.selectors.sharing.reckoning import Standing, foresee, standings
from scheduler.services.attempts import locked_live_attempt
from scheduler.services.budgets.renewing import renew_budget
from scheduler.services.rows.counters import room_for_more
from scheduler.services.stopping import request_stop
from scheduler.states import LIVE_ATTEMPT_STATES, AttemptState, EndReason

LOOK_EVERY = timedelta(seconds=15)
FORESEE_EVERY = timedelta(hours=1)
_PERCENT = {Threshold.HALF: 50, Threshold.MOST: 80, Threshold.ALL: 100}


def watch_budgets(*, now: datetime) -> int:
    """Look at every budget that is due; one query if none is. Returns how much was done.

    1. What each has used; thresholds it has reached become alerts.
    2. One that stops and is used up: no start from now on, and after its grace time what runs is
       asked to stop and waits again.
    3. One that is over and renews itself: the next period's begins.
    4. One that is over and carries on: so many per cent of what is left go to the next period's.
    """
    runs = Q(valid_from__lte=now, valid_until__gt=now) & (
        Q(looked_at__isnull=True) | Q(looked_at__lte=now - LOOK_EVERY)
    )
    is_over = Q(valid_until__lte=now, carry_percent__gt=0, carried_on_at__isnull=True)
    due = list(Budget.objects.filter(runs | to_renew(now) | is_over).select_related("account"))
    if not due:
        return 0
    running = [budget for budget in due if budget.valid_until > now]
    found = standings(running, now=now)
    done = sum(_look_at(budget, found[budget.pk], now) for budget in running)
    over = [budget for budget in due if budget.valid_until <= now]
    done += sum(renew_budget(one, now=now) for one in over if one.renewal)
    carrying = (one for one in over if one.carry_percent and one.carried_on_at is None)
    return done + sum(_carry_over(budget, now) for budget in carrying)


def _look_at(budget: Budget, standing: Standing, now: datetime) -> int:
    reached = [
        threshold
        for threshold, percent in _PERCENT.items()
        if standing.used * 100 >= percent * budget.limit
    ]
    fields = {"looked_at": now}
    if budget.foreseen_at is None or budget.foreseen_at <= now - FORESEE_EVERY:
        fields["foreseen_at"] = now
        if foresee(budget, standing, now=now).low >= budget.limit:
            reached.append(Threshold.FORECAST)
    Budget.objects.filter(pk=budget.pk).update(**fields)
    told = _alert(budget, reached, standing.used, now)
    if budget.enforcement != Enforcement.HARD_STOP:
        return told
    return told + _stop_hard(budget, is_spent=standing.used >= budget.limit, now=now)


def _alert(budget: Budget, reached: list[Threshold], used: int, now: datetime) -> int:
    """Rows for what was not reached before by this version; returns how many."""
    if not reached:
        return 0
    known = set(
        BudgetAlert.objects.filter(budget=budget, version=budget.version).values_list(
            "threshold", flat=True
        )
    )
    new = [
        BudgetAlert(budget=budget, version=budget.version, threshold=one, used=used, at=now)
        for one in reached
        if one not in known
    ]
    BudgetAlert.objects.bulk_create(new, ignore_conflicts=True)
    return len(new)


def _stop_hard(budget: Budget, *, is_spent: bool, now: datetime) -> int:
    row = Budget.objects.filter(pk=budget.pk, version=budget.version)
    if not is_spent:
        if budget.spent_out_at is not None and row.update(spent_out_at=None):
            events.wake_scheduler_on_commit()
        return 0
    if budget.spent_out_at is None:
        return row.update(spent_out_at=now)
    if now < budget.spent_out_at + timedelta(seconds=budget.grace_s):
        return 0
    live = Attempt.objects.filter(
        budget_holds__budget=budget,
        budget_holds__settled_at__isnull=True,
        state__in=LIVE_ATTEMPT_STATES,
    ).exclude(state=AttemptState.STOPPING)
    count = 0
    for attempt_id in live.order_by("pk").values_list("pk", flat=True):
        with transaction.atomic():
            attempt = locked_live_attempt(attempt_id)
            count += attempt is not None and request_stop(
                attempt=attempt, reason=EndReason.BUDGET_SPENT, now=now
            )
    return count


@transaction.atomic
def _carry_over(budget: Budget, now: datetime) -> int:
    """To the budget that begins when this one ends, once; without one it waits for it.

    What still runs counts as used at its worst.
    """
    following = Budget.objects.select_for_update().filter(
        account_id=budget.account_id,
        valid_from=budget.valid_until,
        money__isnull=not budget.is_money,
        currency=budget.currency,
    )
    if not following.exists():
        return 0
    once = Budget.objects.filter(pk=budget.pk, carried_on_at__isnull=True)
    if not once.update(carried_on_at=now):
        return 0
    # What was granted ends with its budget: what is used counts against the usual part first.
    left = max(0, budget.limit - budget.granted - budget.committed - budget.spent)
    left = left * budget.carry_percent // 100
    measure = "money" if budget.is_money else "gpu_seconds"
    if budget.is_money:
        left = min(left, room_for_more(following.get()))
    if left:
        following.update(
            **{measure: F(measure) + left}, carried=F("carried") + left, version=F("version") + 1
        )
        events.wake_scheduler_on_commit()
    return 1
