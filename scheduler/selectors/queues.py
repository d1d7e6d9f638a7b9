"""The waiting line, for a viewer: own jobs in full, others without name or owner; and what keeps
nodes from it, planned maintenance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache

from django.db.models import Case, Count, F, Q, QuerySet, When

from accounts.errors import NotFound
from accounts.models import Project, Team, User
from accounts.models.rows import partly_read, partly_reading
from accounts.permissions import can
from accounts.statements import Word, read_together
from scheduler.engine.explaining.standing import Standing
from scheduler.models import Job, MaintenanceWindow, Pool, Queue
from scheduler.selectors.calendar.bookings import BookingView, booking_rows, names_of, views_of_rows
from scheduler.states import JobState, WaitReason, wait_sentence

_FIRST, _LAST = -(2**62), 2**62
# What a row says and is ordered by; jobs and people have many columns more.
_SHOWN = (
    "id", "name", "state", "tier", "nodes", "gpus_per_node", "gpu_model", "queued_at",
    "yielded_from", "wait_reason", "wait_facts", "wait_checked_at", "pool_id", "owner_id",
    "project_id",
)  # fmt: skip
# Whose they are, beside each row: objects are made once of each person and project.
_WHOSE = (
    "owner__username", "owner__display_name",
    "project__slug", "project__team_id", "project__team__slug",
)  # fmt: skip
# Who waits for one of these stands outside the line: the scheduler counts nobody ahead of them.
_OUTSIDE = (
    WaitReason.INFEASIBLE_EVER, WaitReason.BUDGET_EXHAUSTED, WaitReason.QUOTA_HARD,
    WaitReason.QUOTA_BORROW_LIMIT, WaitReason.POOL_CLOSED, WaitReason.NODES_UNHEALTHY,
    WaitReason.MAX_COST_SHORT,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class QueueRow:
    """One place in the line. `job` is None when the viewer may not know whose it is; `team` only
    tells others apart."""

    position: int
    job: Job | None
    tier: int
    nodes: int
    gpus: int
    gpu_model: str
    queued_at: datetime
    sentence: str
    team: int
    standing: Standing | None = None


def queue_rows(
    viewer: User,
    pool: Pool,
    *,
    places: Mapping[int, Standing] | None = None,
    limit: int = 300,
) -> list[QueueRow]:
    """The pool's queued jobs in the order in which the last cycle considered them, the first
    `limit`; one query, another one for those that stand in `places`.

    `places`: by job where it stands now, if that was worked out; it decides then.
    """
    places = places or {}
    queued = _with_whose(_first(_waiting(pool), limit, places))
    ordered = sorted(queued, key=lambda job: _place(job, places.get(job.pk)))
    if not places:
        ordered = _in_own_turns(ordered)
    sees_all = can(viewer, "see_jobs", None)

    projects = {job.project_id: job.project for job in ordered}
    seen = {pk for pk, one in projects.items() if sees_all or can(viewer, "view", one)}
    return [
        _row(position, job, places.get(job.pk), is_shown=job.project_id in seen)
        for position, job in enumerate(ordered, start=1)
    ]


def own_rows_behind(
    viewer: User, pool: Pool, shown: Sequence[QueueRow], *, limit: int = 100
) -> tuple[list[QueueRow], int]:
    """The viewer's own queued jobs of the pool that are not among the rows `shown`, the first
    `limit` in their order, and how many there are; the place is the last look's, 0 where it has
    none. One query, another one where there are more."""
    me = viewer.pk
    known = [row.job.pk for row in shown if row.job is not None and row.job.owner_id == me]
    mine = _waiting(pool).filter(owner=me).exclude(pk__in=known)
    found = sorted(_with_whose(_first(mine, limit, {})), key=lambda job: _place(job, None))
    rows = [_row(place_in_line(job) or 0, job, None, is_shown=True) for job in found]
    return rows, mine.count() if len(rows) == limit else len(rows)


def _row(position: int, job: Job, standing: Standing | None, *, is_shown: bool) -> QueueRow:
    return QueueRow(
        position=position,
        job=job if is_shown else None,
        tier=job.tier,
        nodes=job.nodes,
        gpus=job.gpus,
        gpu_model=job.gpu_model,
        queued_at=job.waits_since,
        sentence=wait_sentence(job.wait_reason, job.wait_facts) if is_shown else "",
        team=job.project.team_id,
        standing=standing if is_shown else None,
    )


def _waiting(pool: Pool) -> QuerySet[Job]:
    return Job.objects.filter(pool=pool, state=Word(JobState.QUEUED))


def _with_whose(jobs: QuerySet[Job]) -> list[Job]:
    """These jobs with one object for each person and project; one query."""

    @cache
    def person(pk: int, username: str, display_name: str) -> User:
        return partly_read(User, id=pk, username=username, display_name=display_name)

    @cache
    def project(pk: int, slug: str, team: int, team_slug: str) -> Project:
        found = partly_read(Project, id=pk, slug=slug, team_id=team)
        found.team = partly_read(Team, id=team, slug=team_slug)
        return found

    of_row, found = partly_reading(Job, _SHOWN), list[Job]()
    for row in jobs.values_list(*_SHOWN, *_WHOSE):
        job = of_row(row)
        username, display_name, slug, team, team_slug = row[len(_SHOWN) :]
        # As `select_related` puts them there.
        job._state.fields_cache["owner"] = person(job.owner_id, username, display_name)
        job._state.fields_cache["project"] = project(job.project_id, slug, team, team_slug)
        found.append(job)
    return found


def _first(jobs: QuerySet[Job], limit: int, places: Mapping[int, Standing]) -> QuerySet[Job]:
    """Those whom `_place` puts first: the oldest of a tier need not be among them."""
    listed = sorted(places, key=lambda pk: places[pk].place)[:limit]
    is_outside = Case(When(wait_reason__in=_OUTSIDE, then=1), default=0)
    place = F("wait_facts__ahead").asc(nulls_last=True)
    order = (is_outside, "-tier", place, "queued_at", "id")
    others = jobs.exclude(pk__in=listed) if listed else jobs
    # Their numbers are put in order, and what is said of a job is read of those that are shown.
    shown = Q(pk__in=others.order_by(*order).values("pk")[: limit - len(listed)])
    if listed:
        shown |= Q(pk__in=jobs.filter(pk__in=listed).values("pk"))
    return Job.objects.filter(shown).order_by(*order)


def _place(job: Job, standing: Standing | None) -> tuple[int, int, int]:
    """What to sort by, the next first: in the line or not, tier, then the order as it is known."""
    if standing is not None:
        return 0, _FIRST, standing.place
    return int(_is_outside(job)), -job.tier, place_in_line(job) or _LAST


def _is_outside(job: Job) -> bool:
    """Who cannot start, whatever becomes free, stands behind who can."""
    return job.wait_reason in _OUTSIDE


def _in_own_turns(ordered: list[Job]) -> list[Job]:
    """The same with the jobs of those who chose an order of their own in it, as the next look at
    the line will find them; they stand where one of them stands already.
    """
    chose = {(job.owner_id, job.tier) for job in ordered if job.yielded_from is not None}
    if not chose:
        return ordered
    turns: dict[tuple[int, int], list[Job]] = {}
    for job in ordered:
        if (job.owner_id, job.tier) in chose and not _is_outside(job):
            turns.setdefault((job.owner_id, job.tier), []).append(job)
    left = {
        whose: iter(sorted(jobs, key=lambda job: (job.queued_at, job.pk)))
        for whose, jobs in turns.items()
    }
    return [
        next(left[job.owner_id, job.tier])
        if (job.owner_id, job.tier) in left and not _is_outside(job)
        else job
        for job in ordered
    ]


def place_in_line(job: Job) -> int | None:
    """Its place in its pool's line from 1, as the last look found it; None where nobody knows."""
    ahead = job.wait_facts.get("ahead")
    known = job.state == JobState.QUEUED and isinstance(ahead, int) and not _is_outside(job)
    return ahead + 1 if known else None


