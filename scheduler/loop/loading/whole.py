"""Database to Snapshot, in a constant number of queries and without model objects.

The queries see slightly different moments. That is safe: only the lease holder hands out
devices, everybody else only gives them back, and the commit is guarded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from django.db.models import QuerySet

from accounts.statements import AskedOnce
from scheduler.engine.policy import Policy
from scheduler.engine.snapshot import NONE, Snapshot, flags, ints
from scheduler.loop.loading.accounts import NOBODY, Owners, load_limits, load_owners
from scheduler.loop.loading.calendar import load_calendar
from scheduler.loop.loading.claims import with_claims
from scheduler.loop.loading.cluster.devices import DeviceMemory
from scheduler.loop.loading.cluster.labels import labels_of
from scheduler.loop.loading.cluster.nodes import as_nodes, load_failures, load_nodes
from scheduler.loop.loading.cluster.parts import Parts, models_now, with_whole_cards
from scheduler.loop.loading.cluster.shares import Share, ShareMemory, as_held
from scheduler.loop.loading.columns import Columns, ModelRows, with_cells
from scheduler.loop.loading.data import load_missing
from scheduler.loop.loading.headroom import with_headroom
from scheduler.loop.loading.jobs import JobMemory, Rows, as_waiting, load_avoided
from scheduler.loop.loading.licences import load_licences
from scheduler.loop.loading.live import has_elastic, load_running, runs_below
from scheduler.loop.loading.money.prices import load_most_costs, load_prices
from scheduler.loop.loading.wishes import WishMemory, cells_of, load_wishes, with_wishes
from scheduler.models import Job, Pool, Queue

# A node that broke a job is the last choice for so long.
FAILED_LATELY = timedelta(hours=24)


@dataclass(frozen=True, slots=True, eq=False)
class Loaded:
    """The snapshot, and per waiting row the reason that the database shows now.

    `pool_row`, `queue_row` and `booking_row`: their rows by id. `cells`: what jobs ask for beside
    numbers, by column and job, also of elastic ones at work. `choices`: by job the names of the
    pools that it may start in, the most wanted first; `lines`: by name a pool's row, and that of
    its first queue.
    """

    snapshot: Snapshot
    wait_reasons: tuple[str, ...]
    pool_row: Mapping[int, int] = field(default_factory=dict)
    queue_row: Mapping[int, int] = field(default_factory=dict)
    owners: Owners = NOBODY
    booking_row: Mapping[int, int] = field(default_factory=dict)
    parts: Parts = field(default_factory=Parts)
    cells: Mapping[str, Mapping[int, Any]] = field(default_factory=dict)
    choices: Mapping[int, Sequence[str]] = field(default_factory=dict)
    lines: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def any_whole(self) -> int:
        """What a job has in its column of models that takes whole GPUs of any."""
        sets = self.snapshot.model_sets
        return len(self.snapshot.models) + len(sets) - 1 if self.parts.of else NONE

    def with_running(self, *, rest_s: float, now: datetime) -> Loaded:
        """The same with the live jobs that may be stopped; two queries more.

        They are read a moment later than what they hold. That is safe: who has ended meanwhile
        holds nothing that anybody would be given, and who has started since is not known to hold
        anything yet.
        """
        snapshot = self.snapshot
        running = load_running(
            self.pool_row, self.queue_row, snapshot.models, self.owners, rest_s=rest_s, now=now
        )
        inside = dict(zip(snapshot.held.job.tolist(), snapshot.held.booking.tolist(), strict=True))
        booking = ints([inside.get(job, NONE) for job in running.jobs.id.tolist()])
        jobs = with_cells(replace(running.jobs, booking=booking), self.cells)
        model = models_now(snapshot, jobs, self.parts)
        # Who would get just the part it holds has no order of several any more.
        prefers = flags(jobs.prefers & (model >= len(snapshot.models)))
        running = replace(running, jobs=replace(jobs, model=model, prefers=prefers))
        return replace(self, snapshot=replace(snapshot, running=running))

    def to_decide(self, policy: Policy, *, now: datetime, tier: int = 0) -> Loaded:
        """With the live jobs if they have to be known; `tier`: that somebody may get."""
        if self.may_stop_or_resize(policy, tier):
            return self.with_running(rest_s=policy.rest_s, now=now)
        return self

    def may_stop_or_resize(self, policy: Policy, tier: int = 0) -> bool:
        """Whether the live jobs have to be known. Two queries at most."""
        if policy.moves:
            return True
        if any(one.preempts for one in policy.every()) and self.may_stop_some(tier):
            return True
        return policy.resizes and has_elastic()

    def may_stop_some(self, tier: int = 0) -> bool:
        """Whether anybody waits for whom others could be stopped: owners may take back what they
        lent, and some live job may be of a lower tier. One query at most."""
        tiers, limits = self.snapshot.waiting.tier, self.snapshot.limits
        if not len(tiers):
            return False
        return bool((limits.guaranteed > 0).any()) or runs_below(max(tier, int(tiers.max())))


@dataclass(slots=True)
class Kept:
    """What the last load made of rows, for those that are the same in the next one.

    A snapshot is the same with it, without it and with a new one: `tests/loop/test_kept.py`.
    """

    devices: DeviceMemory = field(default_factory=DeviceMemory)
    jobs: JobMemory = field(default_factory=JobMemory)
    shares: ShareMemory = field(default_factory=ShareMemory)
    wishes: WishMemory = field(default_factory=WishMemory)


def load_snapshot(
    now: datetime,
    *,
    half_life_s: float | None = None,
    also: Sequence[Job] = (),
    kept: Kept | None = None,
    moves: bool = False,
) -> Loaded:
    """Everything the engine needs to know about this moment; past use only with a half-life, what
    who runs asks for only if the policy `moves`. Who loads often gives what it `kept` last time.
    """
    kept = kept or Kept()
    try:
        return _load_once(now, half_life_s, also, kept, moves)
    except KeyError:
        # A pool with its nodes and quotas came, or went, between two of the statements.
        return _load_once(now, half_life_s, also, kept, moves)


def _load_once(
    now: datetime, half_life_s: float | None, also: Sequence[Job], kept: Kept, moves: bool
) -> Loaded:
    """In this order, each a statement or two:

    1. Pools and queues, for names and pauses; nodes that are not retired, and their devices.
    2. Open allocations with their placements: what is held, and until when.
    3. Rooms that are kept for jobs while others make them; the calendar, and headroom.
    4. Queued jobs, `also` some that nobody has submitted; where they and others failed last.
    5. Whose they are, what that account may hold, and what it used before.
    6. What few ask for beside; what highest prices leave; licences; tenants of shared cards.
    """
    tables, pool_row, queue_row, lines = _load_lines()
    node_rows = load_nodes()
    node_row = {pk: row for row, pk in enumerate(node_rows["pk"])}
    shares, holder = kept.shares.load(node_row)
    job_rows = kept.jobs.load(also)
    devices, models, parts = kept.devices.load(node_row, holder)
    claims, devices = with_claims(devices, node_row, now)
    owners = load_owners(_owners(job_rows, shares), now=now, half_life_s=half_life_s)
    team_of = owners.team_of if (devices.card != NONE).any() else {}
    failures, avoided = load_failures(now - FAILED_LATELY), load_avoided(job_rows, node_row)
    waiting = as_waiting(job_rows, Rows(pool_row, queue_row, models, owners, avoided, team_of))
    calendar = load_calendar(node_rows, pool_row, models, now)
    wishes = load_wishes(now, models, parts, calendar.booking_row, also, kept.wishes, moves)
    wishes.cells["most_cost"] = load_most_costs(owners, also)
    parts.name_whole(models)
    snapshot = Snapshot(
        now_s=now.timestamp(),
        **tables,
        models=models.names(),
        nodes=as_nodes(node_rows, pool_row, shares, failures, calendar.in_maintenance),
        devices=devices,
        held=as_held(shares, team_of, owners, calendar.booking_row),
        waiting=waiting,
        claims=claims,
        **_rules(owners, pool_row, models, now),
        **calendar.tables,
    )
    limits = with_wishes(snapshot, wishes, node_rows, labels_of(node_rows))
    limits |= load_licences(wishes) | load_missing(wishes.data_sets.rows, node_rows["pk"])
    snapshot = with_whole_cards(with_headroom(replace(snapshot, **limits), pool_row), parts)
    found = (owners, calendar.booking_row, parts, cells_of(snapshot, wishes), wishes.choices, lines)
    return Loaded(snapshot, tuple(job_rows["wait_reason"]), pool_row, queue_row, *found)


def _load_lines() -> tuple[
    dict[str, Any], dict[int, int], dict[int, int], dict[str, tuple[int, int]]
]:
    """Pools and queues as tables of the snapshot, the rows of both by id, and as `Loaded.lines`."""
    pools, queues = POOLS.read(), QUEUES.read()
    tables: dict[str, Any] = {
        "pools": tuple(name for _, name in pools),
        "queues": tuple(name for _, name, _, _ in queues),
        "queue_is_paused": flags([is_paused for _, _, is_paused, _ in queues]),
    }
    pool_row = {pk: row for row, (pk, _) in enumerate(pools)}
    first: dict[int, int] = {}
    for row, (*_, pool) in enumerate(queues):
        first.setdefault(pool, row)
    lines = {name: (pool_row[pk], first[pk]) for pk, name in pools if pk in first}
    return tables, pool_row, {pk: row for row, (pk, *_) in enumerate(queues)}, lines


def _pools() -> QuerySet[Pool, tuple[Any, ...]]:
    return Pool.objects.order_by("pk").values_list("pk", "name")


def _queues() -> QuerySet[Queue, tuple[Any, ...]]:
    return Queue.objects.order_by("pk").values_list("pk", "name", "is_paused", "pool_id")


POOLS, QUEUES = AskedOnce(_pools), AskedOnce(_queues)


def _rules(
    owners: Owners, pool_row: dict[int, int], models: ModelRows, now: datetime
) -> dict[str, Any]:
    """The tables of accounts, what they may hold, and prices; call it with all models known."""
    return {
        "accounts": owners.accounts,
        "account_names": owners.names,
        "limits": load_limits(owners, pool_row, models.rows(), now=now),
        **load_prices(owners, models.names(), now=now),
    }


def _owners(jobs: Columns, shares: Iterable[Share]) -> Iterator[tuple[int, int]]:
    """Project and owner of every job that waits or holds something."""
    yield from set(zip(jobs["project_id"].tolist(), jobs["owner_id"].tolist(), strict=True))
    yield from ((share.project, share.owner) for share in shares)
