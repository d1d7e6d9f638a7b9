"""What belongs to one job: why it waits, what happened, its attempts."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.http import HttpResponse
from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.models import User
from portal.api.operations import ApiView, operation
from portal.api.parts import PART_QUERY, Part, part_of
from portal.api.shapes import viewer_of
from portal.api.v1.job_shapes import (
    Checkpoint,
    End,
    Wait,
    show_checkpoint,
    show_end,
    show_wait,
)
from portal.api.v1.standing.failing import Triage, show_triage
from portal.api.v1.standing.idle import IdleShape, show_idle
from portal.api.v1.standing.waiting import (
    AwaitedJobShape,
    AwaitedSetShape,
    FinishShape,
    WaitedForBy,
    show_finish,
    show_waiters,
)
from portal.reports.downloads import as_patch
from scheduler.loop.supposing.in_time import finish_of_waiting
from scheduler.models import Attempt, Job, JobEvent
from scheduler.selectors import jobs as select
from scheduler.selectors.checkpoints import latest_saved, saved_by
from scheduler.selectors.one_job.awaited import jobs_awaited, sets_awaited
from scheduler.selectors.one_job.happened import job_events, shown_facts
from scheduler.selectors.one_job.idling import idle_standing
from scheduler.selectors.one_job.tries import patch_of
from scheduler.selectors.queues import position_in_queue
from scheduler.selectors.triage import diagnosis_of, latest_diagnosis
from scheduler.selectors.waits.waiters import waiters_of
from scheduler.states import FINAL_JOB_STATES, EndReason, end_sentence


class Why(serializers.Serializer[Any]):
    """`sentence` says in words where the job stands; `wait`, `end` and `triage` carry more, `jobs`
    and `sets` how far those are that it waits for: ten jobs at most, arrays that you may see;
    `waited_for_by` says who waits for it, `idle` that a running one does little with its
    GPUs."""

    state = serializers.CharField()
    sentence = serializers.CharField()
    position = serializers.IntegerField(allow_null=True)
    wait = Wait(allow_null=True)
    jobs = AwaitedJobShape(many=True)
    sets = AwaitedSetShape(many=True)
    waited_for_by = WaitedForBy()
    finish = FinishShape(allow_null=True)
    end = End(allow_null=True)
    triage = Triage(allow_null=True)
    checkpoint = Checkpoint(allow_null=True)
    idle = IdleShape(allow_null=True)


class Event(serializers.Serializer[Any]):
    """One thing that happened; a move names both states. Of the checkpoints of an attempt the first
    and the last are told: of the last `detail` says how many were (`times`, one a minute at most),
    and which is the newest (`newest_step`, `newest_bytes`, `newest_at`)."""

    at = serializers.DateTimeField()
    kind = serializers.CharField()
    actor = serializers.CharField(allow_null=True)
    attempt = serializers.IntegerField(allow_null=True)
    from_state = serializers.CharField()
    to_state = serializers.CharField()
    detail = serializers.DictField()


class Events(Part):
    """The history."""

    items = Event(many=True)


class AttemptDevice(serializers.Serializer[Any]):
    """A GPU an attempt held."""

    uuid = serializers.CharField()
    index = serializers.IntegerField()
    model = serializers.CharField()
    is_simulated = serializers.BooleanField()


class AttemptRank(serializers.Serializer[Any]):
    """An attempt's share of one node."""

    rank = serializers.IntegerField()
    node = serializers.CharField()
    exit_code = serializers.IntegerField(allow_null=True)
    log_size = serializers.IntegerField()
    log_lines = serializers.IntegerField()
    log_pruned_at = serializers.DateTimeField(allow_null=True)
    devices = AttemptDevice(many=True)


class AttemptShape(serializers.Serializer[Any]):
    """One try to run the job. `lost_s`, `lost_gpu_s`: work since its last confirmed checkpoint, of
    the program and on all its GPUs; null while it runs and after a success.
    """

    number = serializers.IntegerField()
    state = serializers.CharField()
    end_reason = serializers.CharField()
    end_sentence = serializers.CharField()
    exit_code = serializers.IntegerField(allow_null=True)
    triage = Triage(allow_null=True)
    code_commit = serializers.CharField()
    has_patch = serializers.BooleanField(help_text="whether its code had local changes")
    checkpoint = Checkpoint(allow_null=True)
    checkpoint_problem = serializers.CharField()
    resume_from = serializers.CharField()
    resume_step = serializers.IntegerField(allow_null=True)
    resume_problem = serializers.CharField()
    lost_s = serializers.IntegerField(allow_null=True)
    lost_gpu_s = serializers.IntegerField(allow_null=True)
    assigned_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    ranks = AttemptRank(many=True)


class Attempts(Part):
    """All tries, the first one first."""

    items = AttemptShape(many=True)


