"""The recent past once more, with and without a grant, in the simulator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count

from accounts.models import Project, Team
from scheduler.engine.policy import Policy
from scheduler.engine.snapshot import NONE
from scheduler.models import Device, Job, Node, Pool, Quota
from scheduler.selectors.traces import Window, window_of
from scheduler.services.requesting.amounts import FIELD_OF
from scheduler.services.sharing.effective import Effective, effective_of
from scheduler.services.sharing.policies import policy_of_pool
from scheduler.simulator.events import ClusterEvent, Happening
from scheduler.simulator.teams import Teams
from scheduler.simulator.whatif import Impact, Setting, impact_of
from scheduler.states import REPLAYED_KINDS, NodeState, RequestKind

USUAL_DAYS = 14
WEEK = timedelta(days=7)
# About 4 ms of CPU for a job and a replay: three replays of so many stay below ten seconds.
MOST_JOBS = 600
# What is answered while somebody waits for a page.
MOST_JOBS_AT_ONCE = 150


@dataclass(frozen=True, slots=True)
class Question:
    """What would be granted to whom; `amounts` are the choices beside nothing, in GPUs.

    `hours`: from when until when they would be booked, for a booking alone.
    """

    owner: Team | Project
    kind: RequestKind
    pool: Pool | None
    gpu_model: str
    amounts: tuple[int, ...]
    hours: tuple[datetime, datetime] | None = None

    @property
    def team(self) -> Team:
        """Whose request it is, or whose project's."""
        return self.owner.team if isinstance(self.owner, Project) else self.owner

    @property
    def name(self) -> str:
        """As the rows of a window call it."""
        return self.owner.path if isinstance(self.owner, Project) else self.owner.slug


@dataclass(frozen=True, slots=True)
class Past:
    """What was replayed; `impact` is None where no job of that time has ended."""

    pool: Pool | None
    since: datetime
    until: datetime
    window: Window | None
    impact: Impact | None
    notes: tuple[str, ...]


def replay_past(
    question: Question,
    *,
    now: datetime,
    days: float = USUAL_DAYS,
    most_jobs: int = MOST_JOBS,
    tell: Callable[[int], None] = lambda _done: None,
) -> Past:
    """The jobs of the last days in each setting: without the grant, then with each amount."""
    since = now - timedelta(days=days)
    pool = question.pool or _busiest_pool(question.team, since)
    if pool is None:
        return Past(None, since, now, None, None, ("There is no pool yet.",))
    apart = question.owner if isinstance(question.owner, Project) else None
    window = window_of(pool, since, now, apart=apart, most_jobs=most_jobs)
    if not len(window.workload):
        return Past(pool, since, now, window, None, ())
    models = models_of(pool)
    notes = _notes(question, window, most_jobs, models)
    if question.kind not in REPLAYED_KINDS:
        return Past(pool, since, now, window, None, notes)
    policy, said = replayable_policy(pool)
    base = teams_today(window, pool, {question.gpu_model} - {""} or models, now, apart=apart)
    settings = [Setting(nodes=window.nodes, policy=policy, teams=base)]
    for amount in question.amounts:
        settings.append(_with(settings[0], question, amount, window, since, now))
    impact = impact_of(window.workload, settings, tell)
    return Past(pool, since, now, window, impact, (*notes, *said))


def _with(
    base: Setting, question: Question, amount: int, window: Window, since: datetime, now: datetime
) -> Setting:
    """As it was, with so much of what is asked for."""
    if question.hours is not None:
        booked = _booked(question.hours, amount, window, since, now)
        return replace(base, events=booked)
    assert base.teams is not None
    return replace(base, teams=with_grant(base.teams, question, amount))


