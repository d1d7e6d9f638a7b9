"""What people, and it itself, did with a schedule."""

from __future__ import annotations

import json

from django.db.models import QuerySet

from accounts.models import AuditEvent, User
from accounts.permissions import reads_inside
from scheduler.models import JobSchedule

_INSIDE = "without_variables"
_WORDS = {
    "create": "made",
    "change": "changed",
    "pause": "paused",
    "resume": "resumed",
    "run": "run by hand",
    "take_over": "taken over",
    "trouble": "could not be carried out",
}


def acts_on(viewer: User, schedule: JobSchedule) -> QuerySet[AuditEvent]:
    """The latest first; for a schedule that the caller has found for the viewer. They are events of
    the audit, without where they came from."""
    rows = AuditEvent.objects.filter(
        subject_kind="schedule", subject_id=str(schedule.pk), action__startswith="schedule."
    )
    shown = ("at", "actor_name", "on_behalf_of_name", "action", "before", "after", "reason")
    return rows.only(*shown).order_by("-at", "-pk")


def told_of(viewer: User, schedule: JobSchedule, event: AuditEvent) -> tuple[str, str]:
    """What was before it and after it, as JSON; which variables its job has is told to those alone
    who may read inside jobs there."""
    if _INSIDE not in event.after or reads_inside(viewer, schedule.project):
        return event.before, event.after
    after = json.loads(event.after)
    after.pop(_INSIDE, None)
    return event.before, json.dumps(after)


def act_words(event: AuditEvent) -> str:
    """What was done, as one says it; an act of another version by its own name."""
    verb = event.action.partition(".")[2]
    return _WORDS.get(verb, verb.replace("_", " "))
