"""Saved views, for a viewer."""

from __future__ import annotations

from django.db.models import Q, QuerySet

from accounts.models import User
from scheduler.models import SavedView

# What teams share is bounded, too, so that tabs stay tabs.
MOST_SHOWN = 40


def visible_views(viewer: User, table: str = "") -> QuerySet[SavedView]:
    """The viewer's own and those shared with their teams, by name."""
    shared = Q(team__memberships__user=viewer)
    rows = SavedView.objects.filter(Q(person=viewer) | shared).distinct().order_by("name", "id")
    rows = rows.select_related("person", "team")
    return rows.filter(table=table) if table else rows
