"""Lengths of time that figures are told by: days, ISO weeks and months, in UTC, in words."""

from __future__ import annotations

from calendar import monthrange
from datetime import date, timedelta

from scheduler.states import span_days

SPANS = {"day": "Day", "week": "Week", "month": "Month"}


def days_of(span: str, day: date) -> tuple[date, date]:
    """The first and the last day of the day, week (from Monday) or month a day lies in."""
    if span == "week":
        monday = day - timedelta(days=day.weekday())
        return monday, monday + timedelta(days=6)
    if span == "month":
        return day.replace(day=1), day.replace(day=monthrange(day.year, day.month)[1])
    return day, day


def words_of(span: str, first: date, last: date) -> str:
    """`20 Nov 2026`, `23 – 29 Nov 2026`, `30 Nov – 6 Dec 2026`, `November 2026`."""
    if span == "month":
        return f"{first:%B %Y}"
    return " – ".join(dict.fromkeys(span_days(first, last)))
