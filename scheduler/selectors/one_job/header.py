"""A job with what the header of its pages says, in the statement that finds the job."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from django.db.models import Count, Exists, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.utils import timezone

from accounts.models import User
from accounts.models.rows import moment_in, rows_in
from accounts.statements import AskedOnceFor
from scheduler.models import Attempt, Job, JobEvent, Placement
from scheduler.selectors.checkpoints import Saved
from scheduler.selectors.inbox import calls_along, keep_calls
from scheduler.selectors.jobs import may_read_inside, read_visible_job, visible_jobs
from scheduler.selectors.one_job.carried import carried, document
from scheduler.selectors.one_job.happened import NEWEST, newest_along, told_events
from scheduler.selectors.one_job.idling import IdleStanding, standing_in, warnings_along
from scheduler.selectors.one_job.tries import tries_along, tries_in
from scheduler.selectors.people.watchers import Watcher, watchers_along, watchers_in
from scheduler.selectors.printed.silences import Silence, silences_along, silences_in
from scheduler.selectors.recurring.along import schedule_along
from scheduler.selectors.waits.deciding import decided_along
from scheduler.selectors.waits.waiters import Waiters, waiters_along, waiters_in
from scheduler.states import FINAL_JOB_STATES, LIVE_JOB_STATES, NodeState

_SILENT = (NodeState.SILENT, NodeState.LOST)


@dataclass(frozen=True, slots=True)
class Header:
    """`is_unreachable`: it lives on a node that is silent now. `saved`: the last checkpoint.

    `events`: the latest of its `events_count`, as many as were asked for, the newest first; all its
    checkpoints among them, if asked for.
    `attempts`: those that were placed, oldest first, with placements and nodes, if asked for; of
    the first rank of the latest the `silences`, if asked for. `lease_until`: see `decided_by`.
    `waiters`: who waits for it, if asked for, and `watchers`.
    `idle`: how it stands where its GPUs do little.
    """

    job: Job
    is_unreachable: bool
    saved: Saved | None
    events_count: int
    events: list[JobEvent]
    attempts: list[Attempt] = field(default_factory=list)
    silences: list[Silence] = field(default_factory=list)
    lease_until: datetime | None = None
    waiters: Waiters = field(default_factory=Waiters)
    idle: IdleStanding | None = None
    watchers: list[Watcher] = field(default_factory=list)


class _Parts(NamedTuple):
    """What is asked for; see `job_with_header`."""

    events: int
    checkpoints: bool
    tries: bool
    silences: bool
    calls: bool
    waiters: bool


def _headed(asked: tuple[User, _Parts], pk: int) -> QuerySet[Job]:
    viewer, parts = asked
    held = Placement.objects.filter(attempt__job=pk, ended_at=None, node__state__in=_SILENT)
    more: dict[str, Any] = {
        "silent_": Exists(held),
        "saved_": _checkpoint(pk),
        "count_": _count(told_events(pk)),
        "lease_until_": decided_along(),
        "idle_": warnings_along(pk),
        **schedule_along(),
    }
    if parts.events:
        more["events_"] = _latest(pk, parts.events, whole=parts.checkpoints)
    if parts.tries:
        more["tries_"] = tries_along(pk)
    if parts.silences:
        more["silences_"] = silences_along(pk)
    if parts.waiters:
        more["waiters_"] = waiters_along(viewer, job=pk)
        more["watchers_"] = watchers_along(job=pk)
    if parts.calls:
        more |= calls_along(viewer)
    return visible_jobs(viewer).filter(pk=pk).annotate(**more)


_HEADED: AskedOnceFor[tuple[User, _Parts]] = AskedOnceFor(_headed)


def job_with_header(
    viewer: User,
    pk: int,
    *,
    events: int = 0,
    checkpoints: bool = False,
    tries: bool = False,
    silences: bool = False,
    calls: bool = True,
    waiters: bool = False,
) -> Header:
    """One statement; raises NotFound for a missing and for a foreign job alike.

    It equals `get_visible_job`, then `unreachable_job_ids`, `latest_saved` and `job_events`, and
    `attempts_of` without devices. `calls`: what calls for the viewer comes along, for whole pages.
    """
    parts = _Parts(events, checkpoints, tries, silences, calls, waiters)
    job: Any = read_visible_job(_HEADED, viewer, pk, parts)
    keep_calls(viewer, job)
    return Header(
        job,
        job.silent_ and job.state in LIVE_JOB_STATES,
        _saved(viewer, job, job.saved_),
        job.count_,
        _events(job, job.events_) if events else [],
        tries_in(job, job.tries_) if tries else [],
        silences_in(job.silences_) if silences else [],
        job.lease_until_,
        waiters_in(job.waiters_) if waiters else Waiters(),
        standing_in(viewer, job, job.idle_, now=timezone.now()),
        _watchers(viewer, job) if waiters else [],
    )


def _watchers(viewer: User, job: Any) -> list[Watcher]:
    is_over = job.state in FINAL_JOB_STATES
    return [] if is_over else watchers_in(viewer, job.project, job.watchers_)


def _count(history: Any) -> Any:
    count = history.values("job").annotate(count_=Count("pk")).values("count_")
    return Coalesce(Subquery(count), 0)


def _checkpoint(pk: int) -> Any:
    told = Attempt.objects.filter(job=pk, checkpoint_at__isnull=False, placements__rank=0)
    fields = ("number", "step", "bytes", "digest", "at", "path")
    columns = [name if name == "number" else f"checkpoint_{name}" for name in fields]
    return carried(told.order_by("-number")[:1], *columns, "placements__node__name")


def _saved(viewer: User, job: Job, told: str) -> Saved | None:
    for number, step, size, digest, at, path, node in rows_in(told):
        path = path if may_read_inside(viewer, job) else ""
        return Saved(number, step or 0, size or 0, digest, moment_in(at), node, path)
    return None


def _latest(pk: int, most: int, *, whole: bool) -> Any:
    """The newest, all checkpoints among them or, with what comes along, two of each attempt."""
    every: Any = JobEvent.objects.filter(job=pk).order_by()
    told = every if whole else told_events(pk).annotate(**newest_along(pk))
    return carried(
        told.order_by("-pk")[:most],
        "pk", "at", "kind", "from_state", "to_state", "detail",
        "actor", "actor__username", "actor__display_name", *(() if whole else NEWEST),
    )  # fmt: skip


def _events(job: Job, told: str) -> list[JobEvent]:
    """As the database has them; of who did it only the names."""
    found = []
    for pk, at, kind, begin, end, detail, who, username, name, *newest in rows_in(told):
        actor = None
        if who is not None:
            actor = User(pk=who, username=username, display_name=name)
        event = JobEvent(pk=pk, job=job, kind=kind, from_state=begin, to_state=end, actor=actor)
        event.at, event.detail = moment_in(at), document(detail)
        for column, value in zip(NEWEST, newest, strict=False):
            setattr(event, column, moment_in(value) if column == "newest_at_" else value)
        found.append(event)
    return sorted(found, key=lambda event: event.pk, reverse=True)
