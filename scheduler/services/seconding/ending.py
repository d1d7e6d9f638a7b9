"""What two people's word does: the named jobs that have not ended end together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from accounts.models import User
from scheduler.models import Attempt, BulkCancel, Job, JobSet
from scheduler.services import transitions
from scheduler.services.attempts import locked_live_attempts
from scheduler.services.errors import Conflict
from scheduler.services.gathering import gathering
from scheduler.services.holding.following import followers_of
from scheduler.services.holding.moves import cancel_waiting, reconsider
from scheduler.services.jobs import check_actor
from scheduler.services.stopping import request_stop, weight_of
from scheduler.states import OPEN_JOB_STATES, WAITING_JOB_STATES, EndReason

# As an attempt keeps them.
_MAX_NAMES = 150


@dataclass(frozen=True, slots=True)
class EndedNow:
    """How many had not ended: `waiting` are cancelled, `stopped` are asked to stop; the audit has
    a stop by the second person for each of `noted`."""

    waiting: int
    stopped: int
    noted: int


def end_named(proposal: BulkCancel, *, second: User, now: datetime) -> EndedNow:
    """End them for the reason it was proposed with; call it in one transaction, under the
    proposal's row lock.

    Rows are locked in the order in which everybody locks them: attempts, sets, jobs,
    nodes. Raises Conflict `try_again` where one of them was started between the first and the
    third: its attempt is not held then.
    """
    named = Job.objects.filter(bulk_cancels=proposal)
    running = Attempt.objects.filter(job__bulk_cancels=proposal)
    attempts = {one.job_id: one for one in locked_live_attempts(running)}
    sets = named.filter(job_set__isnull=False).order_by().values("job_set")
    list(JobSet.objects.select_for_update().filter(pk__in=sets).order_by("pk"))
    jobs = list(
        named.select_for_update(of=("self",))
        .filter(state__in=OPEN_JOB_STATES)
        .select_related("pool", "project__team", "owner")
        .order_by("pk")
    )
    waiting = [one for one in jobs if one.state in WAITING_JOB_STATES]
    live = [one for one in jobs if one.state not in WAITING_JOB_STATES]
    if any(one.pk not in attempts for one in live):
        raise Conflict(
            "One of them is just being started; try again in a second.", code="try_again"
        )
    reasons = {one.pk: _reason(second, one) for one in live}
    noted = sum(
        one.owner_id != second.pk
        and weight_of(reasons[one.pk]) > weight_of(attempts[one.pk].stop_reason)
        for one in live
    )
    names = f"{proposal.proposed_by.get_full_name()} and {second.get_full_name()}"
    with gathering():
        for job in live:
            attempt = attempts[job.pk]
            attempt.job = job
            request_stop(
                attempt=attempt,
                reason=reasons[job.pk],
                now=now,
                actor=second,
                who=names[:_MAX_NAMES],
                because=proposal.reason,
            )
            transitions.tell_of_job(job)
    facts = {"who": names, "because": proposal.reason}
    for reason, group in _by_reason(second, waiting).items():
        cancel_waiting(group, reason=reason, facts=facts, now=now, actor=second)
    reconsider(followers_of(waiting), now=now)
    return EndedNow(len(waiting), len(live), noted)


def _reason(second: User, job: Job) -> EndReason:
    as_operator = check_actor(second, job, None)
    return EndReason.CANCELLED_BY_ADMIN if as_operator else EndReason.CANCELLED_BY_USER


def _by_reason(second: User, jobs: Iterable[Job]) -> dict[EndReason, Sequence[Job]]:
    found: dict[EndReason, list[Job]] = {}
    for job in jobs:
        found.setdefault(_reason(second, job), []).append(job)
    return dict(found)
