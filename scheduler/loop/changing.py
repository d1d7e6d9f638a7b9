"""Changes to a job that waits or runs, with what they would mean for others asked first."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from operator import itemgetter
from typing import Any

from django.db import transaction
from django.utils import timezone

from accounts.models import User
from accounts.permissions import can
from scheduler.engine.asking import (
    Impact,
    Start,
    impact_of,
    with_cost,
    with_limit,
    with_most,
    with_tier,
)
from scheduler.loop.answering import picture
from scheduler.loop.supposing.effects import (
    finish_then,
    highest_then,
    more_cost,
    most_nodes_then,
)
from scheduler.loop.supposing.reshaping import asked_otherwise, most_costs
from scheduler.models import Job
from scheduler.selectors.jobs import visible_jobs
from scheduler.selectors.prices.seen import may_see_cost
from scheduler.services.changing.limits import refuse_senseless, set_time_limit
from scheduler.services.changing.moments import Finishing, set_finish_by
from scheduler.services.changing.prices import (
    Pricing,
    price_columns,
    priced,
    refuse_unseen,
    set_max_cost,
)
from scheduler.services.changing.reading import TIERS, Change, read_change
from scheduler.services.changing.requests import Asks, refuse_started, request_for, set_request
from scheduler.services.changing.sizes import check_size, set_nodes
from scheduler.services.changing.tiers import set_tier
from scheduler.services.errors import Forbidden, Invalid
from scheduler.services.jobs import check_actor
from scheduler.services.prices.highest import left_steps
from scheduler.states import FINAL_JOB_STATES, LIVE_JOB_STATES, JobState

__all__ = ["TIERS", "Change", "change_job", "preview", "preview_pause", "read_change"]

# So many delayed jobs are named one by one, those that lose most.
MOST_NAMED = 10
_NOTHING, _SAME, _AS_PRICED = Asks(), Finishing(), Pricing()


def preview_pause(viewer: User, job: Job, *, now: datetime) -> dict[str, Any]:
    """As `preview`, if a running job gave back all that it has."""
    before, policy = picture(now)
    after = with_most(before, job.pk, 0, _frees_s(job, now))
    return _as_seen(viewer, impact_of(before, after, policy, job.pk), now)


def preview(viewer: User, job: Job, change: Change, *, now: datetime) -> dict[str, Any]:
    """What the change would mean, as JSON values; jobs of others are shown without numbers.

    `consent` says whose word it takes: "" for the owner's own, "lead" if other jobs of the team
    start later, "operator" if jobs of other teams do. `may` says whether the viewer may then.
    Raises Invalid for what could not be, and Conflict where a job that waits no more is to ask for
    something else.
    """
    change = change.of(job)
    if change.pricing != _AS_PRICED:
        refuse_unseen(viewer, job)
    if change.time_limit_s is not None:
        refuse_senseless(job, change.time_limit_s)
    if change.nodes is not None and job.state not in FINAL_JOB_STATES:
        check_size(job, change.nodes)
    is_more = change.pricing.is_more(job)
    columns = _columns(viewer, priced(job, change.pricing) if is_more else job, change, now)
    impact = _impact(job, change, columns, now)
    delayed = [one.job for one in impact.delayed]
    teams = Job.objects.filter(pk__in=delayed).values_list("project__team_id", flat=True)
    consent = _consent(job, change, set(teams))
    return _as_seen(viewer, impact, now) | {
        "own": _plain(impact.own, True, now) if impact.own else None,
        "finish": finish_then(job, change, now),
        "consent": consent,
        "may": _may(viewer, job, consent),
        "more_cost": None if columns else more_cost(viewer, job, change, now),
        "most_cost": most_costs(job, columns | _paid_columns(job, change), now=now)
        if columns and may_see_cost(viewer, job)
        else None,
        "highest": highest_then(viewer, job, change, columns, now),
    }


def _columns(viewer: User, job: Job, change: Change, now: datetime) -> dict[str, Any]:
    """What becomes of the job's request."""
    if change.asks == _NOTHING:
        return {}
    refuse_started(job)
    if viewer.pk == job.owner_id:
        # Whose rights are known already.
        job.owner = viewer
    return request_for(job, change.asks, now=now, sees_cost=may_see_cost(viewer, job))


def _paid_columns(job: Job, change: Change) -> dict[str, Any]:
    """What it is paid for beside its GPUs."""
    columns = price_columns(job, change.pricing)
    limit_s = change.time_limit_s
    return columns if limit_s is None else columns | {"time_limit_s": limit_s}


def _as_seen(viewer: User, impact: Impact, now: datetime) -> dict[str, Any]:
    """Who starts later and who sooner, those who lose or gain most one by one."""
    named = (*impact.delayed[:MOST_NAMED], *impact.sooner[:MOST_NAMED])
    ids = [one.job for one in named]
    seen = set(visible_jobs(viewer).filter(pk__in=ids).values_list("pk", flat=True))
    changed = (*impact.stopped, *(one for one, _ in impact.resized))
    seen |= set(visible_jobs(viewer).filter(pk__in=changed).values_list("pk", flat=True))
    shown: dict[str, Any] = {
        "asked_at": now,
        "stopped": [job if job in seen else None for job in impact.stopped[:MOST_NAMED]],
        "stopped_count": len(impact.stopped),
        "resized": [
            {"job": job if job in seen else None, "nodes": nodes} for job, nodes in impact.resized
        ],
    }
    for word, starts in (("delayed", impact.delayed), ("sooner", impact.sooner)):
        shown[word] = [_plain(one, one.job in seen, now) for one in starts[:MOST_NAMED]]
        shown[f"{word}_count"] = len(starts)
    return shown


