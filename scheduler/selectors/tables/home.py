"""What stands on the home page: one's own jobs, and what is beside them, quotas and pools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import reduce
from operator import or_
from typing import Any

from django.db.models import Q, QuerySet, TextField, Value
from django.db.models.functions import Concat

from accounts.held import picture_of
from accounts.models import Team, User
from accounts.permissions import team_ids_for
from accounts.selectors import submittable_projects
from accounts.statements import AskedOnceFor
from scheduler.models import Job
from scheduler.selectors.composing.drafts import drafts_of
from scheduler.selectors.inbox import open_announcements
from scheduler.selectors.jobs import one_of_each_set, visible_jobs
from scheduler.selectors.saved.scopes import EVERYTHING, Scope
from scheduler.selectors.tables import of_sets
from scheduler.selectors.tables.together import Part, Small, as_one, by_kind
from scheduler.selectors.waits.deciding import Decided, decided_by, leases
from scheduler.states import FINAL_JOB_STATES, LIVE_JOB_STATES, WAITING_JOB_STATES

MOST_DRAFTS = 3
MOST_LED = 20
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
    `has_submitted`: any job of their own, however old; `decided`: when the scheduler last did;
    `led`: name and slug of the teams that the viewer leads, by name, of administrators none."""

    projects: Sequence[ProjectHere]
    announcements: Sequence[Told]
    drafts: Sequence[Small]
    has_submitted: bool
    decided: Decided
    led: Sequence[tuple[str, str]]


def _beside(asked: tuple[User, Scope], now: datetime) -> QuerySet[Any, tuple[Any, ...]]:
    viewer, scope = asked
    told = open_announcements(viewer, now=now)
    led = Team.objects.filter(pk__in=team_ids_for(viewer, "manage_team") or ()).order_by("name")
    return as_one(
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
        Part("team", led[:MOST_LED], word="slug", more="name"),
    )


_BESIDE: AskedOnceFor[tuple[User, Scope]] = AskedOnceFor(_beside)


def beside_jobs(viewer: User, scope: Scope, *, now: datetime) -> Beside:
    """One statement."""
    found = by_kind(_BESIDE.read((viewer, scope), picture_of(viewer, scope), now))
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
        sorted((one.more, one.word) for one in found["team"]),
    )


def _by_path(projects: list[Small]) -> list[Small]:
    return sorted(projects, key=lambda one: one.word.split("/"))


@dataclass(frozen=True, slots=True)
class HomeJobs:
    """A person's own jobs by what they do now, of the tasks of an array one in each list; `cut`: of
    which of them there are more; `told`: by array, what its tasks are at."""

    live: list[Job]
    waiting: list[Job]
    finished: list[Job]
    cut: frozenset[str] = frozenset()
    told: Mapping[int, of_sets.Told] = field(default_factory=dict)

    @property
    def everything(self) -> list[Job]:
        """All of them."""
        return [*self.live, *self.waiting, *self.finished]


def _jobs(asked: tuple[User, Scope, int], week: datetime) -> QuerySet[Job]:
    viewer, within, limit = asked
    mine = Job.objects.filter(within.part_of("project"), owner=viewer)
    live_ones = one_of_each_set(mine.filter(state__in=LIVE_JOB_STATES))
    waits = one_of_each_set(mine.filter(state__in=WAITING_JOB_STATES), first=True)
    over = one_of_each_set(mine.filter(state__in=FINAL_JOB_STATES, ended_at__gte=week))
    parts = (
        live_ones.order_by("-started_at", "-id"),
        waits.order_by("-tier", "queued_at"),
        over.order_by("-ended_at"),
    )
    is_one = reduce(or_, (Q(pk__in=part.values("pk")[: limit + 1]) for part in parts))
    return visible_jobs(viewer).filter(is_one).annotate(**of_sets.told_along("job_set"))


_JOBS: AskedOnceFor[tuple[User, Scope, int]] = AskedOnceFor(_jobs)


def home_jobs(
    viewer: User, *, now: datetime, limit: int = 12, within: Scope = EVERYTHING
) -> HomeJobs:
    """The viewer's own jobs: running, waiting, and finished in the last week. One query.

    Of an array that waits the first task stands there, which starts next; an array has finished
    once none of its tasks runs or waits above.
    """
    key = picture_of(viewer, within, limit)
    found = _JOBS.read((viewer, within, limit), key, now - timedelta(days=7))
    states = (LIVE_JOB_STATES, WAITING_JOB_STATES, FINAL_JOB_STATES)
    live, waiting, ended = ([job for job in found if job.state in these] for these in states)
    lists = {"live": live, "waiting": waiting, "finished": ended}
    cut = frozenset(name for name, jobs in lists.items() if len(jobs) > limit)
    above = {job.job_set_id for job in (*live, *waiting)} - {None}
    ended = [job for job in ended if job.job_set_id not in above]
    return HomeJobs(
        sorted(live, key=lambda job: (job.started_at or now, job.pk), reverse=True)[:limit],
        sorted(waiting, key=lambda job: (-job.tier, job.queued_at))[:limit],
        sorted(ended, key=lambda job: job.ended_at or now, reverse=True)[:limit],
        cut,
        {job.job_set_id: of_sets.told_in(job) for job in found if job.job_set_id is not None},
    )
