"""Questions about jobs, answered by the engine on the cluster as it is now. Writes nothing."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from decimal import ROUND_DOWN, Decimal
from typing import Any

import numpy as np
from django.db.models import QuerySet

from accounts.models import User
from accounts.statements import AskedOnce
from scheduler.conf import load_conf
from scheduler.engine.asking import (
    Answer,
    Blocking,
    Option,
    blocking_facts,
    what_if,
    with_places,
)
from scheduler.engine.cycle import Known, decide, plan_cycle
from scheduler.engine.explaining.standing import Standing, line_now, standing_now
from scheduler.engine.policy import Policy
from scheduler.engine.snapshot import Snapshot
from scheduler.loop.loading import lent_rows, load_snapshot
from scheduler.loop.loading.together import read_together
from scheduler.loop.memories import Memories
from scheduler.models import Job, Pool
from scheduler.money import from_steps
from scheduler.selectors.jobs import visible_jobs
from scheduler.selectors.standing import Precedence, precedence_of, went_before
from scheduler.services.changing.limits import refuse_senseless
from scheduler.services.changing.prices import Pricing, check_price, priced
from scheduler.services.changing.requests import Asks, request_for
from scheduler.services.changing.rules import refuse_by_template
from scheduler.services.changing.sizes import sizes_offered
from scheduler.services.errors import DomainError
from scheduler.services.sharing.policies import policy_in_force
from scheduler.services.sharing.prices import spent_of
from scheduler.spec.units import format_duration
from scheduler.states import CHECK_TITLES, FAULTS, JobState, wait_sentence

_CENT = Decimal("0.01")
# By kind of option whose value is a number: the column that has it.
FIX_VALUES = {"limit": "time_limit_s", "gpus": "gpus_per_node", "nodes": "nodes"}


@dataclass(frozen=True, slots=True)
class JobAnswer:
    """All that stands in a job's way, and what would help."""

    asked_at: datetime
    blocking: Blocking
    answer: Answer
    # Of the snapshot that was asked: rows of `model` and `pool` in words.
    models: tuple[str, ...]
    pools: tuple[str, ...]
    # What its earlier attempts have cost, in steps.
    spent: int = 0
    # Of one that chooses from several pools: each other one, and why it waits for that as well.
    also: tuple[tuple[str, str], ...] = ()

    def plain(self, visible: Collection[int]) -> dict[str, Any]:
        """As JSON values; jobs that are not `visible` are shown without their number."""
        start_s = self.answer.start_s
        return {
            "asked_at": self.asked_at,
            "starts_now": self.answer.starts_now,
            "start_at": None if start_s is None else _moment(start_s),
            "checks": [
                asdict(check)
                | {
                    "title": CHECK_TITLES[check.reason],
                    "is_fault": not check.is_ok and check.reason in FAULTS,
                }
                for check in self.blocking.checks
            ],
            "holders": [
                {
                    "job": holder.job if holder.job in visible else None,
                    "gpus": holder.gpus,
                    "nodes": holder.nodes,
                    "until": None if holder.until_s is None else _moment(holder.until_s),
                }
                for holder in self.blocking.holders
            ],
            "other_holders": self.blocking.other_holders,
            "also": [{"pool": pool, "sentence": sentence} for pool, sentence in self.also],
            "options": [
                {
                    "kind": option.kind,
                    "words": self._words(option),
                    "starts_now": option.starts_now,
                    "start_at": _moment(option.start_s),
                    "wait_s": max(0, int(option.start_s - self.asked_at.timestamp())),
                    "time_limit": format_duration(int(option.fields["time_limit_s"]))
                    if option.kind == "limit"
                    else "",
                    "fix": self._fix(option),
                }
                for option in self.answer.options
            ],
        }

    def _words(self, option: Option) -> str:
        if option.kind != "price":
            return option.words
        return f"with a highest price of {self._price(option)} {load_conf().currency}"

    def _price(self, option: Option) -> str:
        """For all attempts together, in whole cents."""
        steps = int(option.fields["most_cost"]) + self.spent
        return str(from_steps(steps).quantize(_CENT, ROUND_DOWN))

    def _fix(self, option: Option) -> list[str]:
        """The same change as the composer takes it: kinds with their values."""
        fields = option.fields
        if option.kind == "price":
            return [f"price:{self._price(option)}"]
        if option.kind in FIX_VALUES:
            return [f"{option.kind}:{int(fields[FIX_VALUES[option.kind]])}"]
        fix = [f"model:{self.models[int(fields['model'])]}"] if "model" in fields else []
        if option.kind == "pool":
            return [f"pool:{self.pools[int(fields['pool'])]}", *fix]
        return fix or [f"{option.kind}:"]

    def holder_ids(self) -> list[int]:
        """The jobs that are named as holders."""
        return [holder.job for holder in self.blocking.holders]


def picture(now: datetime, tier: int = 0) -> tuple[Snapshot, Policy]:
    """What a cycle would decide on now, and by which policy; `tier`: that somebody may get."""
    with read_together(now):
        return _picture(now, tier)


def _picture(now: datetime, tier: int = 0, *, decides: bool = True) -> tuple[Snapshot, Policy]:
    policy = policy_in_force()
    with lent_rows() as kept:
        loaded = load_snapshot(now, moves=policy.moves, half_life_s=policy.memory_s, kept=kept)
    if decides:
        loaded = loaded.to_decide(policy, now=now, tier=tier)
    return Memories().add_to(loaded.snapshot, policy, now=now), policy


