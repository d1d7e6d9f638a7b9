"""What people are told of a schedule that does not do what it should."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from accounts.models import User, UserKind
from accounts.permissions import people_who_can
from scheduler.models import JobSchedule
from scheduler.services.inbox.telling import News, tell
from scheduler.states import NoticeKind


def tell_owner_of(schedule: JobSchedule, what: str, text: str, key: str, *, now: datetime) -> None:
    """Tell its owner, once for a key."""
    tell([_news(schedule, schedule.owner_id, what, text, key)], now=now)


def tell_leads_of(schedule: JobSchedule, what: str, text: str, key: str, *, now: datetime) -> None:
    """Tell who leads the team, where its owner is not there to hear it."""
    leads = people_who_can("manage_team", schedule.project.team).filter(kind=UserKind.PERSON)
    told = leads.exclude(pk=schedule.owner_id).values_list("pk", flat=True)
    tell([_news(schedule, person, what, text, key) for person in told], now=now)


def tell_owner_of_act(
    schedule: JobSchedule, actor: User, what: str, reason: str, *, now: datetime
) -> None:
    """Tell its owner that somebody else has `paused` or `deleted` it, and why."""
    text = f"By {actor.get_full_name()}: {reason}"
    one = _news(schedule, schedule.owner_id, f"was {what}", text, f"{what}:{schedule.version}")
    if what == "deleted":
        # What it is about is gone, and so would be what is told of it.
        one = replace(one, subject="schedules", path="/schedules/")
    tell([one], now=now)


def _news(schedule: JobSchedule, person_id: int, what: str, text: str, key: str) -> News:
    about = f"schedule:{schedule.pk}"
    return News(
        person_id=person_id,
        kind=NoticeKind.SCHEDULE_TROUBLE,
        subject=about,
        title=f"{schedule.name} {what}",
        text=text,
        path=f"/schedules/{schedule.pk}/",
        key=f"{about}:{key}",
    )
