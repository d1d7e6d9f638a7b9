"""Another highest price for a job that waits or runs."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_UP, Decimal
from typing import Any

from django.db import transaction
from django.utils import timezone

from accounts.models import User
from accounts.services.audit import record
from scheduler import events
from scheduler.conf import load_conf
from scheduler.models import Attempt, Job
from scheduler.money import from_steps, steps_of
from scheduler.selectors.prices.seen import may_see_cost
from scheduler.services.attempts import locked_live_attempt
from scheduler.services.changing.limits import adjust_pledges, hold_more, nodes_to_tell
from scheduler.services.changing.rules import refuse_by_template
from scheduler.services.errors import Conflict, Forbidden, Invalid
from scheduler.services.history import change_desired, record_event, tell_of_job
from scheduler.services.jobs import check_actor, locked_job
from scheduler.services.prices.highest import (
    SHORTEST_S,
    Dearest,
    least_to_go_on,
    limit_left_s,
    spent_steps,
)
from scheduler.services.prices.waiting import let_go_of
from scheduler.services.rows.updating import update_row
from scheduler.services.submitting.payable import highest_words, refuse_unpayable
from scheduler.spec import JobSpec, SpecInvalid
from scheduler.spec.parts import NodeCount
from scheduler.spec.price import format_price
from scheduler.spec.units import format_duration
from scheduler.states import (
    FINAL_JOB_STATES,
    LIVE_JOB_STATES,
    WAITING_JOB_STATES,
    AttemptState,
    JobState,
    WaitReason,
    span_words,
    whole_span,
)

_FIELD = "max_cost"
_CENT = Decimal("0.01")


@dataclass(frozen=True, slots=True)
class Pricing:
    """What is asked for: None leaves it as it is; `is_taken_back`: no highest price any more."""

    max_cost: Decimal | None = None
    is_taken_back: bool = False

    def of(self, job: Job) -> Decimal | None:
        """What the job has then."""
        if self.is_taken_back:
            return None
        return job.max_cost if self.max_cost is None else self.max_cost

    def is_more(self, job: Job) -> bool:
        """Whether the job may cost more then than it may now."""
        asked, now = self.of(job), job.max_cost
        return now is not None and (asked is None or asked > now)


def priced(job: Job, asked: Pricing) -> Job:
    """The job with this price; nobody writes it."""
    found = copy(job)
    for name, value in price_columns(job, asked).items():
        setattr(found, name, value)
    return found


def price_columns(job: Job, asked: Pricing) -> dict[str, Any]:
    """What becomes of its columns."""
    amount = asked.of(job)
    spec = {**job.spec, _FIELD: None if amount is None else format_price(amount)}
    return {"max_cost_steps": None if amount is None else steps_of(amount), "spec": spec}


def check_price(actor: User, job: Job, *, now: datetime) -> None:
    """Whether a job, as `priced` makes it, may have its highest price; for who may see its costs.

    Raises Forbidden, Invalid or Conflict.
    """
    refuse_unseen(actor, job)
    amount = job.max_cost
    if amount is not None and not job.gpus_per_node:
        raise Invalid("max_cost: a job without GPUs has none; leave it out.", field=_FIELD)
    refuse_by_template(actor, job, _FIELD, amount)
    if amount is None:
        return
    if job.state in LIVE_JOB_STATES:
        _refuse_too_little(job, now)
        return
    try:
        refuse_unpayable(_spec_of(job), job.project, job.pool, Dearest(now), job)
    except SpecInvalid as refused:
        raise Invalid(f"{refused}.", field=_FIELD) from None


def price_effect(job: Job, *, now: datetime) -> str:
    """For how long the highest price of a job, as `priced` makes it, is enough; for who may see its
    costs."""
    amount = job.max_cost
    if amount is None:
        return "Without a highest price only its time limit bounds what it costs."
    spent = spent_steps(job, now)
    attempt = _live(job)
    if attempt is None:
        return highest_words(_spec_of(job), job.pool, Dearest(now).price_of(job), spent)
    more_s = limit_left_s(attempt, job, now)
    limit_s = _since(attempt, now) + more_s
    words = f"Its highest price, {_money(steps_of(amount))}, is enough for"
    if limit_s >= job.time_limit_s:
        return f"{words} the whole time limit of {whole_span(job.time_limit_s)}."
    so_far = f"it has cost {_money(spent)} so far"
    words += f" {span_words(more_s)} from now; {so_far}."
    return words + _growth_words(job, attempt, steps_of(amount) - spent, now)


def _growth_words(job: Job, attempt: Attempt, left: int, now: datetime) -> str:
    """Of one that may have more nodes: on how many of them what is left lets it go on."""
    has = attempt.placements.count()
    if job.nodes <= has:
        return ""
    most = max(has, Dearest(now).most_nodes(job, left))
    if most == has:
        return f" What is left pays for no more than its {has} node{'' if has == 1 else 's'}."
    return f" What is left lets it grow to {most} nodes, and pays for less time there."


@transaction.atomic
def set_max_cost(
    *,
    actor: User,
    job: Job,
    asked: Pricing,
    version: int | None = None,
    now: datetime | None = None,
) -> Job:
    """Let all attempts of the job together cost this at most. A no-op if that is so.

    1. A waiting job may have any that a submit would accept, beside what it has cost so far. One
       that was held because its price is too low goes on.
    2. One that runs is held by it from now on: its nodes are told until when it is enough. It has
       to be enough for a minute and the time to stop.
    3. Budgets hold more or less for it along, or refuse; its template holds its owner.

    The history, which the whole team reads, has no amount; the audit has.
    Raises Forbidden, Conflict, Invalid or StaleVersion.
    """
    now = now or timezone.now()
    # Attempts are locked before jobs, by whoever changes its time limit along with this, too.
    attempt_id = job.attempts.order_by("-number").values_list("pk", flat=True).first()
    attempt = locked_live_attempt(attempt_id) if attempt_id else None
    job = locked_job(job)
    check_actor(actor, job, version)
    refuse_unseen(actor, job)
    if job.state in FINAL_JOB_STATES:
        raise Conflict(f"The job has ended: it is {job.state}.")
    was = job.max_cost
    if (amount := asked.of(job)) == was:
        return job
    then = priced(job, asked)
    check_price(actor, then, now=now)
    if job.state in LIVE_JOB_STATES:
        _tell_nodes(then, attempt, now)
    columns = price_columns(job, asked)
    if job.state == JobState.QUEUED and job.wait_reason == WaitReason.MAX_COST_SHORT:
        columns |= {"wait_reason": WaitReason.EVALUATING, "wait_facts": {}}
    guard = {"state": job.state, "version": job.version}
    if not update_row(Job, job.pk, columns, guard=guard, raised=("version",)):
        raise Conflict("The job has just moved; nothing was changed. Try again.", code="try_again")
    if job.state in WAITING_JOB_STATES:
        adjust_pledges(then, now)
    _record(job, attempt, actor, was, amount, now)
    if job.wait_reason == WaitReason.MAX_COST_SHORT:
        let_go_of([job.pk], WaitReason.MAX_COST_SHORT, now=now)
    job = locked_job(job)
    tell_of_job(job)
    events.wake_scheduler_on_commit()
    return job


def refuse_unseen(actor: User, job: Job) -> None:
    """Raises Forbidden for who may not see what the job costs, before anything of it is compared
    with its highest price."""
    if not may_see_cost(actor, job):
        raise Forbidden("Your role may change this job, but not what it may cost.")


def _record(
    job: Job,
    attempt: Attempt | None,
    actor: User,
    was: Decimal | None,
    amount: Decimal | None,
    now: datetime,
) -> None:
    said = {"now": "none" if amount is None else "one" if was is None else "higher"}
    if was is not None and amount is not None and amount < was:
        said = {"now": "lower"}
    words = {"was": _written(was), "is": _written(amount)}
    kind = "max_cost_changed"
    record_event(job, kind, now=now, actor=actor, attempt=attempt, detail=said, audited=words)
    if actor.pk == job.owner_id:
        before, after = ({_FIELD: one} for one in words.values())
        record(actor, f"job.{kind}", job, before=before, after=after, now=now)


def _written(amount: Decimal | None) -> str:
    return "none" if amount is None else format_price(amount)


def _tell_nodes(job: Job, attempt: Attempt | None, now: datetime) -> None:
    if attempt is None:
        raise Conflict("The job is just being started; try again in a second.", code="try_again")
    if attempt.state == AttemptState.STOPPING:
        raise Conflict("The job is being stopped; another price comes too late.")
    nodes = nodes_to_tell(attempt)
    hold_more(attempt, job, job.time_limit_s)
    limit_s = None
    if job.max_cost is not None:
        limit_s = _since(attempt, now) + limit_left_s(attempt, job, now)
    Attempt.objects.filter(pk=attempt.pk).update(cost_limit_s=limit_s)
    change_desired(nodes)


def _refuse_too_little(job: Job, now: datetime) -> None:
    attempt = _live(job)
    needed = least_to_go_on(attempt, job, now) if attempt else 0
    if (job.max_cost_steps or 0) < needed:
        least = from_steps(needed).quantize(_CENT, ROUND_UP)
        raise Invalid(
            f"max_cost: does not pay for {format_duration(SHORTEST_S)} more and the time to stop, "
            f"beside what it has cost so far; give at least {least} {load_conf().currency}.",
            field=_FIELD,
        )


def _live(job: Job) -> Attempt | None:
    return job.attempts.filter(ended_at__isnull=True).order_by("-number").first()


def _since(attempt: Attempt, now: datetime) -> int:
    return max(0, int((now - attempt.assigned_at).total_seconds()))


def _spec_of(job: Job) -> JobSpec:
    """With its time limit and its most nodes as they are by now."""
    spec = JobSpec.model_validate(job.spec)
    nodes = NodeCount(job.nodes, min(job.nodes, job.nodes_min))
    return spec.model_copy(update={"time_limit": job.time_limit_s, "nodes": nodes})


def _money(steps: int) -> str:
    return f"{from_steps(steps):.2f} {load_conf().currency}"
