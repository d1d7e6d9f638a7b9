"""Changes to a job that waits or runs, with what they would mean for others asked first."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from django.db import transaction
from django.utils import timezone

from accounts.models import User
from accounts.permissions import can
from scheduler.engine.asking import Impact, Start, impact_of, with_limit, with_most, with_tier
from scheduler.loop.answering import picture
from scheduler.loop.supposing.reshaping import asked_otherwise, most_costs
from scheduler.models import Job
from scheduler.selectors.jobs import visible_jobs
from scheduler.selectors.usage import job_cost, may_see_cost
from scheduler.services.changing.limits import refuse_senseless, set_time_limit
from scheduler.services.changing.requests import Asks, refuse_started, request_for, set_request
from scheduler.services.changing.sizes import set_nodes, sizes_offered
from scheduler.services.changing.tiers import set_tier
from scheduler.services.errors import Forbidden, Invalid
from scheduler.services.jobs import check_actor
from scheduler.spec.parts import NodeCount
from scheduler.spec.schema import MAX_GPUS_PER_NODE
from scheduler.spec.units import parse_duration
from scheduler.states import FINAL_JOB_STATES, LIVE_JOB_STATES, WAITING_JOB_STATES, JobState, Tier

# So many delayed jobs are named one by one, those that lose most.
MOST_NAMED = 10
TIERS = {tier.name.lower(): tier for tier in Tier}


_NOTHING = Asks()


@dataclass(frozen=True, slots=True)
class Change:
    """What is asked for; None leaves it as it is. `nodes`: the most of an elastic job, within what
    it was submitted with; `asks`: what only a waiting job may ask for instead."""

    time_limit_s: int | None = None
    tier: Tier | None = None
    nodes: int | None = None
    asks: Asks = _NOTHING

    def of(self, job: Job) -> Change:
        """The same, where another number of nodes is another request if the job waits and was not
        submitted for that number."""
        is_other = self.nodes is not None and self.nodes not in sizes_offered(job)
        if not is_other or job.state not in WAITING_JOB_STATES:
            return self
        return replace(self, nodes=None, asks=replace(self.asks, nodes=str(self.nodes)))


def read_change(
    time_limit: str = "",
    tier: str = "",
    nodes: str = "",
    *,
    gpus_per_node: str = "",
    gpu_model: str | None = None,
    pool: str = "",
) -> Change:
    """A change as people write it, empty for nothing, an empty model for any; raises Invalid."""
    seconds = None
    if time_limit:
        try:
            seconds = parse_duration(int(time_limit) if time_limit.isdecimal() else time_limit)
        except ValueError as wrong:
            raise Invalid(f"time_limit: {wrong}", field="time_limit") from None
    if tier and tier not in TIERS:
        raise Invalid(f"tier: choose one of {', '.join(TIERS)}.", field="tier")
    count = _read_nodes(nodes) if nodes else None
    is_range = count is not None and ".." in nodes
    asks = Asks(
        _read_gpus(gpus_per_node) if gpus_per_node else None,
        gpu_model,
        str(count.written()) if is_range and count else None,
        pool or None,
    )
    most = None if count is None or is_range else int(count)
    return Change(seconds, TIERS[tier] if tier else None, most, asks)


def _read_nodes(text: str) -> NodeCount:
    try:
        return NodeCount.read(text)
    except ValueError as wrong:
        raise Invalid(f"nodes: {wrong}.", field="nodes") from None


def _read_gpus(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text[:6]) <= MAX_GPUS_PER_NODE):
        words = f"gpus_per_node: write a whole number from 0 to {MAX_GPUS_PER_NODE}."
        raise Invalid(words, field="gpus_per_node")
    return int(text)


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
    if change.time_limit_s is not None:
        refuse_senseless(job, change.time_limit_s)
    columns = _columns(viewer, job, change, now)
    impact = _impact(job, change, columns, now)
    delayed = [one.job for one in impact.delayed]
    teams = Job.objects.filter(pk__in=delayed).values_list("project__team_id", flat=True)
    consent = _consent(job, change, set(teams))
    return _as_seen(viewer, impact, now) | {
        "own": _plain(impact.own, True, now) if impact.own else None,
        "consent": consent,
        "may": _may(viewer, job, consent),
        "more_cost": _more_cost(viewer, job, change, now),
        "most_cost": most_costs(job, columns, now=now)
        if columns and may_see_cost(viewer, job)
        else None,
    }


def _columns(viewer: User, job: Job, change: Change, now: datetime) -> dict[str, Any]:
    """What becomes of the job's request."""
    if change.asks == _NOTHING:
        return {}
    refuse_started(job)
    if viewer.pk == job.owner_id:
        # Whose rights are known already.
        job.owner = viewer
    return request_for(job, change.asks, now=now)


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
    is_live = job.state in LIVE_JOB_STATES
    if _needs_consent(job, change):
        consent = preview(actor, job, change, now=now)["consent"]
        if not _may(actor, job, consent):
            who = "a lead of the team" if consent == "lead" else "an operator"
            raise Forbidden(f"Others would start later because of it; {who} may do it.")
    # All or nothing; what was asked above needs no lock.
    with transaction.atomic():
        if change.time_limit_s is not None:
            job = set_time_limit(
                actor=actor,
                job=job,
                time_limit_s=change.time_limit_s,
                version=version,
                may_run=is_live,
                now=now,
            )
            version = None
        if change.tier is not None:
            job = set_tier(actor=actor, job=job, tier=change.tier, version=version, now=now)
            version = None
        if change.nodes is not None:
            job = set_nodes(
                actor=actor,
                job=job,
                nodes=change.nodes,
                version=version,
                may_run=is_live,
                now=now,
            )
            version = None
        if change.asks != _NOTHING:
            job = set_request(actor=actor, job=job, asks=change.asks, version=version, now=now)
    return job


def _said(change: Change) -> Change:
    if change == Change():
        words = "Say what to change: a time limit, tier, nodes, GPUs, their model or a pool."
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
    if change.tier is not None:
        after = with_tier(after, job.pk, int(change.tier))
    if change.nodes is not None:
        lasts_s = change.time_limit_s or job.time_limit_s
        after = with_most(after, job.pk, change.nodes, _frees_s(job, now), lasts_s)
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


def _more_cost(viewer: User, job: Job, change: Change, now: datetime) -> str | None:
    """What the added time costs at most, at the rate it costs now; None where nobody may say."""
    if change.time_limit_s is None or job.state not in LIVE_JOB_STATES:
        return None
    if not may_see_cost(viewer, job):
        return None
    cost = job_cost(viewer, job, now=now)
    more = cost.hourly * max(0, change.time_limit_s - job.time_limit_s) / 3600
    return f"{more:.2f} {cost.currency}"


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
