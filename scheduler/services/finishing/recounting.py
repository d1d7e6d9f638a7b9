"""For how long a highest price pays for an attempt that runs, counted anew on the way."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from scheduler.models import Attempt
from scheduler.services.attempts import locked_live_attempt
from scheduler.services.changing.limits import nodes_to_tell
from scheduler.services.errors import Conflict
from scheduler.services.history import change_desired, tell_of_job
from scheduler.services.jobs import locked_job
from scheduler.services.prices.highest import ENDING_S, limit_left_s
from scheduler.services.sharing.committing import BudgetReached, hold_again
from scheduler.spec.schema import MAX_TIME_LIMIT_S
from scheduler.states import AttemptState


@transaction.atomic
def recount(attempt_id: int, *, now: datetime) -> bool:
    """Whether the limit became another one: prices were decided since it was counted, or something
    was paid back. Its nodes are told.

    It becomes longer only where all of them can be told, for they would end it at the old one, and
    where budgets have what it takes then; the server stops at a shorter one itself.
    """
    attempt = locked_live_attempt(attempt_id)
    if attempt is None or attempt.cost_limit_s is None or attempt.state == AttemptState.STOPPING:
        return False
    job = locked_job(attempt.job)
    passed_s = int((now - attempt.assigned_at).total_seconds())
    # Zero would be none; who is over it is stopped by the next look.
    limit_s = max(1, passed_s + limit_left_s(attempt, job, now))
    # Seconds are cut off here and there: nobody is told of those. Nor of more than any job may run.
    longest_s = MAX_TIME_LIMIT_S - attempt.stop_grace_s - ENDING_S
    if abs(min(limit_s, longest_s) - min(attempt.cost_limit_s, longest_s)) <= ENDING_S:
        return False
    try:
        nodes = nodes_to_tell(attempt)
    except Conflict:
        if limit_s > attempt.cost_limit_s:
            return False
        nodes = []
    try:
        with transaction.atomic():
            hold_again(attempt, job, job.time_limit_s)
    except BudgetReached:
        if limit_s > attempt.cost_limit_s:
            return False
    Attempt.objects.filter(pk=attempt.pk).update(cost_limit_s=limit_s)
    change_desired(nodes)
    tell_of_job(job)
    return True
