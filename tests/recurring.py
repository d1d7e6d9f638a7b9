"""Schedules for tests."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from accounts.models import Project, User
from scheduler.models import JobSchedule
from scheduler.services.recurring.keeping import create_schedule
from scheduler.services.recurring.terms import Terms
from scheduler.spec import parse_spec
from tests.scenes import NOON


def schedule_of(
    actor: User, project: Project, *, now: datetime = NOON, job: Any = None, **terms: Any
) -> JobSchedule:
    """Every ten minutes a job `nightly` of one GPU, unless it is said otherwise."""
    asked = {"name": "nightly", "project": project.path, "script": "true", **(job or {})}
    template = terms.pop("template", None)
    said = Terms(**{"name": "Nightly", "rule": "*/10 * * * *", **terms})
    return create_schedule(
        actor=actor, spec=parse_spec(asked), terms=said, template=template, now=now
    )
