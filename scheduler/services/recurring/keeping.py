"""Schedules made, changed, paused, resumed and deleted: by their owner; a lead of the team or an
operator pauses and deletes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from accounts.models import User
from accounts.permissions import can, managed_for
from accounts.selectors import get_visible_project
from accounts.services.audit import Subject, record
from scheduler.models import JobSchedule, TemplateVersion
from scheduler.services.errors import Conflict, Forbidden, Invalid, NotFound, StaleVersion
from scheduler.services.holding.reasons import written
from scheduler.services.recurring.skipping import skip_due, times_of_pause
from scheduler.services.recurring.telling import tell_owner_of_act
from scheduler.services.recurring.terms import (
    Terms,
    check_job_of,
    checked_terms,
    refuse_queued_group,
    terms_of,
)
from scheduler.spec import JobSpec
from scheduler.spec.recurring.dues import next_due

MOST_OF_PERSON = 50
MOST_OF_PROJECT = 200
_MOMENT = timedelta(microseconds=1)


@transaction.atomic
def create_schedule(
    *,
    actor: User,
    spec: JobSpec,
    terms: Terms,
    template: TemplateVersion | None = None,
    now: datetime | None = None,
) -> JobSchedule:
    """A schedule of the actor's own in the project that the job names.

    The job is checked as if it were submitted now. Raises SpecInvalid for what is wrong with it,
    Invalid for the rest, by field, and where the person or the project has too many.
    """
    now = now or timezone.now()
    terms = checked_terms(terms, now=now)
    check_job_of(actor, spec, template, now)
    refuse_queued_group(terms, spec.group)
    project = get_visible_project(actor, spec.project)
    theirs = JobSchedule.objects.filter(owner=actor)
    refuse_more(theirs.count(), MOST_OF_PERSON, "You have")
    refuse_more(project.job_schedules.count(), MOST_OF_PROJECT, f"{project.path} has")
    schedule = JobSchedule(
        owner=actor,
        project=project,
        document=spec.document(),
        template=template,
        counted_from=now,
        created_at=now,
        **asdict(terms),
    )
    schedule.next_due_at = _first_due(schedule, now)
    schedule.save(force_insert=True)
    record_of(actor, "create", schedule, after=_said(terms), now=now)
    return schedule


@transaction.atomic
def change_schedule(
    *,
    actor: User,
    schedule: JobSchedule,
    changes: Mapping[str, Any],
    spec: JobSpec | None = None,
    version: int | None = None,
    now: datetime | None = None,
) -> JobSchedule:
    """Other terms, or another job, from the next due time on, which may be one that nobody has
    looked at yet; by its owner alone. Failures are counted anew. Raises as
    `create_schedule`, NotFound, Forbidden, StaleVersion."""
    schedule = locked_schedule(actor, schedule)
    now = now or timezone.now()
    _require_owner(actor, schedule)
    if version is not None and version != schedule.version:
        facts = {"version": schedule.version}
        raise StaleVersion("The schedule has changed since you read it.", facts=facts)
    before = terms_of(schedule)
    terms = checked_terms(replace(before, **changes), now=now)
    if spec is not None:
        if spec.project != schedule.project.path:
            words = "project: a schedule stays in its project; make another one there."
            raise Invalid(words, field="project")
        check_job_of(actor, spec, schedule.template, now)
        schedule.document = spec.document()
    refuse_queued_group(terms, schedule.document.get("group", ""))
    for name, value in asdict(terms).items():
        setattr(schedule, name, value)
    if schedule.paused_at is None:
        due = _first_due(schedule, now)
        if not _is_due_still(schedule, now):
            skip_due(schedule, now, "The schedule was changed before anybody looked.")
            schedule.next_due_at = due
    schedule.counted_from = now
    schedule.version += 1
    schedule.save()
    after = _said(terms) | ({"job": "changed"} if spec is not None else {})
    record_of(actor, "change", schedule, before=_said(before), after=after, now=now)
    return schedule


@transaction.atomic
def pause_schedule(
    *, actor: User, schedule: JobSchedule, reason: str = "", now: datetime | None = None
) -> JobSchedule:
    """No more jobs until it is resumed; those that are there go on. A no-op when it is paused.
    Raises NotFound, Forbidden, and Invalid for another's without a reason."""
    schedule = locked_schedule(actor, schedule)
    now = now or timezone.now()
    _require_rule(actor, schedule)
    if schedule.paused_at is not None:
        return schedule
    said = _reason(actor, schedule, reason)
    set_paused(schedule, now, said, by=actor)
    record_of(actor, "pause", schedule, after={"paused": True}, reason=said, now=now)
    _tell_of(actor, schedule, "paused", said, now)
    return schedule


@transaction.atomic
def resume_schedule(
    *, actor: User, schedule: JobSchedule, now: datetime | None = None
) -> JobSchedule:
    """Go on with the next due time; those of the pause are gone, and the history says how many. By
    its owner alone, in whose name it submits. A no-op when it is not paused."""
    schedule = locked_schedule(actor, schedule)
    now = now or timezone.now()
    _require_owner(actor, schedule)
    if schedule.paused_at is None:
        return schedule
    after = {"paused": False, "times_skipped": times_of_pause(schedule, now)}
    schedule.paused_at, schedule.paused_by, schedule.pause_reason = None, None, ""
    schedule.next_due_at = _first_due(schedule, now)
    schedule.counted_from = now
    schedule.version += 1
    schedule.save()
    record_of(actor, "resume", schedule, before={"paused": True}, after=after, now=now)
    return schedule