def position_in_queue(job: Job) -> int | None:
    """The same, and until a look found it the place by tier and time; None when not queued."""
    if job.state != JobState.QUEUED:
        return None
    return place_in_line(job) or _ahead(job).count() + 1


def places_of(job: Job) -> dict[str, int | None]:
    """The same as `position`, and as `place_in_team` among the jobs of its team; one query."""
    if job.state != JobState.QUEUED:
        return {"position": None, "place_in_team": None}
    in_team = Q(project__team=job.project.team_id)
    place = place_in_line(job)
    if place is None:
        counts = {"all": Count("pk"), "team": Count("pk", filter=in_team)}
        found = _ahead(job).order_by().aggregate(**counts)
        return {"position": found["all"] + 1, "place_in_team": found["team"] + 1}
    waiting = Job.objects.filter(in_team, pool=job.pool_id, state=JobState.QUEUED)
    before = Q(tier__gt=job.tier) | Q(tier=job.tier, wait_facts__ahead__lt=place - 1)
    # Who stands outside the line is not before anybody.
    ours = waiting.exclude(wait_reason__in=_OUTSIDE).filter(before).count()
    return {"position": place, "place_in_team": ours + 1}


def _ahead(job: Job) -> QuerySet[Job]:
    is_earlier = Q(queued_at__lt=job.queued_at) | Q(queued_at=job.queued_at, pk__lt=job.pk)
    ahead = Q(tier__gt=job.tier) | (Q(tier=job.tier) & is_earlier)
    is_in_line = ~Q(wait_reason__in=_OUTSIDE)
    ahead = is_in_line | ahead if _is_outside(job) else is_in_line & ahead
    return Job.objects.filter(ahead, pool=job.pool_id, state=JobState.QUEUED)


