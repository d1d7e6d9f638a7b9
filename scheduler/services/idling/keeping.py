"""Saying that a job is still needed, though its GPUs do little."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Sum
from django.utils import timezone

from accounts.models import User
from accounts.permissions import can
from accounts.services.audit import record
from scheduler.models import IdleWarning, Job
from scheduler.services import transitions
from scheduler.services.attempts import locked_live_attempt
from scheduler.services.errors import Conflict, Forbidden, Invalid
from scheduler.services.history import record_event
from scheduler.services.holding.reasons import written
from scheduler.states import LIVE_ATTEMPT_STATES, MOST_REASON, IdleOutcome, stamp


def may_keep(actor: User, job: Job) -> bool:
    """Its owner, and who manages the project."""
    is_own = job.owner_id == actor.pk and can(actor, "submit_job", job.project)
    return is_own or can(actor, "manage_project", job.project)


def hours_left(warning: IdleWarning) -> int:
    """Of those that the rule lets an attempt have in all; one statement."""
    earlier = IdleWarning.objects.filter(attempt=warning.attempt_id, rule=warning.rule_id)
    given = earlier.aggregate(sum=Sum("kept_hours", default=0))["sum"]
    return max(0, warning.rule.keep_hours - int(given))


@transaction.atomic
def keep_job(
    *, actor: User, job: Job, hours: int, reason: str, now: datetime | None = None
) -> datetime:
    """Close its warnings, and give none for so many hours; returns until when.

    Raises Forbidden for others than its owner and who manages the project, Conflict where it is not
    warned or the rule's hours are used up, Invalid for hours or a reason that cannot be.
    """
    now = now or timezone.now()
    if not may_keep(actor, job):
        raise Forbidden("Only its owner or a lead of its team may say that it is still needed.")
    text = written(reason)
    if not text:
        raise Invalid(
            f"Say in one line of at most {MOST_REASON} characters what it is needed for.",
            field="reason",
        )
    live = job.attempts.filter(state__in=LIVE_ATTEMPT_STATES).values_list("pk", flat=True).first()
    attempt = locked_live_attempt(live) if live else None
    warnings = list(
        IdleWarning.objects.select_for_update(of=("self",))
        .filter(attempt=attempt, outcome=IdleOutcome.OPEN)
        .select_related("rule")
        .order_by("pk")
        if attempt is not None
        else ()
    )
    if attempt is None or not warnings:
        raise Conflict("Nothing is to be kept: the job is not warned now.", code="not_warned")
    _check_hours(hours, min(hours_left(one) for one in warnings))
    until = now + timedelta(hours=hours)
    for one in warnings:
        one.outcome, one.closed_at = IdleOutcome.KEPT, now
        one.kept_by, one.kept_hours, one.kept_until, one.word = actor, hours, until, text
        one.save()
    detail = {"hours": hours, "until": stamp(until), "because": text}
    record_event(attempt.job, "idle_kept", now=now, actor=actor, attempt=attempt, detail=detail)
    if actor.pk == job.owner_id:
        record(actor, "job.idle_kept", job, after={"hours": hours}, reason=text, now=now)
    transitions.tell_of_job(attempt.job)
    return until


def _check_hours(hours: int, left: int) -> None:
    if left == 0:
        raise Conflict(
            "All the hours that the rule gives an attempt are used up. Let its GPUs work, pause it "
            "yourself, or ask who set the rule for more.",
            code="no_hours_left",
        )
    if not 1 <= hours <= left:
        raise Invalid(
            f"Write 1 to {left} whole hours: that is what the rule leaves.", field="hours"
        )
