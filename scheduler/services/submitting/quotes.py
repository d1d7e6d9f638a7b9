"""The dry run: what a submit would meet, without writing anything."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.db import transaction
from django.utils import timezone

from accounts.models import User
from scheduler.conf import load_conf
from scheduler.models import Job
from scheduler.money import PRICE_DECIMALS, cost_of
from scheduler.selectors.cluster import pool_summaries
from scheduler.selectors.sharing.after import BudgetAfter, LimitAfter
from scheduler.services.sharing.prices import dearest_of
from scheduler.services.submitting.groups import group_words, read_groups
from scheduler.services.submitting.opening import Opening, Target, check_job
from scheduler.services.submitting.payable import highest_words
from scheduler.services.submitting.targets import Seen, resolve_target
from scheduler.spec import JobSpec
from scheduler.states import Finish, JobState


@dataclass(frozen=True, slots=True)
class Estimate:
    """When it probably starts, how long it runs and what it costs: p50 and p90, of all tasks.

    Of an array `start_*` is that of its first task, `last_start_p90_at` that of its last one. None:
    nobody knows; `why` says the reason for the start, `basis` what the run time was learnt from.
    """

    start_p50_at: datetime | None
    start_p90_at: datetime | None
    why: str
    run_p50_s: int
    run_p90_s: int
    basis: str
    cost_p50: Decimal | None
    cost_p90: Decimal | None
    starts_now: bool = False
    last_start_p90_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Remedy:
    """One change with which a job is likely to be finished by its moment, as it was tried.

    `fix` as the composer takes it, such as `limit:3600` (seconds) or `tier:urgent`; costs are those
    of the whole job with it, None where no price is known.
    """

    fix: str
    words: str
    end_p50_at: datetime | None
    cost_p50: Decimal | None
    worst_case_cost: Decimal | None


@dataclass(frozen=True, slots=True)
class Quote:
    """`worst_case_cost`: all devices for the whole time limit at the dearest fitting rate, of one
    attempt; each of the `retries` of a program that fails may cost as much again.

    Nothing for a job without GPUs. None when no fitting device is registered, or one has no rate.
    Of an array it is that of all `tasks`; `gpus` are those of one. `jobs_ahead` counts queued
    jobs of the same or a higher tier, without those of its group that are cancelled for it.
    `estimate`, `limits` and `budgets` are what `scheduler.loop.supposing.quoting` adds: after this
    job, at its worst. `finish`: how it stands to the moment by which it has to be finished, None
    without one, and `remedies` what would help. `highest`: for how long its highest price is
    enough, empty without one. `group`: what its submit does to others of its group, empty for
    nothing. `choice`: of one with several pools to choose from where it starts, for this quote is
    of that pool; `worst_case_cost` is that of the dearest.
    """

    pool: str
    tasks: int
    gpus: int
    free_gpus: int
    total_gpus: int
    jobs_ahead: int
    unit_price: Decimal | None
    worst_case_cost: Decimal | None
    currency: str
    is_paused: bool
    estimate: Estimate | None = None
    limits: tuple[LimitAfter, ...] = ()
    budgets: tuple[BudgetAfter, ...] = ()
    finish: Finish | None = None
    remedies: tuple[Remedy, ...] = ()
    highest: str = ""
    group: str = ""
    choice: str = ""
    retries: int = 0


def check_only(*, actor: User, spec: JobSpec, now: datetime) -> Opening:
    """Check a spec as `submit_job` would, and write nothing; raises SpecInvalid."""
    seen = Seen()
    project, queue = resolve_target(actor, spec, now, seen)
    read_groups(actor, [spec], seen)
    with transaction.atomic():
        return check_job(Target(actor, project, queue, now), spec, seen)


def preview_job(*, actor: User, spec: JobSpec, now: datetime | None = None) -> Quote:
    """Check a spec as `submit_job` would and say what to expect; raises SpecInvalid."""
    now = now or timezone.now()
    return preview_of(check_only(actor=actor, spec=spec, now=now))


def preview_of(opening: Opening) -> Quote:
    """What to expect of a job that was checked."""
    actor, queue, now = opening.target.actor, opening.target.queue, opening.target.now
    spec, pool = opening.spec, queue.pool
    summary = pool_summaries(actor, only=[pool.name])[0]
    models, team = spec.gpu_models or [spec.gpu_model], opening.target.project.team_id
    steps = dearest_of(team, pool.pk, models, spec.gpu_milli, now=now)
    price = None if steps is None else Decimal(steps).scaleb(-PRICE_DECIMALS)
    ahead = Job.objects.filter(pool=pool, state=JobState.QUEUED, tier__gte=spec.tier_number)
    return Quote(
        pool=pool.name,
        tasks=_tasks(spec),
        gpus=spec.gpus,
        free_gpus=summary.free,
        total_gpus=summary.total,
        jobs_ahead=ahead.count() - _leaving_ahead(opening),
        unit_price=price,
        worst_case_cost=_most(spec, price),
        currency=load_conf().currency,
        is_paused=queue.is_paused,
        highest=highest_words(spec, pool, steps),
        group=group_words(spec, opening.members),
        retries=0 if spec.max_cost is not None else int(spec.retries),
    )


def _leaving_ahead(opening: Opening) -> int:
    """Of those that are counted as ahead how many are cancelled for it: rows that were read
    anyway, and perhaps more of them than a statement takes parameters."""
    pool, tier = opening.target.queue.pool_id, opening.spec.tier_number
    waits = (job for job in opening.leaving if job.state == JobState.QUEUED)
    return sum(job.pool_id == pool and job.tier >= tier for job in waits)


def _most(spec: JobSpec, price: Decimal | None) -> Decimal | None:
    if not spec.gpus:
        return Decimal(0)
    seconds = _tasks(spec) * spec.gpus * spec.time_limit
    if price is None:
        return None
    most = cost_of(seconds, price)
    return most if spec.max_cost is None else min(most, _tasks(spec) * spec.max_cost)


def _tasks(spec: JobSpec) -> int:
    return len(spec.array.indexes) if spec.array else 1