class JobWhy(ApiView):
    """`/jobs/<id>/why/`."""

    @operation("jobs_why", "Why it waits, or how it ended", scope="jobs:read", reply=Why)
    def get(self, request: Request, pk: int) -> Response:
        viewer = viewer_of(request)
        job = select.get_visible_job(viewer, pk)
        sentence = select.wait_sentence_of(job)
        if job.state in FINAL_JOB_STATES:
            sentence = select.end_sentence_of(job)
        idle = idle_standing(viewer, job, now=timezone.now())
        if idle is not None:
            sentence = idle.sentence
        return Response(
            {
                "state": job.state,
                "sentence": sentence or f"It is {job.state}.",
                "position": position_in_queue(job),
                "wait": show_wait(job),
                "jobs": [asdict(one) for one in jobs_awaited(viewer, job)],
                "sets": [{**asdict(one), "words": one.words} for one in sets_awaited(viewer, job)],
                "waited_for_by": show_waiters(waiters_of(viewer, job=job.pk)),
                "finish": show_finish(finish_of_waiting(job, now=timezone.now())),
                "end": show_end(job),
                "triage": show_triage(latest_diagnosis(viewer, job)),
                "checkpoint": show_checkpoint(latest_saved(viewer, job)),
                "idle": show_idle(idle),
            }
        )


class JobEvents(ApiView):
    """`/jobs/<id>/events/`."""

    @operation(
        "jobs_events",
        "What happened, oldest first",
        scope="jobs:read",
        query=PART_QUERY,
        reply=Events,
    )
    def get(self, request: Request, pk: int) -> Response:
        viewer = viewer_of(request)
        job = select.get_visible_job(viewer, pk)
        events, may_read = job_events(viewer, job), select.may_read_inside(viewer, job)
        return Response(
            part_of(
                request,
                events,
                lambda found: [_show_event(one, may_read=may_read) for one in found],
            )
        )


def _show_event(event: JobEvent, *, may_read: bool) -> dict[str, Any]:
    return {
        "at": event.at,
        "kind": event.kind,
        "actor": event.actor.username if event.actor else None,
        "attempt": event.attempt.number if event.attempt else None,
        "from_state": event.from_state,
        "to_state": event.to_state,
        "detail": shown_facts(event, may_read=may_read),
    }


class JobAttempts(ApiView):
    """`/jobs/<id>/attempts/`."""

    @operation(
        "jobs_attempts",
        "Tries, nodes, devices",
        scope="jobs:read",
        query=PART_QUERY,
        reply=Attempts,
    )
    def get(self, request: Request, pk: int) -> Response:
        viewer = viewer_of(request)
        job = select.get_visible_job(viewer, pk)
        attempts = select.attempts_of(viewer, job)
        return Response(
            part_of(
                request,
                attempts,
                lambda found: [_show_attempt(viewer, job, one) for one in found],
            )
        )


class JobPatch(ApiView):
    """`/jobs/<id>/attempts/<number>/patch/`."""

    @operation(
        "jobs_patch",
        "Local changes of its code",
        scope="logs:read",
        reply=str,
        reply_type="text/plain",
    )
    def get(self, request: Request, pk: int, number: int) -> HttpResponse:
        """For `git apply` at the commit in X-Code-Commit; empty without any. Its first 256 KiB are
        kept, with `***` for secrets."""
        viewer = viewer_of(request)
        job = select.get_visible_job(viewer, pk)
        commit, patch = patch_of(viewer, job, number)
        return as_patch(patch, commit, job.pk, number)


def _show_attempt(viewer: User, job: Job, attempt: Attempt) -> dict[str, Any]:
    reason = attempt.end_reason
    may_read = select.may_read_inside(viewer, job)
    return {
        "number": attempt.number,
        "state": attempt.state,
        "end_reason": reason,
        "end_sentence": end_sentence(EndReason(reason), attempt.end_facts) if reason else "",
        "exit_code": attempt.exit_code,
        "triage": show_triage(diagnosis_of(viewer, job, attempt)),
        "code_commit": attempt.code_commit,
        "has_patch": bool(attempt.code_patch),
        "checkpoint": show_checkpoint(saved_by(viewer, job, attempt)),
        "checkpoint_problem": attempt.checkpoint_problem if may_read else "",
        "resume_from": attempt.resume_from if may_read else "",
        "resume_step": attempt.resume_step,
        "resume_problem": attempt.resume_problem if may_read else "",
        "lost_s": attempt.end_facts.get("lost_s"),
        "lost_gpu_s": attempt.end_facts.get("lost_gpu_s"),
        "assigned_at": attempt.assigned_at,
        "started_at": attempt.started_at,
        "ended_at": attempt.ended_at,
        "ranks": [
            {
                "rank": placement.rank,
                "node": placement.node.name,
                "exit_code": placement.exit_code,
                "log_size": placement.log_size,
                "log_lines": placement.log_lines,
                "log_pruned_at": placement.log_pruned_at,
                "devices": [
                    {
                        "uuid": allocation.device.uuid,
                        "index": allocation.device.index,
                        "model": allocation.device.model,
                        "is_simulated": allocation.device.is_simulated,
                    }
                    for allocation in placement.allocations.all()
                ],
            }
            for placement in attempt.placements.all()
        ],
    }
