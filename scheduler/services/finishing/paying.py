"""What the passing of time does to jobs with a highest price."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from time import monotonic
from typing import Any

from django.db import transaction
from django.db.models import (
    BigIntegerField,
    Exists,
    ExpressionWrapper,
    F,
    OuterRef,
    Q,
    QuerySet,
)

from accounts.statements import AskedOnce
from scheduler.models import Attempt, Job, Placement
from scheduler.services.attempts import locked_live_attempt
from scheduler.services.finishing.recounting import recount
from scheduler.services.holding.following import followers_of, locked_waiting
from scheduler.services.holding.moves import cancel_waiting, reconsider
from scheduler.services.prices.highest import Dearest, short_facts
from scheduler.services.prices.waiting import hold_for, let_go_of
from scheduler.services.sharing.prices import spent_of
from scheduler.services.stopping import request_stop
from scheduler.states import (
    LIVE_ATTEMPT_STATES,
    UNHEARD_NODES,
    AttemptState,
    EndReason,
    JobState,
    WaitReason,
)

# Many may run or wait: each is looked at every so many seconds, and once its attempt has ended. A
# prime number: a busy server that looks every second or third second meets everybody all the same.
_JUST, _TURNS = timedelta(seconds=60), 113
# Seconds after which a pass that did something looks at no further job of those that wait: the
# scheduler decides after it. Who was held or ended is not met again, so everybody has a turn.
_LONGEST = 1.0


def keep_prices(*, now: datetime) -> int:
    """Stop whose highest price pays no more, count anew for how long it pays for the others that
    run, and look at those that wait: who has cost something and is not paid for another attempt
    ends; who has cost nothing yet is held until prices let it start, and let go then. Returns how
    many. Two queries if nobody has one."""
    turn, runs = int(now.timestamp()) % _TURNS, _RUNNING.read()
    due = [pk for pk, start, limit_s in runs if _is_over(start, limit_s, now)]
    count = sum(_stop(pk, now) for pk in due)
    whose_turn = [pk for pk, _, _ in runs if pk % _TURNS == turn]
    count += sum(recount(pk, now=now) for pk in whose_turn if pk not in due)
    waiting = _WAITING.read(now - _JUST, turn)
    return count + (_settle([pk for (pk,) in waiting], now) if waiting else 0)


def _running() -> QuerySet[Attempt, tuple[Any, ...]]:
    """Where all nodes are heard: a silent one holds the limit itself."""
    unheard = Placement.objects.filter(
        attempt=OuterRef("pk"), ended_at__isnull=True, node__state__in=UNHEARD_NODES
    )
    live = Attempt.objects.filter(
        ~Exists(unheard),
        # By way of the jobs, which have an index of those few.
        job__state__in=(JobState.STARTING, JobState.RUNNING),
        job__max_cost_steps__isnull=False,
        state__in=LIVE_ATTEMPT_STATES,
        cost_limit_s__isnull=False,
    ).exclude(state=AttemptState.STOPPING)
    return live.order_by().values_list("pk", "assigned_at", "cost_limit_s")


def _waiting(since: datetime, turn: int) -> QuerySet[Job, tuple[Any, ...]]:
    """Those whose attempt ended since, and each other one in its turn: prices change, and it may
    have been paused."""
    just = Attempt.objects.filter(job=OuterRef("pk"), ended_at__gt=since)
    turns = ExpressionWrapper(F("pk") % _TURNS, output_field=BigIntegerField())
    waiting = Job.objects.annotate(turn=turns).filter(
        _IN_LINE | _HELD_SHORT,
        Exists(just) | Q(turn=turn),
        # As the index of those few has it.
        state__in=(JobState.QUEUED, JobState.HELD),
        max_cost_steps__isnull=False,
    )
    return waiting.order_by("pk").values_list("pk")


_IN_LINE = Q(state=JobState.QUEUED)
_HELD_SHORT = Q(state=JobState.HELD, wait_reason=WaitReason.MAX_COST_SHORT)
_RUNNING, _WAITING = AskedOnce(_running), AskedOnce(_waiting)


def _settle(ids: Sequence[int], now: datetime) -> int:
    jobs = Job.objects.select_related("project", "pool", "owner").filter(pk__in=ids)
    # Good for a look; who is held or ended is counted to the last step.
    spent_by = spent_of(ids)
    dearest, until, count = Dearest(now), monotonic() + _LONGEST, 0
    paid: list[int] = []
    for job in jobs.order_by("pk"):
        if count and monotonic() > until:
            break
        spent = spent_by.get(job.pk, 0)
        if dearest.pays(job, spent):
            paid += [job.pk] if job.state == JobState.HELD else []
        elif spent:
            count += _end(job.pk, now)
        elif job.state == JobState.QUEUED:
            count += _hold(job.pk, short_facts(job), now)
    return count + (let_go_of(paid, WaitReason.MAX_COST_SHORT, now=now) if paid else 0)


def _is_over(assigned_at: datetime, limit_s: int, now: datetime) -> bool:
    return assigned_at + timedelta(seconds=limit_s) <= now


@transaction.atomic
def _stop(attempt_id: int, now: datetime) -> bool:
    attempt = locked_live_attempt(attempt_id)
    if attempt is None or attempt.cost_limit_s is None:
        return False
    return _is_over(attempt.assigned_at, attempt.cost_limit_s, now) and request_stop(
        attempt=attempt, reason=EndReason.MAX_COST_REACHED, now=now
    )


@transaction.atomic
def _hold(job_id: int, facts: Mapping[str, str], now: datetime) -> int:
    job = next(iter(locked_waiting(Job.objects.filter(pk=job_id))), None)
    # It may have got another price meanwhile.
    if job is None or Dearest(now).pays(job):
        return 0
    return hold_for(job_id, WaitReason.MAX_COST_SHORT, facts, now=now)


@transaction.atomic
def _end(job_id: int, now: datetime) -> bool:
    job = next(iter(locked_waiting(Job.objects.filter(pk=job_id))), None)
    if job is None or job.state != JobState.QUEUED or Dearest(now).pays(job):
        return False
    cancel_waiting([job], reason=EndReason.MAX_COST_SPENT, facts={}, now=now)
    reconsider(followers_of([job]), now=now)
    return True
