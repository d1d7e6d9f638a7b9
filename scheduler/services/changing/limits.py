"""Another time limit for a job that waits, more time for one that runs."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.utils import timezone

from accounts.models import User
from scheduler import events
from scheduler.conf import load_conf
from scheduler.models import Attempt, Job
from scheduler.services.attempts import locked_live_attempt
from scheduler.services.changing.rules import refuse_by_template
from scheduler.services.errors import Conflict, Invalid
from scheduler.services.history import change_desired, record_event, tell_of_job
from scheduler.services.jobs import check_actor, locked_job
from scheduler.services.preempting.claims import drop_room
from scheduler.services.rows.updating import update_row
from scheduler.services.sharing.committing import BudgetReached, hold_again
from scheduler.services.sharing.keeping.pledging import PledgeRefused, adjust, in_words, left_of
from scheduler.services.submitting.in_time import refuse_too_long
from scheduler.services.submitting.longest import longest_on_the_way, refuse_longer
from scheduler.spec import SpecInvalid
from scheduler.spec.schema import MAX_TIME_LIMIT_S
from scheduler.spec.units import format_duration
from scheduler.states import (
    FINAL_JOB_STATES,
    LIVE_JOB_STATES,
    UNHEARD_NODES,
    AttemptState,
    FinishPolicy,
    latest_start,
)

# Agents of older protocols keep the limit that a job was started with.
_SINCE_PROTOCOL = 3


@transaction.atomic
def set_time_limit(
    *,
    actor: User,
    job: Job,
    time_limit_s: int,
    version: int | None = None,
    may_run: bool = True,
    now: datetime | None = None,
) -> Job:
    """Give the job this limit, counted from the start of an attempt. A no-op if it has it.

    1. A running job gets more, never less: what it was promised stays. Not `may_run`: nobody has
       looked at who would wait for it, so one that has started meanwhile is refused.
    2. The longest time of its team and project counts as at submit; its template holds its owner.
    3. What budgets hold for the attempt grows along, or they refuse.
    4. Its nodes are told; they look there before they stop it.
    5. Of one that waits for longer, room that was being made is given up: what begins before its
       new end was not looked at.

    Raises Forbidden, Conflict, Invalid or StaleVersion.
    """
    now = now or timezone.now()
    attempt_id = job.attempts.order_by("-number").values_list("pk", flat=True).first()
    attempt = locked_live_attempt(attempt_id) if attempt_id else None
    job = locked_job(job)
    check_actor(actor, job, version)
    was_s = job.time_limit_s
    if job.state in FINAL_JOB_STATES:
        raise Conflict(f"The job has ended: it is {job.state}.")
    if time_limit_s == was_s:
        return job
    _check_value(actor, job, time_limit_s, now)
    start_by = _start_by(job, attempt, time_limit_s, now)
    if job.state in LIVE_JOB_STATES:
        if not may_run:
            raise Conflict("The job has just started; look again and try.", code="try_again")
        _extend(job, attempt, time_limit_s)
    columns = {"time_limit_s": time_limit_s, "start_by": start_by}
    if not update_row(Job, job.pk, columns, guard={"state": job.state}, raised=("version",)):
        raise Conflict("The job has just moved; try again.", code="try_again")
    job.refresh_from_db(fields=[*columns, "version"])
    if job.state not in LIVE_JOB_STATES:
        adjust_pledges(job, now)
        if time_limit_s > was_s:
            drop_room(job.pk, now=now)
    facts = {"was": format_duration(was_s), "is": format_duration(time_limit_s)}
    record_event(job, "limit_changed", now=now, actor=actor, attempt=attempt, detail=facts)
    tell_of_job(job)
    events.wake_scheduler_on_commit()
    return job


def adjust_pledges(job: Job, now: datetime) -> None:
    """What it has committed while it waits follows its time limit, GPUs and highest price; raises
    Conflict."""
    try:
        adjust(job, now=now)
    except PledgeRefused as refused:
        raise unpaid(refused) from None


def hold_more(attempt: Attempt, job: Job, time_limit_s: int) -> None:
    """What it has committed while it runs follows this limit and its highest price; raises
    Conflict."""
    try:
        hold_again(attempt, job, time_limit_s)
    except BudgetReached as reached:
        budget = reached.budget
        raise Conflict(
            f"Not paid for: the budget of {budget.account} has {in_words(budget, left_of(budget))} "
            "left, and this may take more. Ask for less, or to have the budget raised.",
            code="budget",
        ) from None


def unpaid(refused: PledgeRefused) -> Conflict:
    """What to raise where a budget has less left than a change takes more. No amount of a highest
    price: who may change the job may not see what it costs."""
    more = "may take more, up to its highest price" if refused.is_priced else ""
    return Conflict(
        f"Not paid for: the budget of {refused.budget.account} has {refused.left} left, and this "
        f"{more or f'takes {refused.asks} more'}.",
        code="budget",
    )


def refuse_senseless(job: Job, time_limit_s: int) -> None:
    """Whatever the rules are, no job may have this limit; raises Invalid."""
    shortest = max(1, int(job.spec.get("min_runtime") or 0))
    if not shortest <= time_limit_s <= MAX_TIME_LIMIT_S:
        span = f"{format_duration(shortest)} to {format_duration(MAX_TIME_LIMIT_S)}"
        raise Invalid(f"time_limit: choose {span}.", field="time_limit")
    most = load_conf().session_longest_s
    if job.spec.get("session") and time_limit_s > max(most, job.time_limit_s):
        words = f"sessions may run for {format_duration(most)} at most here; choose less"
        raise Invalid(f"time_limit: {words}.", field="time_limit")


def _check_value(actor: User, job: Job, time_limit_s: int, now: datetime) -> None:
    refuse_senseless(job, time_limit_s)
    refuse_by_template(actor, job, "time_limit", time_limit_s)
    if time_limit_s < job.time_limit_s:
        return
    longest = longest_on_the_way(job.project_id, job.project.team_id, job.pool, now=now)
    try:
        refuse_longer(longest, job.project, job.pool, time_limit_s)
    except SpecInvalid as refused:
        raise Invalid(str(refused), field="time_limit") from None


def _start_by(
    job: Job, attempt: Attempt | None, time_limit_s: int, now: datetime
) -> datetime | None:
    """The latest start that leaves this limit; raises Invalid where it is over already, or of one
    that runs where the limit goes beyond its moment."""
    if job.finish_by is None or job.start_by is None:
        return None
    if time_limit_s > job.time_limit_s:
        is_live = job.state in LIVE_JOB_STATES and attempt is not None
        earliest = (attempt.started_at or attempt.assigned_at) if is_live and attempt else now
        try:
            refuse_too_long(job.finish_by, time_limit_s, earliest)
        except SpecInvalid as refused:
            raise Invalid(f"{refused}.", field="time_limit") from None
    return latest_start(job.finish_by, FinishPolicy.CANCEL, time_limit_s)


def _extend(job: Job, attempt: Attempt | None, time_limit_s: int) -> None:
    if attempt is None:
        raise Conflict("The job is just being started; try again in a second.", code="try_again")
    if attempt.state == AttemptState.STOPPING:
        raise Conflict("The job is being stopped; more time comes too late.")
    if time_limit_s < job.time_limit_s:
        raise Conflict("A running job keeps the time it was given; pause or cancel it instead.")
    nodes = nodes_to_tell(attempt)
    hold_more(attempt, job, time_limit_s)
    Attempt.objects.filter(pk=attempt.pk).update(extended_to_s=time_limit_s)
    change_desired(nodes)


def nodes_to_tell(attempt: Attempt) -> list[int]:
    """The nodes of a live attempt, all of which can be told another limit now; raises Conflict."""
    told = attempt.placements.values_list("node_id", "node__protocol", "node__state", "node__name")
    nodes = {node_id: protocol for node_id, protocol, _, _ in told}
    if unheard := sorted(name for *_, state, name in told if state in UNHEARD_NODES):
        raise Conflict(
            f"{', '.join(unheard)} is not heard now and keeps the limit it knows; try again once "
            "it is back."
        )
    if any(protocol < _SINCE_PROTOCOL for protocol in nodes.values()):
        raise Conflict("The agent on one of its nodes is too old to extend jobs; upgrade it.")
    return list(nodes)