@transaction.atomic
def delete_schedule(
    *, actor: User, schedule: JobSchedule, reason: str = "", now: datetime | None = None
) -> None:
    """Forget it with what came of its times; its jobs stay. Raises as `pause_schedule`."""
    schedule = locked_schedule(actor, schedule)
    now = now or timezone.now()
    _require_rule(actor, schedule)
    said = _reason(actor, schedule, reason)
    before = _said(terms_of(schedule))
    record_of(actor, "delete", schedule, before=before, after={}, reason=said, now=now)
    _tell_of(actor, schedule, "deleted", said, now)
    schedule.delete()


def locked_schedule(actor: User, schedule: JobSchedule) -> JobSchedule:
    """As it is now, under its row lock: ask for the time after it, which a look may have held for a
    while. Raises NotFound for a missing and a foreign one alike."""
    rows = JobSchedule.objects.select_for_update(of=("self",))
    found = rows.select_related("project__team", "owner", "template__template").filter(
        pk=schedule.pk
    )
    row = found.first()
    if row is None or not (can(actor, "view", row.project) or can(actor, "see_jobs", None)):
        raise NotFound("There is no such schedule for you.")
    return row


def set_paused(
    schedule: JobSchedule, now: datetime, reason: str, *, by: User | None = None
) -> None:
    """Write the pause of a locked one; `by` None: it paused itself. A time that was due and that
    nobody has carried out is skipped, and says so."""
    skip_due(
        schedule, now, reason if by is None else "The schedule was paused before anybody looked."
    )
    schedule.paused_at, schedule.paused_by, schedule.pause_reason = now, by, reason[:400]
    schedule.next_due_at = None
    schedule.version += 1
    schedule.save()


def next_of(schedule: JobSchedule, after: datetime) -> datetime | None:
    """Its next due time after this moment and within its dates; None for none."""
    if schedule.starts_at is not None:
        after = max(after, schedule.starts_at - _MOMENT)
    due = next_due(schedule.time_rule, schedule.zone_info, after)
    is_over = due is None or (schedule.ends_at is not None and due > schedule.ends_at)
    return None if is_over else due


def subject_of(schedule: JobSchedule) -> Subject:
    """How the audit names it."""
    return Subject("schedule", str(schedule.pk), schedule.name, schedule.project.team_id)


def owner_left(schedule: JobSchedule) -> bool:
    """Whether it can submit nothing in its owner's name any more."""
    owner = schedule.owner
    return not (owner.is_active and can(owner, "submit_job", schedule.project))


def may_rule(actor: User, schedule: JobSchedule) -> bool:
    """Whether the actor may pause and delete it."""
    own = schedule.owner_id == actor.pk and can(actor, "submit_job", schedule.project)
    return own or can(actor, "manage_project", schedule.project) or can(actor, "operate", None)


def may_submit(actor: User, schedule: JobSchedule) -> bool:
    """Whether the actor may change, resume and run it."""
    return schedule.owner_id == actor.pk and can(actor, "submit_job", schedule.project)


def _first_due(schedule: JobSchedule, now: datetime) -> datetime | None:
    if schedule.unread:
        raise Invalid(f"{schedule.unread}.", field=schedule.unread.partition(":")[0])
    due = next_of(schedule, now)
    if due is None:
        words = "ends_at: it is never due before; choose a later moment, or leave it out."
        raise Invalid(words, field="ends_at")
    return due


def _is_due_still(schedule: JobSchedule, now: datetime) -> bool:
    """Whether a time has come that nobody has looked at yet, and that lies within its dates."""
    due = schedule.next_due_at
    if due is None or due > now or (schedule.starts_at or due) > due:
        return False
    return schedule.ends_at is None or due <= schedule.ends_at


def _require_rule(actor: User, schedule: JobSchedule) -> None:
    if not may_rule(actor, schedule):
        raise Forbidden("Only the schedule's owner, a team lead or an operator may do this.")


def _require_owner(actor: User, schedule: JobSchedule) -> None:
    if not may_submit(actor, schedule):
        raise Forbidden(
            "Only the schedule's owner, in whose name it submits, may do this. Copy it to have "
            "one of your own."
        )


def _reason(actor: User, schedule: JobSchedule, reason: str) -> str:
    said = written(reason)
    if not said and actor.pk != schedule.owner_id:
        words = "The schedule is somebody else's: give a reason, which its owner reads."
        raise Invalid(words, field="reason", code="reason_needed")
    return said


def refuse_more(count: int, most: int, who: str) -> None:
    """Raises Conflict where one more would be too many."""
    if count >= most:
        words = f"{who} {most} schedules already; delete those that are not needed."
        raise Conflict(words, code="too_many")


def _tell_of(actor: User, schedule: JobSchedule, what: str, said: str, now: datetime) -> None:
    """Tell its owner what somebody else did, where they are here to hear it."""
    if actor.pk != schedule.owner_id and not owner_left(schedule):
        tell_owner_of_act(schedule, actor, what, said, now=now)


def _said(terms: Terms) -> dict[str, object]:
    return {name: value for name, value in asdict(terms).items() if value is not None}


def record_of(actor: User, verb: str, schedule: JobSchedule, **more: Any) -> None:
    """One event of the audit, which its page tells too."""
    giver = managed_for(actor, schedule.project)
    record(actor, f"schedule.{verb}", subject_of(schedule), on_behalf_of=giver, **more)
