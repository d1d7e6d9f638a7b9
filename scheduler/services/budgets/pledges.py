"""Budgets that commit at the submit, while time goes by: who waits pledges, or waits for money.

A job waits without a pledge when it ran and waits again, when the period it was submitted in is
over, or when the budget was set after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from time import monotonic

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from scheduler.models import Budget, BudgetPledge, Job
from scheduler.selectors.sharing.reach import below
from scheduler.services.prices.waiting import hold_for, let_go_of
from scheduler.services.sharing.keeping.pledging import (
    PledgeRefused,
    Worst,
    give_back_rows,
    left_of,
    pledge,
    pledging,
)
from scheduler.services.sharing.tree import name_of
from scheduler.states import WAITING_JOB_STATES, JobState, WaitReason

# Jobs read in one go, the longest waiting first.
MOST = 1000
# Seconds after which a pass that did something looks at no further job: far less than the lease of
# the scheduler lasts, whose decision follows. Who pledged or was held costs the next pass no
# transaction, and one that does nothing goes on: everybody has a turn.
LONGEST = 1.0


def settle_pledges(*, now: datetime) -> int:
    """Let waiting jobs pledge what budgets in force want, in the order of their submit.

    1. What budgets keep that are over, or commit at the submit no more, is given back, and whatever
       is kept for jobs that do not wait.
    2. A job that can pledge all it lacks does; one in the line that cannot is held.
    3. Who was held for it and lacks nothing any more goes on.

    Returns how much was done; three queries if there is nothing to do.
    """
    budgets = list(pledging(now))
    stale = ~Q(budget__in=budgets) | ~Q(job__state__in=WAITING_JOB_STATES)
    done = 0
    if over := list(BudgetPledge.objects.filter(stale).order_by().values_list("pk", flat=True)):
        with transaction.atomic():
            done += give_back_rows(over)
    lacking: dict[tuple[datetime, int], list[Budget]] = {}
    for budget in budgets:
        for key in _unpledged(budget).order_by().values_list("submitted_at", "pk"):
            lacking.setdefault(key, []).append(budget)
    left, worst = {one.pk: left_of(one) for one in budgets}, Worst(now)
    order, until, settled = sorted(lacking), monotonic() + LONGEST, 0
    for key, job in _in_batches(order, worst):
        if settled and monotonic() > until:
            break
        settled += _settle(job, lacking[key], left, worst, now)
    done += settled
    return done + _let_go(budgets, now)


def _in_batches(
    order: Sequence[tuple[datetime, int]], worst: Worst
) -> Iterator[tuple[tuple[datetime, int], Job]]:
    """Each key with its job, as far as they are still there; one query for `MOST`, and
    one for what those cost so far that have a highest price."""
    for first in range(0, len(order), MOST):
        batch = order[first : first + MOST]
        jobs = Job.objects.select_related("project").in_bulk([pk for _, pk in batch])
        worst.learn(jobs.values())
        yield from ((key, jobs[key[1]]) for key in batch if key[1] in jobs)


def _unpledged(budget: Budget) -> QuerySet[Job]:
    """Waiting jobs that want GPUs below its account and have pledged nothing of it."""
    own = BudgetPledge.objects.filter(budget=budget, job=OuterRef("pk"))
    return Job.objects.filter(
        ~Exists(own),
        below(budget.account, "project"),
        state__in=WAITING_JOB_STATES,
        gpus_per_node__gt=0,
    )


def _settle(
    job: Job, missing: Sequence[Budget], left: dict[int, int], worst: Worst, now: datetime
) -> int:
    """Pledge what is missing, or hold the job; nothing is asked of the database where the budgets,
    as they were read, have too little left for one that is held already."""
    try:
        for budget in missing:
            asks = worst.of(job, budget)
            need = asks.money if budget.is_money else asks.gpu_seconds
            if need > left[budget.pk]:
                raise PledgeRefused(budget, need, is_priced=asks.whole_money is not None)
        with transaction.atomic():
            if (locked := _locked(job)) is None:
                return 0
            has = set(locked.budget_pledges.values_list("budget_id", flat=True))
            lacks = [budget for budget in missing if budget.pk not in has]
            made = pledge([locked], lacks, now=now, worst=worst)
    except PledgeRefused as refused:
        return _hold(job, refused, now) if job.state == JobState.QUEUED else 0
    for one in made:
        left[one.budget_id] -= one.money if one.budget.is_money else one.gpu_seconds
    return 1


def _locked(job: Job) -> Job | None:
    """The job under its row lock; None if it waits no more."""
    rows = Job.objects.select_for_update(of=("self",)).select_related("project", "pool")
    return rows.filter(pk=job.pk, state__in=WAITING_JOB_STATES).first()


def _hold(job: Job, refused: PledgeRefused, now: datetime) -> int:
    facts = {
        "account": name_of(refused.budget.account),
        "left": refused.left,
        "asks": refused.asks_openly,
    }
    return hold_for(job.pk, WaitReason.BUDGET_EXHAUSTED, facts, now=now)


def _let_go(budgets: Sequence[Budget], now: datetime) -> int:
    """Held for a budget, and no budget lacks their pledge any more."""
    held = Job.objects.filter(state=JobState.HELD, wait_reason=WaitReason.BUDGET_EXHAUSTED)
    for budget in budgets:
        held = held.exclude(pk__in=_unpledged(budget).order_by().values("pk"))
    ids = list(held.order_by("submitted_at", "pk").values_list("pk", flat=True))
    batches = (ids[first : first + MOST] for first in range(0, len(ids), MOST))
    return sum(let_go_of(batch, WaitReason.BUDGET_EXHAUSTED, now=now) for batch in batches)
