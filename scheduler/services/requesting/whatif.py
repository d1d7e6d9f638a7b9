"""What a decision would do to everyone: asked for, worked out by a task, kept as evidence."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from accounts.models import User
from accounts.services.audit import record
from scheduler import events
from scheduler.models import Budget, Job, Quota, QuotaRequest, WhatIf
from scheduler.money import from_steps
from scheduler.services.bookings.requested import booked_then, fit_of
from scheduler.services.errors import Invalid
from scheduler.services.requesting.amounts import S_PER_HOUR, budget_at, cost_of_asking
from scheduler.services.requesting.replaying import (
    MOST_JOBS,
    MOST_JOBS_AT_ONCE,
    USUAL_DAYS,
    Past,
    Question,
    gpus_in_service,
    replay_past,
)
from scheduler.services.requesting.rights import owner_of, require_part
from scheduler.services.sharing.effective import effective_of
from scheduler.states import REPLAYED_KINDS, RequestKind

logger = logging.getLogger(__name__)

TASK = "scheduler.tasks.simulate_requests"
# The version of what the answer means; it goes up when the same past would be answered otherwise.
ENGINE = "trainyard 0.1.0, replay 1"
# A simulation whose worker died is taken up again after this.
STUCK_AFTER = timedelta(minutes=5)


@transaction.atomic
def ask_whatif(
    *, actor: User, request: QuotaRequest, amount: int, now: datetime | None = None
) -> WhatIf:
    """The simulation for this revision and amount; a new one unless there is a fresh one.

    It waits until `simulate_at_once` or the task takes it up.
    """
    now = now or timezone.now()
    require_part(actor, request)
    asked = request.versions.get(number=request.revision)
    fresh = WhatIf.objects.filter(
        request=request,
        revision=request.revision,
        amount=amount,
        created_at__gte=now - timedelta(hours=1),
    ).exclude(progress="failed")
    found = fresh.first()
    if found is not None:
        return found
    row = WhatIf.objects.create(
        request=request,
        revision=request.revision,
        amount=amount,
        valid_until=asked.valid_until,
        all_steps=1 + len(choices(amount)),
        asked_by=actor,
        created_at=now,
    )
    record(actor, "request.simulate", request, after={"amount": amount}, now=now)
    return row


def choices(amount: int) -> tuple[int, ...]:
    """What is compared with nothing: half of it, and all."""
    return (amount,) if amount < 2 else (amount // 2, amount)


def simulate_waiting(*, now: datetime | None = None, most: int = 10) -> int:
    """Work out what waits, oldest first; how many were done. Safe when two run at once."""
    now = now or timezone.now()
    WhatIf.objects.filter(progress="running", created_at__lt=now - STUCK_AFTER).update(
        progress="waiting", done_steps=0
    )
    done = 0
    waiting = WhatIf.objects.filter(progress="waiting").order_by("id")
    for pk in list(waiting.values_list("pk", flat=True)[:most]):
        if WhatIf.objects.filter(pk=pk, progress="waiting").update(progress="running"):
            simulate(WhatIf.objects.get(pk=pk), now=now)
            done += 1
    return done


def simulate_at_once(row: WhatIf, *, now: datetime) -> WhatIf:
    """Work it out while somebody waits, if the history is short enough; else leave it to a task."""
    since = now - timedelta(days=USUAL_DAYS)
    ended = Job.objects.filter(queued_at__gte=since, started_at__isnull=False)
    if row.progress != "waiting":
        return row
    if ended.count() > MOST_JOBS_AT_ONCE:
        # Only now: a worker that was told before would take a short one from under who waits.
        events.send_on_commit(TASK)
        return row
    if not WhatIf.objects.filter(pk=row.pk, progress="waiting").update(progress="running"):
        return row
    return simulate(row, now=now)


def simulate(row: WhatIf, *, now: datetime, most_jobs: int = MOST_JOBS) -> WhatIf:
    """Replay, and store the answer with its digest; what breaks is stored as failed."""
    request = row.request
    question = Question(
        owner_of(request),
        RequestKind(request.kind),
        request.pool,
        request.gpu_model,
        choices(row.amount),
        _hours(row),
    )

    def tell(done: int) -> None:
        WhatIf.objects.filter(pk=row.pk).update(done_steps=done)

    try:
        past = replay_past(question, now=now, most_jobs=most_jobs, tell=tell)
    except Exception:
        logger.exception("the what-if %s of %s failed", row.pk, request)
        row.progress = "failed"
        row.finished_at = now
        row.save(update_fields=["progress", "finished_at"])
        return row
    answer = {
        "question": {
            "request": request.pk,
            "revision": row.revision,
            "kind": request.kind,
            "amounts": [0, *question.amounts],
        },
        **_told(past),
        **_money_and_room(row, request, question, now=now),
    }
    row.answer, row.engine, row.finished_at = answer, ENGINE, now
    row.digest = digest_of(answer, ENGINE)
    row.progress = "done" if past.impact is not None or _is_never_replayed(request) else "empty"
    row.done_steps = row.all_steps
    row.save()
    events.publish_on_commit(f"user:{row.asked_by_id}")
    return row


def _is_never_replayed(request: QuotaRequest) -> bool:
    return request.kind not in REPLAYED_KINDS


def _hours(row: WhatIf) -> tuple[datetime, datetime] | None:
    """Of a booking: from when until when."""
    if row.request.kind != RequestKind.RESERVATION:
        return None
    asked = row.request.versions.get(number=row.revision)
    return asked.valid_from, row.valid_until


def digest_of(answer: Mapping[str, Any], engine: str) -> str:
    """SHA-256 over the canonical JSON of the answer and what gave it."""
    text = json.dumps([engine, answer], sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def estimate(question: Question, *, now: datetime) -> tuple[float, float] | None:
    """The asker's own p90 wait in seconds, without and with all of it; None without a history.

    Of few enough jobs to be answered while somebody waits.
    """
    past = replay_past(question, now=now, most_jobs=MOST_JOBS_AT_ONCE)
    if past.impact is None:
        return None
    for team in past.impact.teams:
        if team.name == question.name:
            return team.p90_s[0], team.p90_s[-1]
    return None


def _told(past: Past) -> dict[str, Any]:
    """The part of an answer that comes from the replay."""
    window = past.window
    told: dict[str, Any] = {
        "since": past.since.isoformat(),
        "until": past.until.isoformat(),
        "pool": past.pool.name if past.pool else "",
        "nodes": window.nodes if window else 0,
        "gpus_per_node": window.workload.gpus_per_node if window else 0,
        "jobs": past.impact.jobs if past.impact else 0,
        "left_out": past.impact.left_out if past.impact else 0,
        "notes": list(past.notes),
        "teams": [],
    }
    if past.impact is not None:
        told |= {
            "teams": [asdict(team) for team in past.impact.teams],
            "preemptions": list(past.impact.preemptions),
            "utilisation": list(past.impact.utilisation),
        }
    canonical: dict[str, Any] = json.loads(json.dumps(told))
    return canonical


def _money_and_room(
    row: WhatIf, request: QuotaRequest, question: Question, *, now: datetime
) -> dict[str, Any]:
    """Cost of each choice, what the budget has left, what is guaranteed of what is there."""
    asked = request.versions.get(number=row.revision)
    costs = [
        cost_of_asking(
            *(request.kind, amount, request.pool, request.gpu_model),
            valid_from=asked.valid_from,
            valid_until=row.valid_until,
            now=now,
            team=request.team_id,
        )
        for amount in question.amounts
    ]
    has_price = costs[0].monthly is not None
    budget = budget_at(question.owner, now) or budget_at(question.team, now)
    purse = budget_at(question.owner, now, is_money=True) or budget_at(
        question.team, now, is_money=True
    )
    return {
        "monthly_cost": ["0", *(str(one.monthly) for one in costs)] if has_price else None,
        "currency": costs[0].currency,
        "budget_hours_left": _hours_left(budget, request, question.amounts),
        "budget_money_left": _money_left(purse, request, question.amounts),
        "capacity": _capacity(request, question.amounts, now),
        "booking": _booking(question, now=now) if question.hours else None,
    }


def _booking(question: Question, *, now: datetime) -> dict[str, Any]:
    """The most GPUs that are booked then, without and with each choice, and what is in the way of
    all of it.
    """
    assert question.hours is not None
    assert question.pool is not None
    begin, end = question.hours
    others = booked_then(begin, end, now=now, pool=question.pool)
    clash = ""
    try:
        fit_of(
            actor=None,
            owner=question.owner,
            pool=question.pool,
            gpu_model=question.gpu_model,
            gpus=question.amounts[-1],
            from_at=begin,
            until_at=end,
            now=now,
        )
    except Invalid as refused:
        clash = refused.detail
    return {
        "in_service": gpus_in_service(question.pool, question.gpu_model),
        "booked": [others, *(others + one for one in question.amounts)],
        "clash": clash,
    }


def _hours_left(
    budget: Budget | None, request: QuotaRequest, amounts: Sequence[int]
) -> list[int] | None:
    """What is neither used nor committed now; for GPU-hours also with each choice."""
    if budget is None:
        return None
    left = (budget.limit - budget.committed - budget.spent) // S_PER_HOUR
    more = amounts if request.kind == RequestKind.BUDGET else [0] * len(amounts)
    return [left, *(left + one for one in more)]


def _money_left(
    budget: Budget | None, request: QuotaRequest, amounts: Sequence[int]
) -> list[str] | None:
    """The same of a budget in money, to the cent."""
    if budget is None:
        return None
    left = from_steps(budget.limit - budget.committed - budget.spent)
    more = amounts if request.kind == RequestKind.MONEY else [0] * len(amounts)
    return [f"{left:.2f}", *(f"{left + one:.2f}" for one in more)]


def _capacity(request: QuotaRequest, amounts: Sequence[int], now: datetime) -> dict[str, Any]:
    """GPUs in service, guaranteed to teams now and with each choice, and by how much too many."""
    gpus = gpus_in_service(request.pool, request.gpu_model)
    rows = Quota.objects.filter(account__depth=1, pool=request.pool, gpu_model=request.gpu_model)
    given = sum(one.guaranteed for one in effective_of(rows, now=now).values())
    is_added = request.kind == RequestKind.GUARANTEED and request.project_id is None
    guaranteed = [given, *(given + one if is_added else given for one in amounts)]
    return {
        "in_service": gpus,
        "guaranteed": guaranteed,
        "oversubscribed_by": [max(0, one - gpus) for one in guaranteed],
    }
