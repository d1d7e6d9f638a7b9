"""Watching the job of another: who is told of it beside its owner.

A watcher is told by their own choice of kinds what the owner is told, also where the owner has held
or ended it. What the job itself asks for (`notify`) is its owner's affair; of its start, and near
its limits, those are told who chose it (`watched/starting.py`, `finishing/limits.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from django.db import transaction
from django.db.models import Q, QuerySet

from accounts.held import read_grants_of
from accounts.models import Project, User
from accounts.permissions import can
from accounts.statements import BuiltOnce
from scheduler.models import Job, JobSet, JobWatch
from scheduler.selectors.jobs import get_visible_job
from scheduler.selectors.people.watchers import (
    MOST_WATCHERS,
    may_see_jobs_of,
    who_may_see,
)
from scheduler.selectors.sets import get_visible_set
from scheduler.selectors.watching.watches import watched_by
from scheduler.services.errors import Conflict, Invalid
from scheduler.services.inbox.telling import News
from scheduler.states import FINAL_JOB_STATES, OPEN_JOB_STATES, Wish

MOST_OF_A_JOB = MOST_WATCHERS
MOST_OF_A_PERSON = 200
# What one may choose for each watch.
ALSO = (str(Wish.START), str(Wish.WARN))


@transaction.atomic
def watch_job(*, actor: User, pk: int, also: Collection[str] | None = None, now: datetime) -> None:
    """Watch a job, of a task its whole array; twice is once. `also`: `start`, to be told when it
    starts, `warn`, at 80 and 90 % of its limits; None: neither, or as it is. Raises NotFound for a
    missing and a foreign job alike, Invalid for other words, Conflict for one's own, for what is
    over, and beyond either limit."""
    job = get_visible_job(actor, pk)
    if job.job_set is not None:
        _watch_set(actor, job.job_set, also, now)
        return
    if job.state in FINAL_JOB_STATES:
        raise Conflict(
            f"Job {pk} is over, nothing more will be told of it. Watch one that is not.",
            code="job_over",
        )
    _add(actor, job, f"job {pk}", also, now)


@transaction.atomic
def watch_set(*, actor: User, pk: int, also: Collection[str] | None = None, now: datetime) -> None:
    """Watch an array as a whole; refused as a job is."""
    _watch_set(actor, get_visible_set(actor, pk), also, now)


def unwatch_job(*, actor: User, pk: int) -> None:
    """Watch it no more, of a task its array, also when it is over; without effect for who does not
    watch it. Raises NotFound for a missing and a foreign job alike."""
    job = get_visible_job(actor, pk)
    of = Q(job=job) if job.job_set_id is None else Q(job_set=job.job_set_id)
    JobWatch.objects.filter(of, person=actor).delete()


def unwatch_set(*, actor: User, pk: int) -> None:
    """As `unwatch_job`, for an array."""
    JobWatch.objects.filter(job_set=get_visible_set(actor, pk), person=actor).delete()


def _watch_set(actor: User, job_set: JobSet, also: Collection[str] | None, now: datetime) -> None:
    if not Job.objects.filter(job_set=job_set, state__in=OPEN_JOB_STATES).exists():
        raise Conflict(
            f"Array {job_set.pk} is over, nothing more will be told of it. Watch one that is not.",
            code="job_over",
        )
    _add(actor, job_set, f"array {job_set.pk}", also, now)


def _add(
    actor: User, whose: Job | JobSet, words: str, also: Collection[str] | None, now: datetime
) -> None:
    chosen = _chosen(also)
    if actor.pk == whose.owner_id:
        raise Conflict(
            f"You own {words} and are told of it anyway: choose of what under Notifications.",
            code="own_job",
        )
    of = {"job" if isinstance(whose, Job) else "job_set": whose}
    watches, project = JobWatch.objects.filter(**of), whose.project
    mine = watches.filter(person=actor).first()
    if mine is not None:
        if also is not None and chosen != {name: getattr(mine, name) for name in chosen}:
            told = {} if mine.also_start else {"start_told": _has_started(whose)}
            JobWatch.objects.filter(pk=mine.pk).update(**chosen, **told)
        return
    if len(who_may_see(watches, project)) >= MOST_OF_A_JOB:
        raise Conflict(
            f"{MOST_OF_A_JOB} people watch {words} already, more cannot: one of them has to stop.",
            code="too_many_watchers",
        )
    # Who came with a token of one project sees less than they watch.
    person = actor if actor.bound_project is None else User.objects.get(pk=actor.pk)
    if watched_by(person).count() >= MOST_OF_A_PERSON:
        raise Conflict(
            f"You watch {MOST_OF_A_PERSON} jobs and arrays that are not over, more cannot be: "
            "stop watching one (Notifications, Settings).",
            code="too_many_watched",
        )
    fields = {"since": now, **chosen, "start_told": _has_started(whose)}
    JobWatch.objects.get_or_create(person=actor, **of, defaults=fields)


def _chosen(also: Collection[str] | None) -> dict[str, bool]:
    if strange := sorted(set(also or ()) - set(ALSO)):
        raise Invalid(
            f"also: {', '.join(strange)} is nothing to choose here; write {' or '.join(ALSO)}, or "
            "both.",
            field="also",
        )
    return {f"also_{word}": word in (also or ()) for word in ALSO}


def _has_started(whose: Job | JobSet) -> bool:
    """Then its start is no news any more."""
    if isinstance(whose, Job):
        return whose.started_at is not None
    return Job.objects.filter(job_set=whose, started_at__isnull=False).exists()


def with_watchers(news: Iterable[tuple[Job, News]]) -> list[News]:
    """What owners are told of their jobs, and then who watches them."""
    pairs = list(news)
    return [*(one for _job, one in pairs), *for_watchers(pairs)]


def for_watchers(
    news: Iterable[tuple[Job, News]],
    *,
    by: Callable[[Job], object] | None = None,
    chosen: Wish | None = None,
) -> list[News]:
    """What watchers of these jobs are told, with `chosen` those alone who chose that word of
    `ALSO`; `by` gives the number of who did it. One statement for all where nobody watches, and two
    or three more, however many do, to ask what they may see.

    Who may no longer see the job is told nothing, who may not read inside it no text, and nobody
    what they did themselves. Of a session they are led to its job: its own page is for its people.
    """
    pairs = list(news)
    watchers = Watchers([job for job, _ in pairs], chosen=chosen)
    found = [
        told
        for job, one in pairs
        for told in watchers.told(job, one, by=None if by is None else by(job))
    ]
    # A team's chat has the first of those with the same key: not the words of who reads none.
    return sorted(found, key=lambda one: not one.text)


class Watchers:
    """Who watches any of these jobs, with their rights: asked once for all that is told of them."""

    def __init__(self, jobs: Sequence[Job], *, chosen: Wish | None = None) -> None:
        self._of = _watches_of(jobs, chosen) if jobs else {}
        self._projects: dict[int, Project] = {}
        if self._of:
            read_grants_of(
                list({one.pk: one for some in self._of.values() for one in some}.values())
            )
            self._projects = Project.objects.in_bulk({job.project_id for job in jobs})

    def told(self, job: Job, one: News, *, by: object = None) -> list[News]:
        """What they are told where its owner is told this; who did it (`by`, a number) is not. Asks
        nothing."""
        found = []
        for person in self._of.get(_key(job), ()):
            project = self._projects[job.project_id]
            if person.pk in (job.owner_id, by) or not may_see_jobs_of(person, project):
                continue
            text = one.text if one.for_others is None else one.for_others
            told = replace(
                one,
                person_id=person.pk,
                asked=None,
                text=text if can(person, "read_log", project) else "",
                path=f"/jobs/{job.pk}/" if one.path.startswith("/sessions/") else one.path,
            )
            found.append(told)
        return sorted(found, key=lambda one: not one.text)


def _key(job: Job) -> int:
    """The number of its array, or less than nothing its own."""
    return -job.pk if job.job_set_id is None else job.job_set_id


def _watches_of(jobs: Sequence[Job], chosen: Wish | None) -> dict[int, list[User]]:
    """By `_key`, one object for each person."""
    single = {job.pk for job in jobs if job.job_set_id is None}
    sets = {job.job_set_id for job in jobs if job.job_set_id is not None}
    found: dict[int, list[User]] = {}
    people: dict[int, User] = {}
    for row in (*_OF_JOBS.read(sorted(single)), *_OF_SETS.read(sorted(sets))):
        if chosen is not None and not getattr(row, f"also_{chosen}"):
            continue
        key = row.job_set_id if row.job_id is None else -row.job_id
        found.setdefault(key or 0, []).append(people.setdefault(row.person_id, row.person))
    return found


def _of_jobs(jobs: Sequence[int]) -> QuerySet[JobWatch]:
    return _of_active().filter(job_id__in=jobs)


def _of_sets(sets: Sequence[int]) -> QuerySet[JobWatch]:
    return _of_active().filter(job_set_id__in=sets)


def _of_active() -> QuerySet[JobWatch]:
    return JobWatch.objects.filter(person__is_active=True).select_related("person")


_OF_JOBS, _OF_SETS = BuiltOnce(_of_jobs), BuiltOnce(_of_sets)
