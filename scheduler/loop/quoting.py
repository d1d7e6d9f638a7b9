"""The whole quote of a job that is not submitted: what it meets, when it starts, what it costs.

The engine decides the cycle of this moment with the job as one more that waits. Nothing is written.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import numpy as np
from django.utils import timezone

from accounts.models import User
from accounts.selectors import get_visible_project
from scheduler.engine.cycle import plan_cycle
from scheduler.engine.snapshot import NONE, Snapshot, Waiting, floats, ints
from scheduler.loop.learning import read_run_times
from scheduler.loop.loading import Loaded, load_snapshot
from scheduler.loop.memories import Memories
from scheduler.models import Pool, Queue
from scheduler.money import cost_of
from scheduler.selectors.sharing.after import budgets_after, limits_after
from scheduler.services.sharing.policies import policy_in_force
from scheduler.services.submitting.columns import columns_of
from scheduler.services.submitting.quotes import Estimate, Quote, preview_job
from scheduler.spec import JobSpec
from scheduler.states import wait_sentence

# No job has it: numbers count from one.
_ITS_NUMBER = 2**53


def quote_job(*, actor: User, spec: JobSpec, now: datetime | None = None) -> Quote:
    """As `preview_job`, with estimates and what is left of quotas and budgets; raises SpecInvalid.

    Decides one cycle: milliseconds while little waits, tens of them with ten thousand jobs.
    """
    now = now or timezone.now()
    quote = preview_job(actor=actor, spec=spec, now=now)
    pool = Pool.objects.get(name=quote.pool)
    run_p50_s, run_p90_s, basis = _run_times(actor, spec)
    start_p50, start_p90, why = _start(actor, spec, pool, now)
    estimate = Estimate(
        start_p50_at=start_p50,
        start_p90_at=start_p90,
        why=why,
        run_p50_s=run_p50_s,
        run_p90_s=run_p90_s,
        basis=basis,
        cost_p50=_cost(quote, run_p50_s),
        cost_p90=_cost(quote, run_p90_s),
        starts_now=start_p90 == now,
    )
    worst_s = quote.tasks * quote.gpus * spec.time_limit
    return replace(
        quote,
        estimate=estimate,
        limits=limits_after(
            actor, spec.project, pool, spec.gpu_model, quote.tasks * quote.gpus, now=now
        ),
        budgets=budgets_after(actor, spec.project, worst_s, quote.worst_case_cost, now=now),
    )


def _cost(quote: Quote, run_s: int) -> Decimal | None:
    if not quote.gpus:
        return Decimal(0)
    if quote.unit_price is None:
        return None
    return cost_of(quote.tasks * quote.gpus * run_s, quote.unit_price)


def _run_times(actor: User, spec: JobSpec) -> tuple[int, int, str]:
    """p50 and p90 in seconds, at most the limit, and what they were learnt from."""
    project = get_visible_project(actor, spec.project)
    found = read_run_times().spread_s(project.pk, spec.command, spec.script, spec.gpus)
    if found is None:
        return spec.time_limit, spec.time_limit, "the time limit: no runs like it are known"
    p50_s, p90_s, count, alike = found
    words = f"{count} runs {alike}"
    return min(int(p50_s), spec.time_limit), min(int(p90_s), spec.time_limit), words


def _start(
    actor: User, spec: JobSpec, pool: Pool, now: datetime
) -> tuple[datetime | None, datetime | None, str]:
    if spec.begin is not None and spec.begin > now:
        return spec.begin, None, "It starts no earlier than it asks for."
    if spec.hold or spec.depends_on:
        return None, None, "It starts only after it is let go, or the others have ended."
    if columns_of(spec)["is_shaped"]:
        return None, None, "Starts of jobs with such wishes are told once they wait."
    policy = policy_in_force()
    loaded = load_snapshot(now, half_life_s=policy.memory_s)
    snapshot = Memories().add_to(loaded.snapshot, policy, now=now)
    plan = plan_cycle(_with(snapshot, loaded, actor, spec, pool, now), policy)
    if any(start.job == _ITS_NUMBER for start in plan.starts):
        return now, now, ""
    at = int(np.flatnonzero(plan.waits.job == _ITS_NUMBER)[0])
    wait = plan.waits[at]
    p50_s, p90_s = wait.facts["start_p50_at"], wait.facts["start_p90_at"]
    if not isinstance(p50_s, int) or not isinstance(p90_s, int):
        words = (wait_sentence(wait.reason, wait.facts), str(wait.facts.get("start_why", "")))
        return None, None, " ".join(words).strip()
    return _moment(p50_s), _moment(p90_s), ""


def _with(
    snapshot: Snapshot, loaded: Loaded, actor: User, spec: JobSpec, pool: Pool, now: datetime
) -> Snapshot:
    """The cluster with the job as the last of those that wait."""
    columns = columns_of(spec)
    project = get_visible_project(actor, spec.project)
    queue = Queue.objects.filter(pool=pool).order_by("pk").values_list("pk", flat=True)[0]
    models = {name: row for row, name in enumerate(snapshot.models)}
    one = Waiting.of(
        id=ints([_ITS_NUMBER]),
        pool=ints([loaded.pool_row[pool.pk]]),
        queue=ints([loaded.queue_row[queue]]),
        tier=ints([columns["tier"]]),
        queued_at_s=floats([now.timestamp()]),
        nodes=ints([columns["nodes"]]),
        gpus_per_node=ints([columns["gpus_per_node"]]),
        cpus=ints([columns["cpus"]]),
        memory_mib=ints([columns["memory_mib"]]),
        model=ints([models.get(spec.gpu_model, NONE) if spec.gpu_model else loaded.any_whole]),
        time_limit_s=ints([spec.time_limit]),
        remaining_s=floats([spec.time_limit]),
        account=loaded.owners.of([project.pk]),
        sharer=loaded.owners.sharers([project.pk], [actor.pk]),
    )
    return replace(snapshot, waiting=snapshot.waiting.join(one))


def _moment(epoch_s: float) -> datetime:
    return datetime.fromtimestamp(epoch_s, UTC)
