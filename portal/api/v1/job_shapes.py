"""Jobs as JSON: the shapes for the schema, and the functions that fill them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from django.utils import timezone
from rest_framework import serializers

from accounts.models import User
from portal.api.v1.standing.failing import Triage, show_triage
from portal.api.v1.standing.idle import IdleShape, show_idle
from portal.api.v1.standing.waiting import FinishShape, WaitedForBy, show_finish, show_waiters
from scheduler.loop.supposing.in_time import finish_of_waiting
from scheduler.models import Job
from scheduler.selectors import jobs as select
from scheduler.selectors.checkpoints import Saved, latest_saved
from scheduler.selectors.one_job.idling import idle_standing
from scheduler.selectors.prices.seen import may_see_cost, paid_until
from scheduler.selectors.queues import position_in_queue
from scheduler.selectors.recurring.along import schedule_number
from scheduler.selectors.triage import latest_diagnosis
from scheduler.selectors.waits.waiters import Waiters, waiters_of
from scheduler.spec.price import format_price
from scheduler.states import (
    END_RULES,
    FINAL_JOB_STATES,
    WAITING_JOB_STATES,
    EndReason,
    FinishPolicy,
    JobState,
    Tier,
)

JOB_STATES = tuple(str(state) for state in JobState)


class Wait(serializers.Serializer[Any]):
    """Why a job waits: a stable code, the sentence people see, and its facts."""

    reason = serializers.CharField()
    sentence = serializers.CharField()
    facts = serializers.DictField()
    checked_at = serializers.DateTimeField(
        allow_null=True,
        help_text="Since when just this is so: every cycle looks, and writes down what changes.",
    )


class End(serializers.Serializer[Any]):
    """How the latest attempt ended; `failure` is the class that counts; see `triage`. `because`:
    what somebody said who ended or paused it, "" for nothing."""

    reason = serializers.CharField()
    sentence = serializers.CharField()
    because = serializers.CharField(allow_blank=True)
    failure = serializers.CharField()
    exit_code = serializers.IntegerField(allow_null=True)


class Checkpoint(serializers.Serializer[Any]):
    """A checkpoint that its node has confirmed. `path` is empty for those who may not read inside.

    `taken_at` is the server's time; `digest` SHA-256 in hex.
    """

    attempt = serializers.IntegerField()
    step = serializers.IntegerField()
    bytes = serializers.IntegerField()
    digest = serializers.CharField()
    taken_at = serializers.DateTimeField()
    node = serializers.CharField()
    path = serializers.CharField()


class JobRow(serializers.Serializer[Any]):
    """A job in a list. Per-node figures are per node; `version` counts moves, for If-Match. Of its
    owner's jobs in `group` the newest cancels the others; null for none. `warnings`: how many lines
    of all logs of its latest attempt say warn, in capitals or not, 10001 for more than 10000; null
    while they are not counted, where they cannot be, and for those who may not read the log."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    project = serializers.CharField()
    team = serializers.CharField()
    owner = serializers.CharField()
    pool = serializers.CharField()
    tier = serializers.ChoiceField([tier.name.lower() for tier in Tier])
    nodes = serializers.IntegerField()
    nodes_min = serializers.IntegerField()
    gpus_per_node = serializers.IntegerField()
    gpus = serializers.IntegerField()
    gpu_model = serializers.CharField()
    state = serializers.ChoiceField(JOB_STATES)
    shown_state = serializers.CharField()
    is_final = serializers.BooleanField()
    version = serializers.IntegerField()
    wait = Wait(allow_null=True)
    end = End(allow_null=True)
    set = serializers.IntegerField(allow_null=True)
    group = serializers.CharField(allow_null=True)
    array_index = serializers.IntegerField(allow_null=True)
    submitted_at = serializers.DateTimeField()
    finish_by = serializers.DateTimeField(allow_null=True)
    finish_by_policy = serializers.ChoiceField(list(FinishPolicy), allow_null=True)
    queued_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    warnings = serializers.IntegerField(allow_null=True)


class JobDetail(JobRow):
    """One job. `spec` is null for those who may not read inside, as with a token without
    `logs:read`; `actions` is what you may do.
    `finish`: of one that waits and has a moment to be finished by, else null. `max_cost`: what all
    its attempts together may cost, null for none and for those who may not see costs; `paid_until`:
    when it ends for that, of one that runs. `pool_choice`: the pools that it chooses from."""

    cpus = serializers.IntegerField()
    memory_mib = serializers.IntegerField()
    time_limit_s = serializers.IntegerField()
    pool_choice = serializers.ListField(child=serializers.CharField())
    max_cost = serializers.CharField(allow_null=True)
    paid_until = serializers.DateTimeField(allow_null=True)
    retries = serializers.IntegerField()
    retries_used = serializers.IntegerField()
    cloned_from = serializers.IntegerField(allow_null=True)
    schedule = serializers.IntegerField(allow_null=True)
    attempt = serializers.IntegerField(allow_null=True)
    position = serializers.IntegerField(allow_null=True)
    actions = serializers.ListField(child=serializers.CharField())
    triage = Triage(allow_null=True)
    checkpoint = Checkpoint(allow_null=True)
    waited_for_by = WaitedForBy()
    finish = FinishShape(allow_null=True)
    idle = IdleShape(allow_null=True)
    spec = serializers.DictField(allow_null=True)


