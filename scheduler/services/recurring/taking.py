"""Schedules whose owner has left: paused with them, and taken over by a lead of the team."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.utils import timezone

from accounts.models import User
from accounts.permissions import can
from scheduler.models import JobSchedule
from scheduler.services.errors import Conflict, Forbidden
from scheduler.services.holding.reasons import written
from scheduler.services.recurring.keeping import (
    MOST_OF_PERSON,
    locked_schedule,
    owner_left,
    record_of,
    refuse_more,
    set_paused,
)
from scheduler.services.recurring.pausing import must_pause, pause_itself
from scheduler.services.recurring.skipping import times_of_pause
from scheduler.services.recurring.terms import check_job_of
from scheduler.spec import JobSpec, parse_spec

_TAKEN = "Taken over: resume it once its job is as you want it."


@transaction.atomic
def take_over(
    *, actor: User, schedule: JobSchedule, reason: str = "", now: datetime | None = None
) -> JobSchedule:
    """Make the actor its owner where the one before is not here any more: it then submits in the
    actor's name. It is paused until the actor resumes it; values of variables that are secrets of
    the owner before are left out. A no-op for its owner.

    Raises NotFound; Forbidden for who does not lead the team or may not submit there; Conflict
    `owner_here` while its owner may still submit, and `too_many`; SpecInvalid where the actor could
    not submit its job; Invalid for a reason that is too long.
    """
    schedule = locked_schedule(actor, schedule)
    now = now or timezone.now()
    if schedule.owner_id == actor.pk:
        return schedule
    if not _may_lead(actor, schedule):
        raise Forbidden("Only a lead of the team, who submits in their own name, may take it over.")
    owner = schedule.owner
    if not owner_left(schedule):
        words = (
            f"Its owner, {owner.get_full_name()}, is here and may change it: ask them, or copy its "
            "job into one of your own."
        )
        raise Conflict(words, code="owner_here")
    said = written(reason)
    refuse_more(JobSchedule.objects.filter(owner=actor).count(), MOST_OF_PERSON, "You have")
    before = parse_spec(schedule.document)
    spec = before.run_by_another()
    check_job_of(actor, spec, schedule.template, now)
    schedule.document = spec.document()
    schedule.owner, schedule.owned_from, schedule.counted_from = actor, now, now
    skipped = times_of_pause(schedule, now)
    set_paused(schedule, now, _TAKEN, by=actor)
    after: dict[str, object] = {"owner": actor.username, "paused": True}
    if skipped:
        after["times_skipped"] = skipped
    if lacking := _left_out(before, spec):
        after["without_variables"] = lacking
    past = {"owner": owner.username}
    record_of(actor, "take_over", schedule, before=past, after=after, reason=said, now=now)
    return schedule


def may_take_over(actor: User, schedule: JobSchedule) -> bool:
    """Whether the actor may do so now."""
    return schedule.owner_id != actor.pk and _may_lead(actor, schedule) and owner_left(schedule)


def lock_all_of(person: User) -> None:
    """Lock what somebody has in schedules. Call it before the person's own row is locked: whoever
    carries out a schedule of a group locks both, in this order."""
    rows = JobSchedule.objects.select_for_update(of=("self",)).filter(owner=person)
    list(rows.order_by("pk").values_list("pk"))


@transaction.atomic
def pause_all_of(person: User, *, now: datetime) -> int:
    """Pause what somebody who was just let out has in schedules, as their next times would, and
    tell who leads there; how many. Call it in the transaction that lets them out."""
    rows = JobSchedule.objects.select_for_update(of=("self",))
    theirs = rows.select_related("project__team", "owner").filter(owner=person, paused_at=None)
    count = 0
    for schedule in theirs.order_by("pk"):
        if schedule.next_due_at is not None and (why := must_pause(schedule)) is not None:
            pause_itself(schedule, why, now)
            count += 1
    return count


def _may_lead(actor: User, schedule: JobSchedule) -> bool:
    project = schedule.project
    return can(actor, "manage_project", project) and can(actor, "submit_job", project)


def _left_out(before: JobSpec, after: JobSpec) -> list[str]:
    """The names of the variables that it goes without."""
    return sorted(before.env.keys() - after.env.keys())
