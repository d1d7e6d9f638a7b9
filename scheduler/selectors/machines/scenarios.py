"""Scenarios of the simulator, for those who run the cluster."""

from __future__ import annotations

from django.db.models import QuerySet

from accounts.errors import NotFound
from accounts.models import User
from accounts.permissions import is_operator
from scheduler.models import Scenario


def visible_scenarios(viewer: User) -> QuerySet[Scenario]:
    """Operators see everybody's, the newest first."""
    rows = Scenario.objects.select_related("pool", "asked_by")
    return rows if is_operator(viewer) else rows.none()


def get_visible_scenario(viewer: User, pk: int) -> Scenario:
    """Raises NotFound."""
    found = visible_scenarios(viewer).filter(pk=pk).first()
    if found is None:
        raise NotFound("There is no such scenario for you.")
    return found