def queues_of(viewer: User, pool: Pool) -> list[Queue]:
    """The waiting lines into a pool."""
    if not viewer.is_authenticated:
        return []
    return list(pool.queues.all())


@dataclass(frozen=True, slots=True)
class WindowView:
    """A window, and the names of its nodes; none means all of the pool."""

    window: MaintenanceWindow
    nodes: tuple[str, ...]


def window_views(viewer: User, *, now: datetime) -> list[WindowView]:
    """Those that are not over or cancelled; everybody who is signed in may see them. Two queries
    at most."""
    return views_of_windows(list(window_rows(now)))


def window_rows(now: datetime) -> QuerySet[MaintenanceWindow]:
    """Of `window_views`."""
    open_ones = MaintenanceWindow.objects.filter(until_at__gt=now, cancelled_at=None)
    return open_ones.select_related("pool")


def views_of_windows(
    windows: Sequence[MaintenanceWindow], names: Mapping[int, str] | None = None
) -> list[WindowView]:
    """With their nodes by name; no query where the `names` are known."""
    names = names_of((pk for window in windows for pk in window.nodes), names)
    return [
        WindowView(window, tuple(sorted(names[pk] for pk in window.nodes if pk in names)))
        for window in windows
    ]


def planned_views(
    viewer: User, *, now: datetime, names: Mapping[int, str]
) -> tuple[list[BookingView], list[WindowView]]:
    """All that is planned or active, and one's own bookings of the last days; one query where the
    `names` of the nodes are known, two more where some are not."""
    bookings, windows = read_together(
        booking_rows(viewer, now=now, with_past=True), window_rows(now)
    )
    views = views_of_rows(viewer, bookings, now=now, names=names)
    return views, views_of_windows(windows, names)


def get_visible_window(viewer: User, pk: int) -> MaintenanceWindow:
    """Raises NotFound."""
    found = MaintenanceWindow.objects.filter(pk=pk).first()
    if found is None:
        raise NotFound()
    return found


def start_window(job: Job) -> tuple[datetime | None, datetime | None]:
    """From when it probably starts until when at the latest, as the last look found it; None while
    it does not wait for its turn, or nobody knows."""
    facts = job.wait_facts if job.state == JobState.QUEUED else {}
    told = (facts.get("start_p50_at"), facts.get("start_p90_at"))
    first, last = (datetime.fromtimestamp(m, UTC) if isinstance(m, int) else None for m in told)
    return first, last