def _booked(
    hours: tuple[datetime, datetime], amount: int, window: Window, since: datetime, now: datetime
) -> tuple[ClusterEvent, ...]:
    """Nodes that take no new job in the same hours of the week, the last time that these were."""
    back = -(-(hours[1] - now) // WEEK) * WEEK
    begin_s, end_s = ((one - back - since).total_seconds() for one in hours)
    nodes = min(window.nodes, -(-amount // window.workload.gpus_per_node))
    return tuple(
        ClusterEvent(at_s, what, node)
        for at_s, what in ((max(0.0, begin_s), Happening.DRAIN), (end_s, Happening.RESTORE))
        for node in range(nodes)
    )


def with_grant(teams: Teams, question: Question, amount: int) -> Teams:
    """The same teams once the grant is in force; a guarantee takes the maximum along."""
    if question.name not in teams.names:
        return teams
    row = teams.names.index(question.name)
    field = FIELD_OF[question.kind]
    column = list(getattr(teams, field))
    column[row] = max(0, column[row]) + amount
    changed: dict[str, Any] = {field: tuple(column)}
    if field == "guaranteed" and teams.maximum[row] != NONE:
        most = list(teams.maximum)
        most[row] = max(most[row], column[row])
        changed["maximum"] = tuple(most)
    return replace(teams, **changed)


def _busiest_pool(team: Team, since: datetime) -> Pool | None:
    """Where the team ran most lately, else the first pool."""
    rows = Job.objects.filter(project__team=team, queued_at__gte=since).order_by()
    counted = rows.values("pool_id").annotate(jobs=Count("id")).order_by("-jobs", "pool_id")
    first = counted.first()
    pools = Pool.objects.order_by("pk")
    return pools.filter(pk=first["pool_id"]).first() if first else pools.first()


def replayable_policy(pool: Pool) -> tuple[Policy, tuple[str, ...]]:
    """The rule in force in the pool, as far as the simulator can follow it."""
    policy = policy_of_pool(pool)
    if policy.stops_lower_tiers:
        words = "Stops for jobs of higher tiers are not replayed: all jobs count as normal ones."
        return replace(policy, preempts=False), (words,)
    return policy, ()


def _notes(question: Question, window: Window, most_jobs: int, models: set[str]) -> tuple[str, ...]:
    notes = []
    if question.kind is RequestKind.WALLTIME:
        notes.append("Waits are not replayed: nobody knows which jobs would have asked for longer.")
    elif question.kind is RequestKind.RESERVATION:
        notes.append(
            "Whole nodes are replayed as booked, in the same hours of the last week that had them; "
            "jobs that ran there stay, and what would run inside is left out."
        )
    elif question.kind not in REPLAYED_KINDS:
        notes.append("Waits are not replayed: budgets limit hours, not who goes first.")
    if len(window.workload) + window.skipped >= most_jobs:
        notes.append(f"Only the newest {most_jobs} jobs of that time were replayed.")
    if window.skipped:
        notes.append(f"{window.skipped} jobs without GPUs, or larger than the pool, are left out.")
    if len(models) > 1:
        notes.append("The simulator takes all GPUs of a pool for equal.")
    return tuple(notes)


def teams_today(
    window: Window, pool: Pool, models: set[str], now: datetime, *, apart: Project | None = None
) -> Teams:
    """Limits of today for those who ran; of several rows of one account the tightest."""
    slugs = [name for name in window.teams if "/" not in name]
    quotas = list(
        Quota.objects.filter(account__team__slug__in=slugs).select_related("account__team")
    )
    if apart is not None:
        quotas += list(Quota.objects.filter(account__project=apart))
    effective = effective_of(quotas, now=now)
    by_name: dict[str, list[Effective]] = {}
    for quota in quotas:
        if quota.pool_id not in (None, pool.pk):
            continue
        if quota.gpu_model and quota.gpu_model not in models:
            continue
        team = quota.account.team
        name = team.slug if team else apart.path if apart else ""
        by_name.setdefault(name, []).append(effective[quota.pk])
    own = [by_name.get(name, []) for name in window.teams]
    return Teams(
        names=window.teams,
        weight=(1.0,) * len(window.teams),
        guaranteed=tuple(max((one.guaranteed for one in rows), default=0) for rows in own),
        maximum=tuple(_tightest([one.maximum for one in rows]) for rows in own),
        borrow_limit=tuple(_tightest([one.borrow_limit for one in rows]) for rows in own),
        lend_limit=tuple(_tightest([one.lend_limit for one in rows]) for rows in own),
        parent=window.parents,
    )


def _tightest(limits: Sequence[int | None]) -> int:
    return min((one for one in limits if one is not None), default=NONE)


def models_of(pool: Pool) -> set[str]:
    """What GPUs it has."""
    devices = Device.objects.filter(node__pool=pool, is_present=True, in_service=True)
    return set(devices.order_by().values_list("model", flat=True).distinct())


def gpus_in_service(pool: Pool | None, gpu_model: str) -> int:
    """Of this pool and model, on nodes that have not been retired."""
    nodes = Node.objects.exclude(state=NodeState.RETIRED)
    devices = Device.objects.filter(node__in=nodes, is_present=True, in_service=True)
    if pool is not None:
        devices = devices.filter(node__pool=pool)
    return (devices.filter(model=gpu_model) if gpu_model else devices).count()
