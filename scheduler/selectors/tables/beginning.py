"""How far a new installation is: what its first page ticks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from accounts.models import DemoMark, User
from accounts.selectors import visible_projects
from scheduler.selectors.cluster import visible_nodes
from scheduler.selectors.jobs import visible_jobs
from scheduler.selectors.tables.together import Part, together
from scheduler.states import JobState


@dataclass(frozen=True, slots=True)
class Beginning:
    """`done`: the number of the first job that went well, 0 for none; `demo_since`: since when a
    demonstration is here."""

    has_project: bool
    has_node: bool
    has_job: bool
    done: int
    demo_since: datetime | None


def beginning_of(viewer: User) -> Beginning:
    """As far as the viewer may see it; one statement."""
    jobs = visible_jobs(viewer).order_by("pk")
    found = together(
        Part("project", visible_projects(viewer)[:1]),
        Part("node", visible_nodes(viewer)[:1]),
        Part("job", jobs[:1]),
        Part("done", jobs.filter(state=JobState.SUCCEEDED)[:1]),
        Part("demo", DemoMark.objects.order_by("pk")[:1], at="seeded_at"),
    )
    return Beginning(
        bool(found["project"]),
        bool(found["node"]),
        bool(found["job"]),
        next((one.number for one in found["done"]), 0),
        next((one.at for one in found["demo"]), None),
    )
