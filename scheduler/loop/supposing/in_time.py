"""Whether jobs are finished by the moment they have to be, and what would bring that about."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from django.db.models import Exists, OuterRef

from accounts.errors import DomainError
from accounts.models import User
from scheduler.engine.learning import RunTimes, kind_of_spec
from scheduler.loop.learning import read_run_times
from scheduler.models import Job
from scheduler.selectors.cluster import pool_summaries
from scheduler.selectors.jobs import one_of_each_set
from scheduler.services.finishing.limits import tell_near_limits
from scheduler.services.finishing.telling import tell_at_risk
from scheduler.services.submitting.quotes import Estimate, Quote, Remedy
from scheduler.spec import JobSpec, SpecInvalid, parse_spec
from scheduler.states import WAITING_JOB_STATES, Finish, Outlook, Tier, foresee_finish, whole_span

LATE = (Outlook.UNLIKELY, Outlook.IMPOSSIBLE)
# Each change that is tried decides one cycle, as a quote does.
MOST_TRIED, MOST_FOUND = 8, 4
_MOST_MODELS = _MOST_POOLS = 2
# Of single jobs and arrays that may be late, looked at within a minute.
MOST_LOOKED_AT = 1_000
_MINUTE_S = 60


def finish_of(spec: JobSpec, guess: Estimate, now: datetime) -> Finish | None:
    """How a job that is quoted stands to its moment; of an array its last task, by p90. None: it
    has no moment."""
    if spec.finish_by is None:
        return None
    starts = guess.start_p50_at, guess.start_p90_at
    if spec.array is not None and len(spec.array.indexes) > 1:
        starts = guess.last_start_p90_at, guess.last_start_p90_at
    runs_s = guess.run_p50_s, guess.run_p90_s
    policy, limit_s = spec.finish_by_policy, spec.time_limit
    return foresee_finish(spec.finish_by, policy, limit_s, starts, runs_s, now)


def finish_of_waiting(job: Job, *, now: datetime) -> Finish | None:
    """The same of a job that waits, by what the last cycle said of its start; None for others. One
    query where it has a moment, else none."""
    if job.finish_by is None or job.state not in WAITING_JOB_STATES:
        return None
    return _foreseen(job, read_run_times(), now)


def tell_of_time(*, now: datetime) -> int:
    """Tell the owners of jobs that are expected to be late, and of those that ask for it and come
    near their time limit; returns how many."""
    return tell_late_jobs(now=now) + tell_near_limits(now=now)


def tell_late_jobs(*, now: datetime) -> int:
    """Tell the owners of waiting jobs that are expected to be late, once; returns how many. Of an
    array its last task stands for all. One query if nobody has a moment to come."""
    waiting = Job.objects.filter(
        finish_by__gt=now, ended_at__isnull=True, state__in=WAITING_JOB_STATES
    )
    told = Job.objects.filter(job_set=OuterRef("job_set"), told_late__isnull=False)
    untold = waiting.filter(~Exists(told), told_late__isnull=True)
    jobs = list(one_of_each_set(untold).order_by("finish_by", "pk")[:MOST_LOOKED_AT])
    if not jobs:
        return 0
    times = read_run_times()
    found = {job.pk: finish for job in jobs if (finish := _foreseen(job, times, now))}
    late = {pk: finish for pk, finish in found.items() if finish.outlook in LATE}
    return tell_at_risk(late, now=now) if late else 0


def _foreseen(job: Job, times: RunTimes, now: datetime) -> Finish | None:
    if job.finish_by is None or job.finish_policy is None:
        return None
    learnt = times.spread_s(kind_of_spec(job.project_id, job.nodes, job.gpus_per_node, job.spec))
    limit_s = job.time_limit_s
    runs_s = limit_s, limit_s
    if learnt is not None:
        runs_s = min(int(learnt[0]), limit_s), min(int(learnt[1]), limit_s)
    facts = job.wait_facts
    starts = _moment(facts.get("start_p50_at")), _moment(facts.get("start_p90_at"))
    return foresee_finish(job.finish_by, job.finish_policy, limit_s, starts, runs_s, now)


def _moment(epoch_s: object) -> datetime | None:
    return datetime.fromtimestamp(epoch_s, UTC) if isinstance(epoch_s, int) else None


def remedies_of(
    actor: User, spec: JobSpec, quote: Quote, ask: Callable[[JobSpec], Quote]
) -> tuple[Remedy, ...]:
    """What would let the job be finished in time, each tried with `ask`, a quote without remedies;
    nothing where it is likely to be anyway. Nothing is chosen for anybody."""
    if quote.finish is None or quote.finish.outlook not in LATE:
        return ()
    found: list[Remedy] = []
    for tried, (fix, words, changes) in enumerate(_changes(actor, spec, quote)):
        if tried == MOST_TRIED or len(found) == MOST_FOUND:
            break
        try:
            asked = ask(parse_spec({**spec.document(), **changes}))
        except (SpecInvalid, DomainError):
            continue
        if asked.finish is not None and asked.finish.outlook is Outlook.LIKELY:
            cost = asked.estimate.cost_p50 if asked.estimate else None
            end_at = asked.finish.end_p50_at
            found.append(Remedy(fix, words, end_at, cost, asked.worst_case_cost))
    return tuple(found)


def _changes(actor: User, spec: JobSpec, quote: Quote) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for limit_s in _shorter(spec, quote):
        limit = whole_span(limit_s)
        changes = {"time_limit": limit_s, "min_runtime": min(spec.min_runtime, limit_s)}
        yield f"limit:{limit_s}", f"a time limit of {limit}", changes
    pools = pool_summaries(actor)
    if spec.gpus_per_node and not spec.gpu_models:
        here = {
            one for summary in pools if summary.pool.name == quote.pool for one in summary.models
        }
        others = [one for one in ("", *sorted(here)) if one != spec.gpu_model]
        if len(here) > 1:
            for model in others[:_MOST_MODELS]:
                words = f"GPU model {model}" if model else "any GPU model"
                yield f"model:{model}", words, {"gpu_model": model}
    elsewhere = [one.pool.name for one in pools if one.pool.name != quote.pool]
    for pool in elsewhere[:_MOST_POOLS]:
        yield f"pool:{pool}", f"pool {pool}", {"pool": pool}
    for tier in sorted(Tier):
        if tier > spec.tier_number:
            name = tier.name.lower()
            yield f"tier:{name}", f"tier {name}", {"tier": name}


def _shorter(spec: JobSpec, quote: Quote) -> Iterator[int]:
    """Time limits that may do: what is left after its expected start, and half of what it has."""
    start_at = quote.estimate.start_p50_at if quote.estimate else None
    if spec.finish_by is not None and start_at is not None:
        left_s = int((spec.finish_by - start_at).total_seconds())
        left_s -= left_s % _MINUTE_S
        if _MINUTE_S <= left_s < spec.time_limit:
            yield left_s
    half_s = spec.time_limit // 2
    if half_s >= _MINUTE_S:
        yield half_s - half_s % _MINUTE_S
