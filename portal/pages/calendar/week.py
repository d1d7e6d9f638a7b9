"""Seven days of the bookings page: nodes as rows, days as columns, and what meets what."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from django.http import HttpRequest
from django.utils import timezone

from accounts.models import User
from portal.pages.cluster.gantt import Scale, draw
from portal.pages.cluster.moments import FARTHEST
from scheduler.selectors.machines.week import week_of

WEEK = timedelta(days=7)


def week_shown(
    request: HttpRequest, viewer: User, problems: list[str], *, now: datetime
) -> dict[str, Any]:
    """The seven days from `?week=` on, from today by default; says what is wrong with it."""
    today = timezone.localtime(now).date()
    first = today
    if text := request.GET.get("week", ""):
        try:
            first = date.fromisoformat(text)
        except ValueError:
            problems.append("week: write a day such as 2026-11-20; these are the next days.")
        if abs(first - today) > FARTHEST:
            problems.append("week: lies more than two years away; these are the next days.")
            first = today
    start, end = _midnight(first), _midnight(first + WEEK)
    week = week_of(viewer, start=start, end=end, now=now)
    picture = draw(list(week.rows), Scale(start, end), now) if week.rows else ""
    return {
        "first_day": first,
        "last_day": first + WEEK - timedelta(days=1),
        "is_present": first == today,
        "week_before": (first - WEEK).isoformat(),
        "week_after": (first + WEEK).isoformat(),
        "week_picture": picture,
        "clashes": week.clashes,
        "node_names": week.nodes,
    }


def _midnight(day: date) -> datetime:
    """In UTC: spans are reckoned from it, and local days do not all have 24 hours."""
    return datetime.combine(day, time(), timezone.get_current_timezone()).astimezone(UTC)
