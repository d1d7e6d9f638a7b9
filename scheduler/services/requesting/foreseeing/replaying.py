"""The recent past once more, with and without a grant, in the simulator."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeAlias

from django.db.models import Count

from accounts.models import Project, Team
from scheduler.engine.policy import Policy
from scheduler.engine.snapshot import NONE
from scheduler.models import Account, Device, Job, Node, Pool, Quota
from scheduler.selectors.traces import Window, window_of
from scheduler.services.requesting.amounts import FIELD_OF, quota_for
from scheduler.services.sharing.effective import Effective, effective_of
from scheduler.services.sharing.policies import policy_in_force
from scheduler.simulator.events import ClusterEvent, Happening
from scheduler.simulator.pools import by_pool
from scheduler.simulator.teams import PoolLimit, Teams
from scheduler.simulator.whatif import Impact, Setting, impact_of
from scheduler.states import REPLAYED_KINDS, NodeState, RequestKind

USUAL_DAYS = 14
WEEK = timedelta(days=7)
# About 4 ms of CPU for a job and a replay: three replays of so many stay below ten seconds, twice
# that under `shortest`, whose guard runs them once more.
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


# What is granted on top, and how much of it.
Grants: TypeAlias = tuple[Question, int]


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
    policy = replayable_policy([pool])
    wanted = {question.gpu_model} - {""} or models

    def today(*granted: Grants) -> Teams:
        return teams_today(window, [pool], {pool.pk: wanted}, now, apart=apart, granted=granted)

    base = Setting(nodes=window.nodes, policy=policy, teams=today())
    settings = [base]
    for amount in question.amounts:
        if question.hours is not None:
            booked = _booked(question.hours, amount, window, since, now)
            settings.append(replace(base, events=booked))
        else:
            settings.append(replace(base, teams=today((question, amount))))
    impact = impact_of(window.workload, settings, tell)
    return Past(pool, since, now, window, impact, notes)


def _booked(
    hours: tuple[datetime, datetime], amount: int, window: Window, since: datetime, now: datetime
) -> tuple[ClusterEvent, ...]:
    """Nodes that take no new job in the same hours of the week, the last time that these were."""
    back = -(-(hours[1] - now) // WEEK) * WEEK
    begin_s, end_s = ((one - back - since).total_seconds() for one in hours)
    (there,), (per_node,) = by_pool(window.nodes), by_pool(window.workload.gpus_per_node)
    nodes = min(there, -(-amount // per_node))
    return tuple(
        ClusterEvent(at_s, what, node)
        for at_s, what in ((max(0.0, begin_s), Happening.DRAIN), (end_s, Happening.RESTORE))
        for node in range(nodes)
    )


def _busiest_pool(team: Team, since: datetime) -> Pool | None:
    """Where the team ran most lately, else the first pool."""
    rows = Job.objects.filter(project__team=team, queued_at__gte=since).order_by()
    counted = rows.values("pool_id").annotate(jobs=Count("id")).order_by("-jobs", "pool_id")
    first = counted.first()
    pools = Pool.objects.order_by("pk")
    return pools.filter(pk=first["pool_id"]).first() if first else pools.first()


def replayable_policy(pools: Sequence[Pool]) -> Policy:
    """The rules in force in these pools."""
    policy = policy_in_force()
    return policy.of(pools[0].name) if len(pools) == 1 else policy


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
        notes.append(f"Left out, without GPUs or larger than the pool: {window.skipped}.")
    if len(models) > 1:
        notes.append("The simulator takes all GPUs of a pool for equal.")
    return tuple(notes)


def teams_today(
    window: Window,
    pools: Sequence[Pool],
    models: Mapping[int, set[str]],
    now: datetime,
    *,
    apart: Project | None = None,
    granted: Sequence[Grants] = (),
) -> Teams:
    """Weights and limits of today of those who ran and who is above them, with what is `granted` on
    top; of several rows of one account the tightest.

    `models` are those of each pool. What holds for a model that some of the pools have, but not
    all, is left out.
    """
    slugs = [name for name in window.teams if "/" not in name]
    by_name: dict[tuple[str, int], list[Effective]] = {}
    for name, quota, limits in _held(slugs, apart, granted, now):
        place = _place_of(quota, pools, models)
        if place is not None:
            by_name.setdefault((name, place), []).append(limits)
    own = [_limit(row, NONE, by_name.get((name, NONE), ())) for row, name in _rows(window)]
    shares = Account.objects.filter(team__slug__in=slugs).values_list("team__slug", "weight")
    weights = dict[str | None, float](shares)
    return Teams(
        names=window.teams,
        weight=tuple(weights.get(name, 1.0) for name in window.teams),
        guaranteed=tuple(one.guaranteed for one in own),
        maximum=tuple(one.maximum for one in own),
        borrow_limit=tuple(one.borrow_limit for one in own),
        lend_limit=tuple(one.lend_limit for one in own),
        parent=window.parents,
        of_pools=tuple(
            _limit(row, place, by_name[name, place])
            for row, name in _rows(window)
            for place in range(len(pools))
            if (name, place) in by_name
        ),
    )


def _held(
    slugs: Sequence[str], apart: Project | None, granted: Sequence[Grants], now: datetime
) -> Iterator[tuple[str, Quota, Effective]]:
    """Quotas of these teams and this project by the owner's name, each with what it amounts to."""
    quotas = list(
        Quota.objects.filter(account__team__slug__in=slugs).select_related("account__team")
    )
    if apart is not None:
        quotas += list(Quota.objects.filter(account__project=apart).select_related("account__team"))
    limits = effective_of(quotas, now=now)
    for question, amount in granted:
        quota = quota_for(question.owner, question.pool, question.gpu_model)
        if quota is not None:
            limits |= {quota.pk: _with_more(limits.get(quota.pk), question, amount)}
        elif question.kind is RequestKind.GUARANTEED:
            first = Quota(pool=question.pool, gpu_model=question.gpu_model)
            yield question.name, first, _with_more(None, question, amount)
    for quota in quotas:
        team = quota.account.team
        yield team.slug if team else apart.path if apart else "", quota, limits[quota.pk]


def _with_more(limits: Effective | None, question: Question, amount: int) -> Effective:
    """Once the grant is in force; a guarantee takes the maximum along, and what sets no limit still
    sets none."""
    limits = limits or Effective(0, None, None, None)
    field = FIELD_OF[question.kind]
    own: int | None = getattr(limits, field)
    if own is None:
        return limits
    more = replace(limits, **{field: own + amount})
    if more.maximum is None or more.maximum >= more.guaranteed:
        return more
    return replace(more, maximum=more.guaranteed)


def _rows(window: Window) -> Sequence[tuple[int, str]]:
    return tuple(enumerate(window.teams))


def _place_of(quota: Quota, pools: Sequence[Pool], models: Mapping[int, set[str]]) -> int | None:
    """The row of the pool it holds in, -1 for all of them together; None if neither."""
    held = [
        row
        for row, pool in enumerate(pools)
        if quota.pool_id in (None, pool.pk)
        and (not quota.gpu_model or quota.gpu_model in models[pool.pk])
    ]
    if len(held) == len(pools):
        return NONE
    return held[0] if len(held) == 1 else None


def _limit(team: int, pool: int, rows: Sequence[Effective]) -> PoolLimit:
    return PoolLimit(
        team,
        pool,
        guaranteed=max((one.guaranteed for one in rows), default=0),
        borrow_limit=_tightest([one.borrow_limit for one in rows]),
        lend_limit=_tightest([one.lend_limit for one in rows]),
        maximum=_tightest([one.maximum for one in rows]),
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