def ask(job: Job, *, now: datetime) -> JobAnswer | None:
    """The answer for a queued job; None for one that does not wait for the scheduler.

    Decides the whole cycle once, and once for each change that is tried: tens of milliseconds
    each with ten thousand waiting jobs, so it is asked for, never kept up to date.
    """
    if job.state != JobState.QUEUED:
        return None
    with read_together(now, (LINES, ())):
        snapshot, policy = _picture(now)
        elsewhere = _elsewhere(job)
    mine = [place for place in elsewhere if snapshot.pools[place[0]] in (job.pool_choice or ())]
    known = Known()
    decision = decide(snapshot, policy, known)
    blocking = blocking_facts(decision, policy, job.pk)
    answer = what_if(
        snapshot,
        policy,
        job.pk,
        [place for place in elsewhere if place not in mine],
        plan=decision.plan,
        known=known,
        least_limit_s=job.min_runtime_s,
    )
    if blocking is None or answer is None:
        return None
    spent = spent_of([job.pk]).get(job.pk, 0) if job.end_reason else 0
    also = () if answer.starts_now else _also(snapshot, policy, job, mine, known)
    return JobAnswer(now, blocking, answer, snapshot.models, snapshot.pools, spent, also)


def _also(
    snapshot: Snapshot, policy: Policy, job: Job, places: Sequence[tuple[int, int]], known: Known
) -> tuple[tuple[str, str], ...]:
    """In each of these pools and queues (rows) why it would wait; decides a cycle for each."""
    rows, found = np.flatnonzero(snapshot.waiting.id == job.pk).tolist(), []
    for place in places:
        plan = plan_cycle(with_places(snapshot, dict.fromkeys(rows, place)), policy, known)
        at = np.flatnonzero(plan.waits.job == job.pk)
        wait = plan.waits[int(at[0])] if len(at) else None
        words = wait_sentence(wait.reason, wait.facts) if wait else "It can start there at once."
        found.append((snapshot.pools[place[0]], words))
    return tuple(found)


def answer_for(viewer: User, job: Job, *, now: datetime) -> dict[str, Any] | None:
    """`ask` as JSON values for one who sees the job; foreign jobs are shown without numbers, and
    no option that would be refused to them."""
    answer = ask(job, now=now)
    if answer is None:
        return None
    seen = visible_jobs(viewer).filter(pk__in=answer.holder_ids())
    plain = answer.plain(set(seen.values_list("pk", flat=True)))
    options = [one for one in plain["options"] if _may_have(viewer, job, one["fix"], now)]
    return plain | {"options": options}


def _may_have(viewer: User, job: Job, fix: Sequence[str], now: datetime) -> bool:
    """Whether the job may be changed like that; what only a clone can ask for is not looked at."""
    asked = dict(one.split(":", 1) for one in fix)
    if not asked.keys() <= {"limit", "gpus", "nodes", "model", "pool", "price"}:
        return True
    asks = Asks(
        gpus_per_node=int(asked["gpus"]) if "gpus" in asked else None,
        gpu_model=asked.get("model"),
        nodes=asked.get("nodes"),
        pool=asked.get("pool"),
    )
    try:
        if "price" in asked:
            then = priced(job, Pricing(Decimal(asked["price"])))
            check_price(viewer, then, now=now)
        elif "limit" in asked:
            refuse_senseless(job, int(asked["limit"]))
            refuse_by_template(viewer, job, "time_limit", int(asked["limit"]))
        elif asks.nodes is None or int(asks.nodes) not in sizes_offered(job):
            request_for(job, asks, now=now)
    except DomainError:
        return False
    return True


def before_answer(viewer: User, job: Job, other_pk: int, *, now: datetime) -> Precedence:
    """Why another job was started before this one; loads the line if this one still waits.

    Raises NotFound.
    """
    return precedence_of(viewer, job, other_pk, lambda: _standing(job, now))


def before_answers(viewer: User, job: Job, *, now: datetime) -> list[tuple[Job, bool, Precedence]]:
    """The jobs that were started last while this one waited, whether the viewer may know each, and
    why it went before; loads the line once if this one still waits."""
    return went_before(viewer, job, lambda: _standing(job, now))


def _standing(job: Job, now: datetime) -> Standing | None:
    """Where it stands in the line, which is put in order and not decided: nobody's stop is looked
    at, so that who runs is not read."""
    with read_together(now):
        snapshot, policy = _picture(now, decides=False)
    return standing_now(snapshot, policy, job.pk)


def places_now(pool: Pool, *, now: datetime) -> dict[int, Standing]:
    """By waiting job its place in the pool's line and what made it; decides one cycle."""
    snapshot, policy = picture(now)
    if pool.name not in snapshot.pools:
        return {}
    plan = decide(snapshot, policy).plan
    line = line_now(snapshot, policy, plan, snapshot.pools.index(pool.name))
    return {standing.job: standing for standing in line}


def _elsewhere(job: Job) -> list[tuple[int, int]]:
    """Rows of the other pools and of the queue there that is called like the job's, or the first.

    Rows as `load_snapshot` numbers them; one query.
    """
    rows = LINES.read()
    queues = [(pool, name) for queue, pool, name in rows if queue is not None]
    first, alike = dict[int, int](), dict[int, int]()
    for at, (pool, name) in enumerate(queues):
        first.setdefault(pool, at)
        if name == job.queue.name:
            alike.setdefault(pool, at)
    pools = enumerate(sorted({pool for _, pool, _ in rows}))
    others = [(row, pool) for row, pool in pools if pool in first and pool != job.pool_id]
    return [(row, alike.get(pool, first[pool])) for row, pool in others]


def _lines() -> QuerySet[Pool, tuple[Any, ...]]:
    return Pool.objects.order_by("queues__pk").values_list("queues__pk", "pk", "queues__name")


LINES = AskedOnce(_lines)


def _moment(epoch_s: float) -> datetime:
    return datetime.fromtimestamp(epoch_s, UTC)