def change_job(
    *,
    actor: User,
    job: Job,
    change: Change,
    version: int | None = None,
    now: datetime | None = None,
) -> Job:
    """Do it, if nobody else has to agree: what `preview` says is asked again here.

    Raises Forbidden, Conflict, Invalid or StaleVersion.
    """
    now = now or timezone.now()
    change = _said(change).of(job)
    check_actor(actor, job, version)
    if change.pricing != _AS_PRICED:
        refuse_unseen(actor, job)
    if _needs_consent(job, change):
        consent = preview(actor, job, change, now=now)["consent"]
        if not _may(actor, job, consent):
            who = "a lead of the team" if consent == "lead" else "an operator"
            raise Forbidden(f"Others would start later because of it; {who} may do it.")
    # All or nothing; what was asked above needs no lock.
    with transaction.atomic():
        for act in _acts(job, change):
            job, version = act(actor=actor, job=job, version=version, now=now), None
    return job


def _acts(job: Job, change: Change) -> list[Callable[..., Job]]:
    """What is to be done, one after the other. A moment bounds the time limit: it comes before more
    time, and after less. A highest price has to pay for what else is asked for, and budgets for as
    much of the time as it pays for: more of it comes first, less after other sizes, and more time
    last. Of one that runs, which is stopped for fewer nodes, price and time come before those."""
    is_live, limit_s = job.state in LIVE_JOB_STATES, change.time_limit_s
    acts: list[tuple[int, Callable[..., Job]]] = []
    if limit_s is not None:
        place = 0 if limit_s < job.time_limit_s else 2 if is_live else 7
        acts.append((place, partial(set_time_limit, time_limit_s=limit_s, may_run=is_live)))
    if change.finishing != _SAME:
        acts.append((1, partial(set_finish_by, asked=change.finishing)))
    if change.tier is not None:
        acts.append((3, partial(set_tier, tier=change.tier)))
    if change.nodes is not None:
        acts.append((4, partial(set_nodes, nodes=change.nodes, may_run=is_live)))
    if change.asks != _NOTHING:
        acts.append((5, partial(set_request, asks=change.asks)))
    if change.pricing != _AS_PRICED:
        place = 0 if is_live or change.pricing.is_more(job) else 6
        acts.append((place, partial(set_max_cost, asked=change.pricing)))
    return [act for _, act in sorted(acts, key=itemgetter(0))]


def _said(change: Change) -> Change:
    if change == Change():
        words = (
            "Say what to change: a time limit, tier, nodes, GPUs, their model, a pool, the moment "
            "by which it has to be finished or its highest price."
        )
        raise Invalid(words, field="time_limit")
    return change


def _impact(job: Job, change: Change, columns: dict[str, Any], now: datetime) -> Impact:
    if job.state in FINAL_JOB_STATES:
        return Impact(None, ())
    tier = int(change.tier or 0)
    if columns and job.state == JobState.QUEUED:
        before, after, policy = asked_otherwise(job, columns, now=now, tier=tier)
    else:
        before, policy = picture(now, tier)
        after = before
    if change.time_limit_s is not None:
        after = with_limit(after, job.pk, change.time_limit_s - job.time_limit_s)
    if change.pricing != _AS_PRICED and job.state == JobState.QUEUED:
        then = priced(job, change.pricing)
        left = float("inf") if then.max_cost is None else float(left_steps(then, now))
        after = with_cost(after, job.pk, left)
    if change.tier is not None:
        after = with_tier(after, job.pk, int(change.tier))
    if change.nodes is not None:
        lasts_s = change.time_limit_s or job.time_limit_s
        most = most_nodes_then(job, change, now)
        after = with_most(after, job.pk, most, _frees_s(job, now), lasts_s)
    return Impact(None, ()) if after is before else impact_of(before, after, policy, job.pk)


def _frees_s(job: Job, now: datetime) -> float:
    """When what it gives back is free at the latest: after the grace that its spec asks for."""
    grace_s = job.spec.get("stop", {}).get("grace", 30)
    return now.timestamp() + float(grace_s)


def _needs_consent(job: Job, change: Change) -> bool:
    """Only who holds GPUs longer than promised takes something away; who waits asks anew.

    Who gives nodes back has its whole time limit before it again on the others.
    """
    if job.state not in LIVE_JOB_STATES:
        return False
    if change.time_limit_s is not None and change.time_limit_s > job.time_limit_s:
        return True
    return change.nodes is not None and change.nodes < job.nodes


def _consent(job: Job, change: Change, teams: set[int]) -> str:
    if not teams or not _needs_consent(job, change):
        return ""
    return "lead" if teams == {job.project.team_id} else "operator"


def _may(viewer: User, job: Job, consent: str) -> bool:
    if consent == "operator":
        return can(viewer, "operate", None)
    if consent == "lead":
        return can(viewer, "manage_project", job.project) or can(viewer, "operate", None)
    return True


def _plain(start: Start, is_named: bool, now: datetime) -> dict[str, Any]:
    delay_s = start.delay_s
    return {
        "job": start.job if is_named else None,
        "was_at": _moment(start.was_s),
        "then_at": _moment(start.then_s),
        "delay_s": int(delay_s) if abs(delay_s) < float("inf") else None,
    }


def _moment(epoch_s: float | None) -> datetime | None:
    return None if epoch_s is None else datetime.fromtimestamp(epoch_s, UTC)
