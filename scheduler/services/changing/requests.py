"""Another request for a job that waits: other GPUs, another number of nodes, another pool."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils import timezone

from accounts.models import User
from accounts.services.audit import record
from accounts.statements import Asked, asked_together
from scheduler import events
from scheduler.models import Job, Pool, Queue
from scheduler.selectors.machines.shapes import shape_reads
from scheduler.selectors.prices.seen import may_see_cost
from scheduler.services.bookings.joining import resolve_booking
from scheduler.services.changing.limits import unpaid
from scheduler.services.changing.rules import asked_of, follow_template
from scheduler.services.errors import Conflict, Invalid
from scheduler.services.history import record_event, tell_of_job
from scheduler.services.jobs import check_actor, locked_job
from scheduler.services.preempting.claims import drop_room
from scheduler.services.prices.highest import Dearest
from scheduler.services.prices.waiting import let_go_of
from scheduler.services.rows.updating import update_row
from scheduler.services.sharing.alerts import ASKED_AT_SUBMIT, asked_at_submit, refuse_blocked
from scheduler.services.sharing.keeping.pledging import (
    PledgeRefused,
    give_back,
    pledge,
    pledging,
)
from scheduler.services.submitting.columns import DEFAULT_POOL, columns_of, pools_of
from scheduler.services.submitting.longest import longest_on_the_way, refuse_longer
from scheduler.services.submitting.payable import refuse_unpayable
from scheduler.services.submitting.targets import Seen, in_other_pool, resolve_target
from scheduler.spec import JobSpec, SpecInvalid, parse_spec
from scheduler.states import FINAL_JOB_STATES, WAITING_JOB_STATES, JobState, Tier, WaitReason

_OF_NODES = ("nodes", "nodes_min", "node_sizes")
_OF_GPUS = ("gpus_per_node", "gpu_model", "gpu_models", "fallback_after_s", "is_shaped")


@dataclass(frozen=True, slots=True)
class Asks:
    """What a job is to ask for instead; None leaves it as it is.

    `nodes` as people write it, 4 or 2..8; an empty `gpu_model` takes any; `pool` several with
    commas, the most wanted first.
    """

    gpus_per_node: int | None = None
    gpu_model: str | None = None
    nodes: str | None = None
    pool: str | None = None


def request_for(job: Job, asks: Asks, *, now: datetime, sees_cost: bool = False) -> dict[str, Any]:
    """The columns of the job, loaded with its project, pool and owner, that become others; empty
    if it asks for just that. Checked as a submit of its owner would be; raises Invalid, which says
    no amount of its highest price but to who `sees_cost`.

    What follows from one choice goes with it: another model is asked for in place of several in an
    order, another number of nodes in place of certain numbers, another pool in place of several.
    """
    try:
        spec = parse_spec(_document(job, asks))
        columns = columns_of(spec)
        chosen = {name: columns[name] for name in _OF_GPUS}
        if asks.nodes is not None:
            chosen |= {name: columns[name] for name in _OF_NODES}
        if asks.pool is not None:
            chosen |= {"pool_choice": columns["pool_choice"]}
        queue = job.queue
        if any(getattr(job, name) != value for name, value in chosen.items()) or _moves(job, asks):
            queue = _checked(job, asks, spec, now, sees_cost)
            chosen |= {"pool": queue.pool} if _moves(job, asks) else {}
    except SpecInvalid as refused:
        # A change names all its pools in one field.
        words, field = str(refused), refused.problems[0].field
        words = words.replace("other_pools: ", "pool: ") + ("" if words[-1] in ".?" else ".")
        raise Invalid(words, field="pool" if field == "other_pools" else field) from None
    changed = {name: value for name, value in chosen.items() if getattr(job, name) != value}
    if not changed:
        return {}
    if "pool" in changed:
        changed |= {"queue": queue}
    return changed | {"spec": columns["spec"]}


def refuse_started(job: Job) -> None:
    """Raises Conflict for a job that waits no more."""
    if job.state not in WAITING_JOB_STATES:
        what = "has ended" if job.state in FINAL_JOB_STATES else "has started"
        raise Conflict(
            f"The job {what}: it is {job.state}. Nothing was changed, for only a waiting job may "
            "ask for other GPUs, nodes or another pool.",
            code="started",
        )


def _moves(job: Job, asks: Asks) -> bool:
    """Whether it is to wait in another pool: not where its own is among those it may choose."""
    named = "" if asks.pool is None else asks.pool
    return bool(named) and job.pool.name not in map(str.strip, named.split(","))


def _chooses(asks: Asks, named: Collection[str]) -> bool:
    """Whether it is to choose from one pool or several where it or they did not before."""
    return asks.pool is not None and ("," in asks.pool or len(named) > 1)


def _document(job: Job, asks: Asks) -> dict[str, Any]:
    """The spec that asks for this, its time limit and tier as they are by now."""
    document = JobSpec.model_validate(job.spec).document()
    document |= {"time_limit": job.time_limit_s, "tier": Tier(job.tier).name.lower()}
    # As it was submitted unless it moves: a template may lock the pool to none.
    named = {document["pool"] or DEFAULT_POOL, *document["other_pools"]}
    if _moves(job, asks) or job.pool.name not in named or _chooses(asks, named):
        document |= {"pool": job.pool.name if asks.pool is None else asks.pool, "other_pools": []}
    if asks.gpus_per_node is not None:
        document["gpus_per_node"] = asks.gpus_per_node
    if asks.gpu_model is not None:
        document |= {"gpu_model": asks.gpu_model, "gpu_models": [], "fallback_after": 0}
    if asks.nodes is not None:
        document |= {"nodes": asks.nodes, "node_sizes": []}
    return document


def _checked(job: Job, asks: Asks, spec: JobSpec, now: datetime, sees_cost: bool) -> Queue:
    """Whether it could be submitted like that, and the queue it waits in then; raises SpecInvalid.

    What it counts for already is not counted against it: that so many wait, and its tier.
    """
    seen = Seen(projects={job.project.path: job.project})
    if not _moves(job, asks):
        job.queue.pool = job.pool
        seen.queues[job.pool.name] = job.queue
    there = seen.queue(spec.pool or DEFAULT_POOL)
    with asked_together(_reads(job, spec, there, now)):
        project, queue = resolve_target(job.owner, spec, now, seen)
        resolve_booking(job.owner, project, queue, spec, now=now)
        _check_in(queue.pool, job, asks, spec, now, sees_cost)
        follow_template(job, spec, _asked(job, asks))
        for other in filter(None, map(seen.queue, pools_of(spec)[1:])):
            try:
                _check_in(other.pool, job, asks, spec, now, sees_cost)
            except SpecInvalid as refused:
                raise in_other_pool(other.pool, refused) from None
        if spec.gpus > job.gpus or _moves(job, asks) or asks.gpu_model is not None:
            refuse_blocked(project, asked_at_submit(now))
    return queue


def _check_in(
    pool: Pool, job: Job, asks: Asks, spec: JobSpec, now: datetime, sees_cost: bool
) -> None:
    """What a pool has to say to it; raises SpecInvalid."""
    if _moves(job, asks) or (asks.pool is not None and spec.other_pools):
        longest = longest_on_the_way(job.project_id, job.project.team_id, pool, now=now)
        refuse_longer(longest, job.project, pool, spec.time_limit)
    refuse_unpayable(spec, job.project, pool, Dearest(now), job, says_amount=sees_cost)


def _reads(job: Job, spec: JobSpec, queue: Queue | None, now: datetime) -> list[Asked]:
    """What is looked up for it, read in one go: somebody waits for the page."""
    shape = shape_reads(queue.pool_id, spec.gpu_model) if queue is not None else []
    return [*shape, asked_of(job), (ASKED_AT_SUBMIT, (now,))]


def _asked(job: Job, asks: Asks) -> set[str]:
    """The fields that its template is asked about; a pool that it did not name is not one."""
    asked = {"gpus_per_node", "gpu_model", "gpu_models", "fallback_after"}
    asked |= {"nodes", "node_sizes"} if asks.nodes is not None else set()
    asked |= {"other_pools"} if asks.pool is not None else set()
    return asked | ({"pool"} if _moves(job, asks) else set())


@transaction.atomic
def set_request(
    *, actor: User, job: Job, asks: Asks, version: int | None = None, now: datetime | None = None
) -> Job:
    """Let a waiting job ask for this instead, in its old place. A no-op if it does.

    1. Everything is checked as at a submit, for its owner.
    2. It changes only if it still waits as it was read: a start that was decided before either
       happened, which is said, or happens no more (`overtaken`).
    3. What it had committed at its submit it commits anew, or a budget refuses.
    4. Room that was being made for it as it was is given up.

    Raises Forbidden, Conflict, Invalid or StaleVersion.
    """
    now = now or timezone.now()
    job = locked_job(job)
    check_actor(actor, job, version)
    refuse_started(job)
    columns = request_for(job, asks, now=now, sees_cost=may_see_cost(actor, job))
    if not columns:
        return job
    was, was_in = request_words(job), job.pool.name
    waits: dict[str, Any] = {}
    if job.state == JobState.QUEUED:
        waits = {"wait_reason": WaitReason.EVALUATING, "wait_facts": {}}
    guard = {"state": job.state, "version": job.version}
    if not update_row(Job, job.pk, {**columns, **waits}, guard=guard, raised=("version",)):
        raise Conflict("The job has just moved; nothing was changed. Try again.", code="try_again")
    job = locked_job(job)
    _commit_anew(job, now)
    drop_room(job.pk, now=now)
    facts = {"was": was, "is": request_words(job)}
    record_event(job, "request_changed", now=now, actor=actor, detail=facts)
    if actor.pk == job.owner_id:
        before, after = ({"request": words} for words in facts.values())
        record(actor, "job.request_changed", job, before=before, after=after, now=now)
    if job.wait_reason == WaitReason.MAX_COST_SHORT:
        # What it asks for now is paid: that was looked at.
        let_go_of([job.pk], WaitReason.MAX_COST_SHORT, now=now)
        job = locked_job(job)
    tell_of_job(job, was_in)
    tell_of_job(job)
    events.wake_scheduler_on_commit()
    return job


def request_words(job: Job) -> str:
    """Such as "2 nodes with 4 GPUs each of H100 in pool default"."""
    models = " or ".join(job.gpu_models or [job.gpu_model or "any model"])
    gpus = f"{job.gpus_per_node} GPU{'' if job.gpus_per_node == 1 else 's'}"
    each = " each" if job.nodes > 1 else ""
    of = f" of {models}" if job.gpus_per_node else ""
    pools = " or ".join(dict.fromkeys((job.pool.name, *(job.pool_choice or ()))))
    return f"{job.nodes_words} with {gpus}{each}{of} in pool {pools}"


def _commit_anew(job: Job, now: datetime) -> None:
    """As a submit does; who is held for a budget goes on by itself once it pays."""
    if job.wait_reason == WaitReason.BUDGET_EXHAUSTED:
        return
    give_back([job.pk])
    try:
        pledge([job], list(pledging(now)), now=now)
    except PledgeRefused as refused:
        raise unpaid(refused) from None
