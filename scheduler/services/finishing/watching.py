"""What the passing of time does to jobs that have to be finished by a moment.

Who is cancelled when late is not started once its time limit fits no more, and runs until the
moment at most. Its node holds the time limit, which ends there: the server's stop only says why.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from accounts.statements import AskedOnce
from scheduler.models import Attempt, Job, Placement
from scheduler.services.attempts import locked_live_attempt
from scheduler.services.finishing.telling import OPEN, tell_ended_late, tell_missed
from scheduler.services.holding.following import followers_of, locked_waiting
from scheduler.services.holding.moves import cancel_waiting, reconsider
from scheduler.services.stopping import request_stop
from scheduler.spec.units import format_duration
from scheduler.states import (
    LIVE_ATTEMPT_STATES,
    LIVE_JOB_STATES,
    UNHEARD_NODES,
    WAITING_JOB_STATES,
    AttemptState,
    EndReason,
    end_sentence,
    stamp,
)

# So many with one look; the next second brings the next.
MOST_AT_ONCE = 1_000


def keep_moments(*, now: datetime) -> int:
    """End who can no longer be finished in time and is cancelled then, stop who runs beyond its
    moment, and tell of those that are kept; returns how many. One query if nothing is due."""
    late, running, missed = [], [], []
    for pk, state, start_by in _DUE.read(now):
        if start_by is None:
            missed.append(pk)
        elif state in WAITING_JOB_STATES:
            late.append(pk)
        else:
            running.append(pk)
    count = _end_waiting(late, now) if late else 0
    count += sum(_stop(pk, now) for pk in _attempts_of(running)) if running else 0
    return count + (tell_missed(missed, now=now) if missed else 0)


def _due(now: datetime) -> QuerySet[Job, tuple[Any, ...]]:
    is_over = Q(finish_by__lte=now)
    is_late = Q(state__in=WAITING_JOB_STATES, start_by__lt=now)
    is_beyond = is_over & Q(state__in=LIVE_JOB_STATES, start_by__isnull=False)
    is_untold = is_over & Q(state__in=OPEN, start_by__isnull=True) & ~Q(told_late=True)
    to_finish = Job.objects.filter(finish_by__isnull=False, ended_at__isnull=True)
    due = to_finish.filter(is_late | is_beyond | is_untold)
    return due.order_by("finish_by", "pk").values_list("pk", "state", "start_by")[:MOST_AT_ONCE]


_DUE = AskedOnce(_due)


@transaction.atomic
def _end_waiting(numbers: Sequence[int], now: datetime) -> int:
    """Those that may still have been given another moment, or started, are looked at once more."""
    jobs = locked_waiting(Job.objects.filter(pk__in=numbers, start_by__lt=now))
    alike: dict[tuple[datetime | None, int], list[Job]] = defaultdict(list)
    for job in jobs:
        alike[job.finish_by, job.time_limit_s].append(job)
    reason = EndReason.FINISH_BY_MISSED
    for (finish_by, limit_s), members in alike.items():
        by = stamp(finish_by) if finish_by else ""
        facts = {"finish_by": by, "limit": format_duration(limit_s)}
        cancel_waiting(members, reason=reason, facts=facts, now=now)
        tell_ended_late(members, end_sentence(reason, facts), now=now)
    reconsider(followers_of(jobs), now=now)
    return len(jobs)


def _attempts_of(jobs: Sequence[int]) -> list[int]:
    """What runs of these, where all nodes are heard: a silent one holds the time limit itself."""
    unheard = Placement.objects.filter(
        attempt=OuterRef("pk"), ended_at__isnull=True, node__state__in=UNHEARD_NODES
    )
    live = Attempt.objects.filter(~Exists(unheard), job__in=jobs, state__in=LIVE_ATTEMPT_STATES)
    live = live.exclude(state=AttemptState.STOPPING)
    return list(live.order_by("pk").values_list("pk", flat=True))


@transaction.atomic
def _stop(attempt_id: int, now: datetime) -> bool:
    attempt = locked_live_attempt(attempt_id)
    if attempt is None:
        return False
    job = attempt.job
    if job.finish_by is None or job.start_by is None or job.finish_by > now:
        return False
    said = {"finish_by": stamp(job.finish_by)}
    return request_stop(attempt=attempt, reason=EndReason.FINISH_BY_REACHED, now=now, said=said)
