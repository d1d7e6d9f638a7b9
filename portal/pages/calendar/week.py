"""The week of the bookings page: nodes as rows, days as columns, and what meets what."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from typing import Any

from django.http import HttpRequest
from django.utils import timezone

from accounts.models import User
from portal.pages.cluster.timeline import FARTHEST, Scale, draw
from scheduler.selectors.machines.week import week_of

_DAY_MIN = 1440


def week_shown(
    request: HttpRequest, viewer: User, problems: list[str], *, now: datetime
) -> dict[str, Any]:
    """The week of `?week=`, a day in it, and of today by default; says what is wrong with it."""
    today = timezone.localtime(now).date()
    day = today
    if text := request.GET.get("week", ""):
        try:
            day = date.fromisoformat(text)
        except ValueError:
            problems.append("week: write a day such as 2026-11-20; this is the present week.")
        if abs(day - today) > FARTHEST:
            problems.append("week: lies more than two years away; this is the present week.")
            day = today
    monday = day - timedelta(days=day.weekday())
    start, end = _midnight(monday), _midnight(monday + timedelta(days=7))
    week = week_of(viewer, start=start, end=end, now=now)
    return {
        "monday": monday,
        "is_present": monday <= today < monday + timedelta(days=7),
        "week_before": (monday - timedelta(days=7)).isoformat(),
        "week_after": (monday + timedelta(days=7)).isoformat(),
        "week_picture": draw(list(week.rows), Scale(start, end), now, _DAY_MIN)
        if week.rows
        else "",
        "clashes": week.clashes,
    }


def _midnight(day: date) -> datetime:
    return timezone.make_aware(datetime.combine(day, time()))
