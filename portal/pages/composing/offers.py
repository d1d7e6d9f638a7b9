"""What the composer can offer a viewer: projects, pools, models and tiers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, QueryDict

from accounts.models import Project, User
from accounts.selectors import submittable_projects
from portal.forms.jobs import JobForm
from portal.pages.access import choice
from portal.templatetags.measures import device_short_name
from scheduler.selectors.cluster import PoolSummary, pool_summaries
from scheduler.services.submitting.ceilings import highest_open_to

DEFAULT_POOL = "default"
# So many pools are named beside the field for others of them.
_MOST_NAMED = 8


@dataclass(frozen=True, slots=True)
class Offer:
    """Read once for a page."""

    projects: tuple[Project, ...]
    pools: tuple[PoolSummary, ...]

    @property
    def models(self) -> list[str]:
        """All GPU models of the pools, sorted."""
        return sorted({model for summary in self.pools for model in summary.models})

    def form(
        self, data: QueryDict | None = None, initial: Mapping[str, Any] | None = None
    ) -> JobForm:
        """The composer's form with these choices."""
        free = [(s.pool.name, f"{s.free:,} of {s.total:,} GPUs free") for s in self.pools]
        form = JobForm(
            data,
            initial=dict(initial or {}),
            projects=[(one.path, f"{one.team.name} / {one.name}") for one in self.projects],
            highest_tier=highest_open_to(self.projects),
            pools=[(name, f"{name}: {words}") for name, words in free],
            models=[(model, device_short_name(model)) for model in self.models],
        )
        if 1 < len(free) <= _MOST_NAMED:
            form.fields["other_pools"].help_text += f" Of {', '.join(name for name, _ in free)}."
        return form

    def chosen(self, request: HttpRequest, team_id: int | None = None) -> dict[str, str]:
        """The project and pool of the address, or the first that the viewer has: of the team, if
        there is one."""
        paths = [project.path for project in self.projects]
        of_team = (project.path for project in self.projects if project.team_id == team_id)
        names = [summary.pool.name for summary in self.pools]
        first_pool = DEFAULT_POOL if DEFAULT_POOL in names else next(iter(names), "")
        return {
            "project": choice(request, "project", paths, next(of_team, next(iter(paths), ""))),
            "pool": choice(request, "pool", names, first_pool),
        }


def offer_for(viewer: User) -> Offer:
    """What this viewer may choose."""
    return Offer(tuple(submittable_projects(viewer)), tuple(pool_summaries(viewer)))
