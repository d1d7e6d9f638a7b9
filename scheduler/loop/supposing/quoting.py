"""The whole quote of a job that is not submitted: what it meets, when it starts, what it costs.

The engine decides the cycle of this moment with the job as one more that waits. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from decimal import Decimal

from django.utils import timezone

from accounts.models import User
from accounts.selectors import get_visible_project
from scheduler.loop.foreseeing import Start, Starts, starts_of
from scheduler.loop.learning import read_run_times
from scheduler.models import Pool
from scheduler.money import cost_of
from scheduler.selectors.sharing.after import budgets_after, limits_after
from scheduler.services.holding.obstacles import Needed
from scheduler.services.submitting.opening import Opening
from scheduler.services.submitting.quotes import Estimate, Quote, check_only, preview_of
from scheduler.spec import JobSpec
from scheduler.states import DependencyKind


def quote_job(
    *, actor: User, spec: JobSpec, template: int = 0, now: datetime | None = None
) -> Quote:
    """As `preview_job`, with estimates and what is left of quotas and budgets; raises SpecInvalid.

    Who starts from a template (its key) is told by the runs of that.

    Decides one cycle: milliseconds while little waits, tens of them with ten thousand jobs.
    """
    now = now or timezone.now()
    opening = check_only(actor=actor, spec=spec, now=now)
    quote = preview_of(opening)
    run_p50_s, run_p90_s, basis = _run_times(actor, spec, template)
    start = _start(opening, now)
    estimate = Estimate(
        start_p50_at=start.p50_at,
        start_p90_at=start.p90_at,
        why=start.why,
        run_p50_s=run_p50_s,
        run_p90_s=run_p90_s,
        basis=basis,
        cost_p50=_cost(quote, run_p50_s),
        cost_p90=_cost(quote, run_p90_s),
        starts_now=start.p90_at == now,
        last_start_p90_at=start.last_p90_at,
    )
    return _with_what_is_left(replace(quote, estimate=estimate), opening, now)


def _with_what_is_left(quote: Quote, opening: Opening, now: datetime) -> Quote:
    actor, spec = opening.target.actor, opening.spec
    pool: Pool = opening.target.queue.pool
    gpus = quote.tasks * quote.gpus
    worst_s = gpus * spec.time_limit
    return replace(
        quote,
        limits=limits_after(actor, spec.project, pool, spec.gpu_model, gpus, now=now),
        budgets=budgets_after(actor, spec.project, worst_s, quote.worst_case_cost, now=now),
    )


def _cost(quote: Quote, run_s: int) -> Decimal | None:
    if not quote.gpus:
        return Decimal(0)
    if quote.unit_price is None:
        return None
    return cost_of(quote.tasks * quote.gpus * run_s, quote.unit_price)


def _run_times(actor: User, spec: JobSpec, template: int) -> tuple[int, int, str]:
    """p50 and p90 in seconds, at most the limit, and what they were learnt from."""
    project = get_visible_project(actor, spec.project)
    found = read_run_times().spread_s(project.pk, spec.command, spec.script, spec.gpus, template)
    if found is None:
        return spec.time_limit, spec.time_limit, "the time limit: no runs like it are known"
    p50_s, p90_s, count, alike = found
    words = f"{count} runs {alike}"
    return min(int(p50_s), spec.time_limit), min(int(p90_s), spec.time_limit), words


def _start(opening: Opening, now: datetime) -> Start:
    """As the engine says, and not before what the job itself waits for."""
    spec = opening.spec
    if spec.hold:
        return Start(why="It starts only after it is released.")
    missing = [one for one in opening.order.needed if not one.is_met]
    if opening.order.obstacle is not None and not missing:
        return Start(why="It starts only after the earlier jobs of its name have ended.")
    starts = starts_of(opening, now)
    start = _not_before(starts, missing, now)
    if spec.begin is None or spec.begin <= now:
        return start
    words = "Not before it asks for." if start.p50_at else start.why
    return start.not_before(spec.begin, spec.begin, words)


def _not_before(starts: Starts, missing: Iterable[Needed], now: datetime) -> Start:
    """Once the others have ended, or started: as the engine foresees them."""
    start = starts.mine
    for one in missing:
        is_start = one.kind == DependencyKind.AFTER
        p50_at, p90_at = starts.start_of(one.job) if is_start else starts.end_of(one.job)
        if p50_at is None or p90_at is None:
            return Start(why=f"Nobody knows when job {one.job} will have come so far.")
        start = start.not_before(max(p50_at, now), max(p90_at, now), "By what it waits for now.")
    return start
