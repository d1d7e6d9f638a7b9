"""Jobs of schedules, submitted as their owners would do it: when they are due, or by hand.

What came of a due time is one row, unique by schedule and time and written in the transaction of
the submit. A look that is repeated, two workers and a worker killed anywhere give one job.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from django.db import InterfaceError, InternalError, OperationalError, transaction
from django.utils import timezone

from accounts.models import User
from accounts.services.audit import record
from scheduler.failpoints import reach
from scheduler.models import Job, JobSchedule, JobScheduleRun
from scheduler.services.composing.templates import submit_from_template
from scheduler.services.errors import Conflict, DomainError, Forbidden
from scheduler.services.jobs import end_job, submit_job
from scheduler.services.recurring.keeping import (
    locked_schedule,
    may_submit,
    next_of,
    subject_of,
)
from scheduler.services.recurring.pausing import bear, must_pause, pause_itself
from scheduler.services.recurring.skipping import skip_time
from scheduler.services.recurring.standing import is_same_failure, open_jobs
from scheduler.services.recurring.telling import tell_owner_of
from scheduler.services.sets import cancel_set
from scheduler.spec import JobSpec, SpecInvalid, SpecProblem, parse_spec
from scheduler.spec.recurring.dues import ON_TIME, made_up_for
from scheduler.spec.recurring.words import Overlap, RunOutcome
from scheduler.states import moment_words

logger = logging.getLogger(__name__)

# One look; the next one goes on with the rest.
MOST_AT_ONCE = 200
KEPT = timedelta(days=90)
_SOON = "try_again"
_REPLACED = "Replaced by the next one of its schedule"
# Of the database, the machine or the process, and of no schedule: the next look has better luck.
_PASSING = (OperationalError, InterfaceError, InternalError, OSError, MemoryError)


def submit_due(*, now: datetime) -> int:
    """Carry out the schedules that are due, the longest due first; returns how many jobs came.
    One that fails in an unforeseen way is tried again with the next look, some times."""
    due = JobSchedule.objects.filter(next_due_at__lte=now).order_by("next_due_at", "pk")
    came = 0
    for pk in list(due.values_list("pk", flat=True)[:MOST_AT_ONCE]):
        try:
            run = carry_out(pk, now=now)
            reach("schedules.committed")
        except Conflict as soon:
            logger.info("schedule %s: %s", pk, soon)
            continue
        except _PASSING:
            logger.exception("schedule %s could not be carried out now; it is tried again", pk)
            continue
        except Exception as error:
            logger.exception("schedule %s could not be carried out", pk)
            bear(pk, error, now=now)
            continue
        came += run is not None and run.job_id is not None
    return came


@transaction.atomic
def carry_out(pk: int, *, now: datetime) -> JobScheduleRun | None:
    """What is due of one schedule: of several missed times the last one within its bound stands for
    all. Returns what came of it; None where it is not due or not there any more, or paused
    itself."""
    rows = JobSchedule.objects.select_for_update(of=("self",)).filter(pk=pk)
    schedule = rows.select_related("project__team", "owner", "template__template").first()
    first = None if schedule is None else schedule.next_due_at
    if schedule is None or first is None or first > now:
        return None
    if (why := must_pause(schedule)) is not None:
        pause_itself(schedule, why, now)
        return None
    until = now if schedule.ends_at is None else min(now, schedule.ends_at)
    due = made_up_for(
        schedule.time_rule,
        schedule.zone_info,
        first=first,
        now=now,
        until=until,
        within=timedelta(seconds=schedule.late_within_s),
    )
    if schedule.runs.filter(due_at=due or first, by_hand=False).exists():
        # The clock was put back, or the database.
        run = None
    elif due is None:
        run = _note(schedule, first, now, RunOutcome.MISSED, _missed(first, now))
    else:
        run = _go(schedule, first, due, now)
    reach("schedules.submitted")
    schedule.next_due_at = next_of(schedule, now)
    schedule.save(update_fields=["next_due_at"])
    if run is not None:
        _tell(schedule, run, now)
    return run


@transaction.atomic
def run_now(*, actor: User, schedule: JobSchedule, now: datetime | None = None) -> JobScheduleRun:
    """Submit its job at once, by its owner, paused or not; its due times stay. Pressed twice within
    a minute it is one job. Raises NotFound, Forbidden, Conflict where an earlier job still goes on
    that it does not replace, and what the submit is refused for."""
    now = now or timezone.now()
    schedule = locked_schedule(actor, schedule)
    if not may_submit(actor, schedule):
        raise Forbidden("Only its owner, in whose name it submits, may run the schedule.")
    minute = now.replace(second=0, microsecond=0)
    known = schedule.runs.select_related("job").filter(due_at=minute, by_hand=True).first()
    if known is not None:
        return known
    waits = _make_way(schedule, now)
    if isinstance(waits, str):
        raise Conflict(f"{waits}. Cancel it first, or choose what else happens then.")
    run = _submitted(schedule, actor, minute, now, waits, by_hand=True)
    after = {"run": run.job_id}
    record(actor, "schedule.run", subject_of(schedule), after=after, now=now)
    return run


def prune_schedule_runs(*, now: datetime) -> int:
    """Forget what came of due times long ago; their jobs stay. Returns how many."""
    deleted, _ = JobScheduleRun.objects.filter(at__lt=now - KEPT).delete()
    return deleted


def _go(schedule: JobSchedule, first: datetime, due: datetime, now: datetime) -> JobScheduleRun:
    since = f"Stands for every time missed since {moment_words(first)}." if first < due else ""
    late = since or (f"Submitted late, at {moment_words(now)}." if now - due > ON_TIME else "")
    try:
        with transaction.atomic():
            waits = _make_way(schedule, now)
            if isinstance(waits, str):
                return skip_time(schedule, first, due, now, waits)
            return _submitted(schedule, schedule.owner, due, now, waits, said=late)
    except SpecInvalid as refused:
        words = "; ".join(f"{one.field}: {_for_all(one)}" for one in refused.problems)
    except DomainError as refused:
        if refused.code == _SOON:
            raise
        words = refused.detail
    said = f"{words.rstrip('.')}. {since}" if since else words
    return _note(schedule, due, now, RunOutcome.REFUSED, said)


def _for_all(problem: SpecProblem) -> str:
    """Who may see the schedule reads it, with costs or without: no amount of a highest price."""
    return problem.message.partition(";")[0] if problem.field == "max_cost" else problem.message


def _make_way(schedule: JobSchedule, now: datetime) -> list[Job] | str:
    """The earlier jobs that a new one has to wait for, those to be replaced being asked to stop; or
    why none comes. Raises Conflict where one of them is just being started."""
    there = open_jobs(schedule)
    if not there or schedule.overlap == Overlap.QUEUE:
        if len(there) < schedule.most_open:
            # For all: of those that wait for each other one may be cancelled.
            return there
        return f"{len(there)} jobs of it wait or run already, the most it may have"
    if schedule.overlap == Overlap.SKIP:
        return f"Job {there[0].pk} of it still waits or runs"
    if schedule.document.get("group"):
        # Before their rows, as every submit into a group locks them.
        User.objects.select_for_update(no_key=True).get(pk=schedule.owner_id)
    for job in there:
        if job.job_set is not None:
            cancel_set(actor=schedule.owner, job_set=job.job_set, reason=_REPLACED, now=now)
        else:
            end_job(actor=schedule.owner, job=job, reason=_REPLACED, now=now)
    return open_jobs(schedule)


def _submitted(
    schedule: JobSchedule,
    actor: User,
    due: datetime,
    now: datetime,
    waits: list[Job],
    *,
    said: str = "",
    by_hand: bool = False,
) -> JobScheduleRun:
    spec, version = _spec_of(schedule, waits), schedule.template
    if version is not None:
        job = submit_from_template(actor=actor, version=version, spec=spec, now=now).job
    else:
        job = submit_job(actor=actor, spec=spec, now=now).job
    outcome = RunOutcome.SUBMITTED
    return _note(schedule, due, now, outcome, said, job=job, by_hand=by_hand)


def _spec_of(schedule: JobSchedule, waits: list[Job]) -> JobSpec:
    """Read anew each time, as other versions of Trainyard may have kept it."""
    document = dict(schedule.document)
    if waits:
        document["depends_on"] = [
            f"afterany:set={job.job_set_id}" if job.job_set_id else f"afterany:{job.pk}"
            for job in waits
        ]
    return parse_spec(document)


def _note(
    schedule: JobSchedule,
    due: datetime,
    now: datetime,
    outcome: RunOutcome,
    said: str,
    *,
    job: Job | None = None,
    by_hand: bool = False,
) -> JobScheduleRun:
    return JobScheduleRun.objects.create(
        schedule=schedule,
        due_at=due,
        by_hand=by_hand,
        at=now,
        outcome=outcome,
        job=job,
        said=said[:400],
    )


def _missed(first: datetime, now: datetime) -> str:
    until = moment_words(now)
    return f"Nobody looked between {moment_words(first)} and {until}: too late to make up for it."


def _tell(schedule: JobSchedule, run: JobScheduleRun, now: datetime) -> None:
    """A refusal is news where it is the first in a row, or for another reason than the last."""
    if run.outcome == RunOutcome.MISSED:
        tell_owner_of(schedule, "missed its time", run.said, f"run:{run.pk}", now=now)
    elif run.outcome == RunOutcome.REFUSED and not is_same_failure(schedule, run):
        words = f"Its job was refused: {run.said}"
        tell_owner_of(schedule, "submitted no job", words, f"run:{run.pk}", now=now)
