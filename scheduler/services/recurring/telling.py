"""What people are told of a schedule that does not do what it should."""

from __future__ import annotations

from datetime import datetime

from accounts.models import UserKind
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
