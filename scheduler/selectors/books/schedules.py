"""Schedules of reports for a viewer: own ones; all for those who read the books."""

from __future__ import annotations

from django.db.models import Prefetch, QuerySet

from accounts.errors import NotFound
from accounts.models import User
from accounts.permissions import can
from scheduler.models import ReportDelivery, ReportSchedule


def schedules_for(viewer: User) -> QuerySet[ReportSchedule]:
    """Those that still send, newest first, with their recipients and last deliveries."""
    last = ReportDelivery.objects.select_related("recipient").order_by("-due_on", "-pk")
    rows = _visible(viewer).filter(ended_at__isnull=True).select_related("created_by")
    return rows.prefetch_related("recipients", Prefetch("deliveries", last)).order_by("-pk")


def get_visible_schedule(viewer: User, pk: int) -> ReportSchedule:
    """Raises NotFound for a missing and for a foreign one alike."""
    found = _visible(viewer).filter(pk=pk).first()
    if found is None:
        raise NotFound("There is no such schedule for you.")
    return found


def _visible(viewer: User) -> QuerySet[ReportSchedule]:
    rows = ReportSchedule.objects.all()
    return rows if can(viewer, "read_books", None) else rows.filter(created_by=viewer)
