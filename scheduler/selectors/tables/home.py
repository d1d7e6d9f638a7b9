"""What stands on the home page beside jobs, quotas and pools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import TextField, Value
from django.db.models.functions import Concat

from accounts.models import User
from accounts.selectors import submittable_projects
from scheduler.selectors.composing.drafts import drafts_of
from scheduler.selectors.inbox import open_announcements
from scheduler.selectors.jobs import visible_jobs
from scheduler.selectors.saved.scopes import Scope
from scheduler.selectors.tables.together import Part, Small, together
from scheduler.selectors.waits.deciding import Decided, decided_by, leases

MOST_DRAFTS = 3
_PATH = Concat("team__slug", Value("/"), "slug", output_field=TextField())


@dataclass(frozen=True, slots=True)
class ProjectHere:
    """A project one may submit to."""

    pk: int
    path: str
    name: str


@dataclass(frozen=True, slots=True)
class Told:
    """What operators tell everybody now."""

    text: str
    is_warning: bool
    until_at: datetime


@dataclass(frozen=True, slots=True)
class Beside:
    """`drafts` have number, name (`word`) and moment (`at`), one more than a page shows;
    `has_submitted`: any job of their own, however old; `decided`: when the scheduler last did."""

    projects: Sequence[ProjectHere]
    announcements: Sequence[Told]
    drafts: Sequence[Small]
    has_submitted: bool
    decided: Decided


def beside_jobs(viewer: User, scope: Scope, *, now: datetime) -> Beside:
    """One statement."""
    told = open_announcements(viewer, now=now)
    found = together(
        Part(
            "project",
            submittable_projects(viewer).filter(scope.part_of()),
            word=_PATH,
            more="name",
        ),
        Part("warning", told.filter(is_warning=True), word="text", at="until_at"),
        Part("told", told.filter(is_warning=False), word="text", at="until_at"),
        Part("draft", drafts_of(viewer)[: MOST_DRAFTS + 1], word="name", at="saved_at"),
        Part("own", visible_jobs(viewer).filter(owner=viewer).order_by()[:1]),
        Part("lease", leases(), number="token", at="expires_at"),
    )
    return Beside(
        [ProjectHere(one.number, one.word, one.more) for one in _by_path(found["project"])],
        [
            Told(one.word, what == "warning", one.at or now)
            for what in ("warning", "told")
            for one in sorted(found[what])
        ],
        sorted(found["draft"], key=lambda one: (one.at or now, one.number), reverse=True),
        bool(found["own"]),
        decided_by(next((one.at for one in found["lease"]), None), now=now),
    )


def _by_path(projects: list[Small]) -> list[Small]:
    return sorted(projects, key=lambda one: one.word.split("/"))
