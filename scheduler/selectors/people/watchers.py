"""Who watches a job or an array and may still see it."""

from __future__ import annotations

from typing import Any, NamedTuple

from django.db.models import Exists, F, OuterRef, Q, QuerySet

from accounts.held import read_grants_of
from accounts.models import Project, User
from accounts.models.rows import AsJson, rows_in
from accounts.permissions import can
from scheduler.models import Job, JobWatch
from scheduler.states import OPEN_JOB_STATES

# Of a job or an array.
MOST_WATCHERS = 20
# Who may no longer see it stands among them.
_LOOKED_AT = 5 * MOST_WATCHERS
_FIELDS = {
    "watch_": F("pk"),
    "number_": F("person"),
    "name_": F("person__username"),
    "rules_": F("person__is_superuser"),
    "kind_": F("person__kind"),
    "start_": F("also_start"),
    "warn_": F("also_warn"),
}


class Watcher(NamedTuple):
    """One who is told of it, by number and user name, and whether they chose its start, and its
    limits, too."""

    number: int
    name: str
    also_start: bool
    also_warn: bool


def is_open() -> Exists:
    """Of watches: those of what is not over."""
    going = Job.objects.filter(state__in=OPEN_JOB_STATES).order_by()
    its = Q(pk=OuterRef("job")) | Q(job_set=OuterRef("job_set"))
    return Exists(going.filter(its))


def watchers_along(*, job: int | None = None, job_set: int | None = None) -> Any:
    """Those of a job, of a task its array's, or of an array, beside the statement that finds it."""
    of = Q(job_set=job_set) if job is None else Q(job=job) | Q(job_set=OuterRef("job_set"))
    rows = JobWatch.objects.filter(of, person__is_active=True)
    named = rows.order_by("pk").annotate(**_FIELDS).values_list(*_FIELDS)[:_LOOKED_AT]
    return AsJson(named, columns=", ".join(_FIELDS))


def watchers_in(viewer: User, project: Project, told: str | None) -> list[Watcher]:
    """Those who may still see it, the first first. One statement where others than the viewer
    watch."""
    rows = sorted(rows_in(told))
    others = [
        User(pk=number, username=name, is_superuser=is_superuser, kind=kind)
        for _, number, name, is_superuser, kind, _, _ in rows
        if number != viewer.pk
    ]
    read_grants_of(others)
    seen = {one.pk for one in others if may_see_jobs_of(one, project)} | {viewer.pk}
    # SQLite writes what is true as 1.
    return [
        Watcher(number, name, bool(start), bool(warn))
        for _, number, name, _, _, start, warn in rows
        if number in seen
    ][:MOST_WATCHERS]


def own_watch(viewer: User, watchers: list[Watcher]) -> Watcher | None:
    """The viewer's among them."""
    return next((one for one in watchers if one.number == viewer.pk), None)


def who_may_see(watches: QuerySet[JobWatch], project: Project) -> list[int]:
    """The numbers of those of these watches who may see jobs of the project; two statements."""
    rows = watches.filter(person__is_active=True).select_related("person")
    people = [row.person for row in rows]
    read_grants_of(people)
    return [one.pk for one in people if may_see_jobs_of(one, project)]


def may_see_jobs_of(person: User, project: Project) -> bool:
    """Whether `visible_jobs` has those of the project; asks nothing but rights."""
    return can(person, "see_jobs", None) or can(person, "view", project)
