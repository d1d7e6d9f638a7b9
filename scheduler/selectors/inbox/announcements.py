"""What operators tell everybody."""

from __future__ import annotations

from datetime import datetime

from django.db.models import QuerySet

from accounts.models import User
from scheduler.models import Announcement


def open_announcements(viewer: User, *, now: datetime) -> QuerySet[Announcement]:
    """What everybody who is signed in is told now."""
    rows = Announcement.objects.filter(ended_at__isnull=True, from_at__lte=now, until_at__gt=now)
    return rows.order_by("-is_warning", "from_at") if viewer.is_authenticated else rows.none()


def visible_announcements(viewer: User) -> QuerySet[Announcement]:
    """All there were, the latest first."""
    rows = Announcement.objects.select_related("author")
    return rows if viewer.is_authenticated else rows.none()
