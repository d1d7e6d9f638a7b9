"""Watches that tell nobody anything any more go by themselves."""

from __future__ import annotations

from typing import Any

from django.db.models import F
from django.db.models.functions import Coalesce

from accounts.held import read_grants_of
from accounts.models import Project, User
from scheduler.models import JobWatch
from scheduler.selectors.people.watchers import is_open, may_see_jobs_of

_BATCH = 2_000


def forget_watches() -> int:
    """Drop those of what is over, and of whom may no longer see what they watch or is not here any
    more: nobody but them could end it, and they do not find it. Returns how many."""
    return JobWatch.objects.exclude(is_open()).delete()[0] + _forget_unseen()


def _forget_unseen() -> int:
    """A few statements for each batch of watches, however many people have them."""
    whose = {
        "project_": Coalesce(F("job__project"), F("job_set__project")),
        "team_": Coalesce(F("job__project__team"), F("job_set__project__team")),
    }
    rows: Any = JobWatch.objects.order_by("pk").annotate(**whose)
    count, last = 0, 0
    while some := list(
        rows.filter(pk__gt=last).values_list("pk", "person_id", "project_", "team_")[:_BATCH]
    ):
        people = User.objects.in_bulk({person for _, person, _, _ in some})
        read_grants_of(list(people.values()))
        unseen = [
            pk
            for pk, person, project, team in some
            if not may_see_jobs_of(people[person], Project(pk=project, team_id=team))
        ]
        count += JobWatch.objects.filter(pk__in=unseen).delete()[0] if unseen else 0
        last = some[-1][0]
    return count
