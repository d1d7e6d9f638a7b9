"""The whole quote of a job: what it meets, when it starts, what it costs.

Of one that is not submitted the engine decides the cycle of this moment with the job as one more
that waits; of one that waits the last look has told the start. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal

from django.utils import timezone

from accounts.errors import Forbidden
from accounts.models import User
from accounts.selectors import get_visible_project
from scheduler.conf import load_conf
from scheduler.engine.learning import kind_of, kind_of_spec
from scheduler.loop.foreseeing import MOST_TASKS, Start, Starts, starts_of
from scheduler.loop.learning import read_run_times
from scheduler.loop.supposing.in_time import finish_of, remedies_of
from scheduler.models import Job, Pool
from scheduler.money import PRICE_DECIMALS, cost_of, from_steps
from scheduler.selectors.prices.seen import may_see_cost
from scheduler.selectors.sharing.after import After, left_after, left_after_waiting
from scheduler.services.holding.obstacles import Needed, open_tasks
from scheduler.services.sharing.keeping.pledging import Worst
from scheduler.services.submitting.columns import pools_of
from scheduler.services.submitting.opening import Opening
from scheduler.services.submitting.quotes import Estimate, Quote, check_only, preview_of
from scheduler.spec import JobSpec
from scheduler.states import DependencyKind

_PRICE = Decimal(1).scaleb(-PRICE_DECIMALS)


def quote_job(
    *,
    actor: User,
    spec: JobSpec,
    template: int = 0,
    now: datetime | None = None,
    within: Callable[[JobSpec], None] | None = None,
) -> Quote:
    """As `preview_job`, with estimates and what is left of quotas and budgets; raises SpecInvalid.

    Who starts from a template (its key) is told by the runs of that. Of one that is expected to be
    finished too late it says what would help, `within` what the template allows: that raises
    SpecInvalid for what is not.

    Decides one cycle: milliseconds while little waits, tens of them with ten thousand jobs; and one
    for each change that is tried for who would be late.
    """
    now = now or timezone.now()
    quote = _quoted(actor, spec, template, now)

    def ask(changed: JobSpec) -> Quote:
        if within is not None:
            within(changed)
        return _quoted(actor, changed, template, now)

    return replace(quote, remedies=remedies_of(actor, spec, quote, ask))


def quote_alone(*, actor: User, spec: JobSpec, template: int = 0) -> Quote:
    """As `quote_job`, without remedies: one cycle, whatever it says."""
    return _quoted(actor, spec, template, timezone.now())


def _quoted(actor: User, spec: JobSpec, template: int, now: datetime) -> Quote:
    """Of one with several pools in each of them: where it starts first, at most at the dearest."""
    opening = check_only(actor=actor, spec=spec, now=now)
    if not spec.other_pools:
        return _quoted_there(opening, template)
    found = []
    for name in pools_of(spec):
        alone = spec.model_copy(update={"pool": name, "other_pools": ()})
        there = check_only(actor=actor, spec=alone, now=now)
        found.append(_quoted_there(there, template))
    costs = [quote.worst_case_cost for quote in found]
    most = None if None in costs else max(cost for cost in costs if cost is not None)
    first = min(found, key=_start_of)
    return replace(first, worst_case_cost=most, choice=_choice_words(found, first))


def _start_of(quote: Quote) -> datetime:
    """When it probably starts; of equal ones the first pool that is named counts."""
    start_at = quote.estimate.start_p50_at if quote.estimate else None
    return start_at or datetime.max.replace(tzinfo=UTC)


def _choice_words(found: Sequence[Quote], first: Quote) -> str:
    names, alike = [quote.pool for quote in found], {_start_of(quote) for quote in found}
    words = f"It starts in the first of its pools that has room: {', '.join(names)}."
    if first.estimate is None or first.estimate.start_p50_at is None:
        return words
    if first.estimate.starts_now:
        return f"{words} Now that is {first.pool}."
    soonest = "" if len(alike) == 1 else f" It is expected to start soonest in {first.pool}."
    return words + soonest


def _quoted_there(opening: Opening, template: int) -> Quote:
    actor, spec, now = opening.target.actor, opening.spec, opening.target.now
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
    quote = replace(quote, estimate=estimate, finish=finish_of(spec, estimate, now))
    return _with_what_is_left(quote, opening, now)


def _with_what_is_left(quote: Quote, opening: Opening, now: datetime) -> Quote:
    actor, spec = opening.target.actor, opening.spec
    pool: Pool = opening.target.queue.pool
    at_once = (spec.array and spec.array.max_parallel) or quote.tasks
    left = left_after(
        actor,
        spec.project,
        pool,
        spec.gpu_models or [spec.gpu_model],
        gpus=min(quote.tasks, at_once) * quote.gpus,
        gpu_seconds=quote.tasks * quote.gpus * spec.time_limit,
        cost=quote.worst_case_cost,
        now=now,
    )
    return replace(quote, limits=left.limits, budgets=left.budgets)


def _cost(quote: Quote, run_s: int) -> Decimal | None:
    cost, most = _uncapped(quote, run_s), quote.worst_case_cost
    return cost if cost is None or most is None else min(cost, most)


def _uncapped(quote: Quote, run_s: int) -> Decimal | None:
    if not quote.gpus:
        return Decimal(0)
    if quote.unit_price is None:
        return None
    return cost_of(quote.tasks * quote.gpus * run_s, quote.unit_price)


def _run_times(actor: User, spec: JobSpec, template: int) -> tuple[int, int, str]:
    """p50 and p90 in seconds, at most the limit, and what they were learnt from."""
    project = get_visible_project(actor, spec.project)
    size = (int(spec.nodes), spec.gpus_per_node)
    app = spec.session.app if spec.session else None
    kind = kind_of(project.pk, *size, list(spec.command), spec.script, app, template)
    return _within(read_run_times().spread_s(kind), spec.time_limit)


def _within(found: tuple[float, float, int, str] | None, limit_s: int) -> tuple[int, int, str]:
    """Run times as they were learnt, no longer than the limit."""
    if found is None:
        return limit_s, limit_s, "the time limit: no runs like it are known"
    p50_s, p90_s, count, alike = found
    return min(int(p50_s), limit_s), min(int(p90_s), limit_s), f"{count:,} runs {alike}"


@dataclass(frozen=True, slots=True)
class WaitingQuote:
    """What a job that waits costs by the runs that were alike, and at most; costs are None where no
    price is known. `after`: quotas and budgets, at its worst."""

    unit_price: Decimal | None
    currency: str
    run_p50_s: int
    run_p90_s: int
    basis: str
    cost_p50: Decimal | None
    cost_p90: Decimal | None
    worst_case_cost: Decimal | None
    after: After


def quote_waiting(viewer: User, job: Job, *, now: datetime) -> WaitingQuote:
    """Of a job whose costs the viewer may see; else raises Forbidden. Seven queries at most."""
    if not may_see_cost(viewer, job):
        raise Forbidden("Your role may see this job, but not what it costs.")
    kind = kind_of_spec(job.project_id, job.nodes, job.gpus_per_node, job.spec)
    run_p50_s, run_p90_s, basis = _within(read_run_times().spread_s(kind), job.time_limit_s)
    bounds = Worst(now)
    steps = bounds.steps_of(job) if job.gpus else 0
    worst, most = None if steps is None else from_steps(steps), bounds.most_of(job)
    price = None
    if worst is not None and job.gpus:
        price = (worst * 3600 / (job.gpus * job.time_limit_s)).quantize(_PRICE)

    def cost(run_s: int) -> Decimal | None:
        """No more than what is left of its highest price."""
        whole = None if worst is None else worst * run_s / job.time_limit_s
        return whole if whole is None or most is None else min(whole, from_steps(most))

    return WaitingQuote(
        unit_price=price,
        currency=load_conf().currency,
        run_p50_s=run_p50_s,
        run_p90_s=run_p90_s,
        basis=basis,
        cost_p50=cost(run_p50_s),
        cost_p90=cost(run_p90_s),
        worst_case_cost=cost(job.time_limit_s),
        after=left_after_waiting(viewer, job, cost(job.time_limit_s), now=now),
    )


def _start(opening: Opening, now: datetime) -> Start:
    """As the engine says, and not before what the job itself waits for."""
    spec = opening.spec
    if spec.hold:
        return Start(why="It starts only after it is released.")
    first = spec.array.indexes[0] if spec.array else None
    missing = [one for one in opening.order.needed_of(first) if not one.is_met]
    arrays = [one for one in opening.order.arrays if not one.is_met]
    if opening.order.obstacle is not None and not missing and not arrays:
        return Start(why="It starts only after the earlier jobs of its name have ended.")
    tasks = open_tasks(arrays, most=MOST_TASKS)
    if tasks is None:
        return Start(why="Nobody knows when so many tasks will have come so far.")
    starts = starts_of(opening, now)
    start = _not_before(starts, [*missing, *tasks], now)
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