class JobPage(serializers.Serializer[Any]):
    """A page of jobs; ask for the next with `next_cursor`."""

    items = JobRow(many=True)
    next_cursor = serializers.CharField(allow_null=True)


def show_wait(job: Job) -> dict[str, Any] | None:
    """Null unless the job waits."""
    if job.state not in WAITING_JOB_STATES:
        return None
    return {
        "reason": job.wait_reason,
        "sentence": select.wait_sentence_of(job),
        "facts": job.wait_facts,
        "checked_at": job.wait_checked_at,
    }


def show_end(job: Job) -> dict[str, Any] | None:
    """Null unless an attempt has ended."""
    if not job.end_reason:
        return None
    return {
        "reason": job.end_reason,
        "sentence": select.end_sentence_of(job),
        "because": str(job.end_facts.get("because", "")),
        "failure": job.end_facts.get("failure")
        or str(END_RULES[EndReason(job.end_reason)].failure),
        "exit_code": job.exit_code,
    }


def show_checkpoint(saved: Saved | None) -> dict[str, Any] | None:
    """Null unless one was confirmed."""
    return asdict(saved) if saved else None


def show_row(
    job: Job, unreachable: Iterable[int] = (), warnings: int | None = None
) -> dict[str, Any]:
    """A job as JobRow; `unreachable` are the jobs on silent nodes, `warnings` for the viewer."""
    return {
        "id": job.pk,
        "name": job.name,
        "project": job.project.path,
        "team": job.project.team.slug,
        "owner": job.owner.username,
        "pool": job.pool.name,
        "tier": Tier(job.tier).name.lower(),
        "nodes": job.nodes,
        "nodes_min": job.nodes_min,
        "gpus_per_node": job.gpus_per_node,
        "gpus": job.gpus,
        "gpu_model": job.gpu_model,
        "state": job.state,
        "shown_state": select.shown_state_of(job, set(unreachable)),
        "is_final": job.state in FINAL_JOB_STATES,
        "version": job.version,
        "wait": show_wait(job),
        "end": show_end(job),
        "set": job.job_set_id,
        "group": job.group_name,
        "array_index": job.array_index,
        "submitted_at": job.submitted_at,
        "finish_by": job.finish_by,
        "finish_by_policy": job.finish_policy,
        "queued_at": job.queued_at,
        "started_at": job.started_at,
        "ended_at": job.ended_at,
        "warnings": warnings,
    }


def show_rows(viewer: User, jobs: list[Job]) -> list[dict[str, Any]]:
    """Jobs, each with `log_warnings_along` as `warnings_`, as JobRows; one query for all."""
    unreachable = select.unreachable_job_ids(jobs)
    rows: Iterable[Any] = jobs
    return [
        show_row(job, unreachable, job.warnings_ if select.may_read_inside(viewer, job) else None)
        for job in rows
    ]


def show_job(viewer: User, job: Job, *, is_new: bool = False) -> dict[str, Any]:
    """All of one job that the viewer may see. `is_new`: just submitted, so never tried."""
    may_read = select.may_read_inside(viewer, job)
    attempt, warnings = (None, None) if is_new else select.latest_attempt(job)
    # Who was never tried has nothing to tell of a try.
    failed = latest_diagnosis(viewer, job) if attempt else None
    saved = latest_saved(viewer, job) if attempt else None
    waiters = Waiters() if is_new else waiters_of(viewer, job=job.pk)
    return {
        **show_row(job, select.unreachable_job_ids([job]), warnings if may_read else None),
        "cpus": job.cpus,
        "memory_mib": job.memory_mib,
        "time_limit_s": job.time_limit_s,
        "pool_choice": job.pool_choice or [],
        **_show_price(viewer, job),
        "retries": job.retries,
        "retries_used": job.user_retries_used,
        "cloned_from": job.cloned_from_id,
        "schedule": None if is_new else schedule_number(job),
        "attempt": attempt,
        "position": position_in_queue(job),
        "actions": sorted(select.job_actions(viewer, job)),
        "triage": show_triage(failed),
        "checkpoint": show_checkpoint(saved),
        "waited_for_by": show_waiters(waiters),
        "finish": show_finish(finish_of_waiting(job, now=timezone.now())),
        "idle": show_idle(idle_standing(viewer, job, now=timezone.now())),
        "spec": select.shown_spec(viewer, job).readable() if may_read else None,
    }


def _show_price(viewer: User, job: Job) -> dict[str, Any]:
    if job.max_cost is None or not may_see_cost(viewer, job):
        return {"max_cost": None, "paid_until": None}
    return {"max_cost": format_price(job.max_cost), "paid_until": paid_until(job)}
