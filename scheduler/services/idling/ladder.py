"""The ladder of a job whose GPUs do little: warned, then told only, paused or stopped.

Each rung is one row and one event, under the lock of the attempt, so that two who look at once, or
one who begins again, climb it once. A warning goes when the job works again, when its people still
need it, when it ends, and when the rule changes. What follows is proven once more right before, by
a whole window of readings; where some are missing it waits for them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q

from scheduler.models import Attempt, IdleRule, IdleWarning, Job
from scheduler.services import transitions
from scheduler.services.attempts import locked_live_attempt
from scheduler.services.history import record_event
from scheduler.services.idling.evidence import (
    Evidence,
    proven_idle,
    resting_now,
    summed_up,
    worked_since,
)
from scheduler.services.idling.telling import tell_of_pause, tell_of_warning
from scheduler.services.inbox.watching import Watchers
from scheduler.services.stopping import request_stop
from scheduler.states import AttemptState, EndReason, IdleAct, IdleOutcome, idle_evidence, stamp

# Where nobody looked for longer, the owner may not have been heard either: that time is added.
_LOOKS_EACH = timedelta(minutes=5)
# Readings that a node could not send at once come as late as this.
_LATE = timedelta(minutes=10)
# Of who asks for a stop.
_LONGEST_NAME = 150
_REASONS = {
    IdleAct.PAUSE: (EndReason.IDLE_PAUSED, IdleOutcome.PAUSED),
    IdleAct.STOP: (EndReason.IDLE_STOPPED, IdleOutcome.STOPPED),
}


def tend_idle_jobs(*, now: datetime) -> int:
    """Look at all jobs under a rule; returns how many were paused or stopped. Two statements where
    no rule is on and nobody is warned; otherwise a few for each rule, however many jobs it has.

    1. Warnings whose attempt has ended or whose rule has changed are closed.
    2. Warnings of jobs that work again are closed.
    3. What is due is paused or stopped, if it is proven still.
    4. Who has rested for a rule's window is warned.
    """
    rules = IdleRule.objects.filter(is_on=True).select_related("project__team", "pool")
    by_id = {rule.pk: rule for rule in rules.order_by("pk")}
    warnings = list(
        IdleWarning.objects.filter(outcome=IdleOutcome.OPEN).select_related("attempt__job")
    )
    if not by_id and not warnings:
        return 0
    still = _close_over(warnings, by_id, now)
    still = _close_working(still, by_id, now)
    acted = 0
    looked_at = _looked_at(still, now)
    due = [one for one in looked_at if one.act_at is not None and one.act_at <= now]
    watchers = Watchers([one.attempt.job for one in due])
    for warning in due:
        acted += _act(warning.pk, by_id[warning.rule_id], watchers, now)
    warned = {(one.attempt_id, one.rule_id) for one in still}
    # What something follows is told last, and stands above what is only told.
    for rule in sorted(by_id.values(), key=lambda rule: rule.act != IdleAct.TELL):
        _warn_all(rule, warned, now)
    return acted


def _close_over(
    warnings: Iterable[IdleWarning], rules: dict[int, IdleRule], now: datetime
) -> list[IdleWarning]:
    """Those that are left."""
    left = []
    for one in warnings:
        rule = rules.get(one.rule_id)
        if one.attempt.state != AttemptState.RUNNING:
            _close(one, IdleOutcome.ENDED, now)
        elif rule is None or rule.version != one.rule_version:
            _close(one, IdleOutcome.LIFTED, now)
        else:
            left.append(one)
    return left


def _close_working(
    warnings: Sequence[IdleWarning], rules: dict[int, IdleRule], now: datetime
) -> list[IdleWarning]:
    by_rule: dict[int, list[IdleWarning]] = defaultdict(list)
    for one in warnings:
        by_rule[one.rule_id].append(one)
    left = []
    for rule_id, some in by_rule.items():
        since = min(max(one.warned_at, one.looked_at - _LATE) for one in some)
        attempts = [one.attempt_id for one in some]
        below = rules[rule_id].below_percent
        working = worked_since(attempts, below, since=since, now=now)
        # Of who was warned later, what came before the warning is no news.
        for one in some:
            is_new = one.attempt_id in working and (
                one.warned_at <= since
                or worked_since([one.attempt_id], below, since=one.warned_at, now=now)
            )
            if is_new:
                _close(one, IdleOutcome.WORKED, now)
            else:
                left.append(one)
    return left


def _close(warning: IdleWarning, outcome: IdleOutcome, now: datetime) -> None:
    with transaction.atomic():
        row = IdleWarning.objects.filter(pk=warning.pk, outcome=IdleOutcome.OPEN)
        if not row.update(outcome=outcome, closed_at=now) or outcome == IdleOutcome.ENDED:
            return
        job = warning.attempt.job
        kind = "idle_worked" if outcome == IdleOutcome.WORKED else "idle_lifted"
        record_event(job, kind, now=now, attempt=warning.attempt)
        transitions.tell_of_job(job)


def _looked_at(warnings: Sequence[IdleWarning], now: datetime) -> Sequence[IdleWarning]:
    """Note that they were; what nobody looked at for long ends later by as much."""
    for one in warnings:
        gap = now - one.looked_at
        if gap > _LOOKS_EACH and one.act_at is not None:
            row = IdleWarning.objects.filter(pk=one.pk, looked_at=one.looked_at)
            row.update(act_at=one.act_at + gap, looked_at=now)
            one.act_at += gap
    ids = [one.pk for one in warnings]
    if ids:
        IdleWarning.objects.filter(pk__in=ids, looked_at__lt=now).update(looked_at=now)
    return warnings


def _warn_all(rule: IdleRule, warned: set[tuple[int, int]], now: datetime) -> None:
    window = timedelta(minutes=rule.warn_minutes)
    first = timedelta(minutes=rule.first_minutes)
    running = Attempt.objects.filter(
        state=AttemptState.RUNNING,
        started_at__lte=now - window - first,
        job__session__isnull=True,
        job__gpus_per_node__gt=0,
    )
    whose = Q(job__project=rule.project_id) if rule.project_id else Q(job__pool=rule.pool_id)
    kept = IdleWarning.objects.filter(kept_until__gt=now).values("attempt_id")
    ids = running.filter(whose).exclude(pk__in=kept).order_by("pk").values_list("pk", flat=True)
    candidates = [pk for pk in ids if (pk, rule.pk) not in warned]
    if not candidates:
        return
    resting = resting_now(candidates, rule.below_percent, now=now)
    idle = proven_idle(sorted(resting), rule.below_percent, since=now - window, now=now)
    jobs = list(Job.objects.filter(attempts__in=list(idle)).order_by()) if idle else []
    watchers = Watchers(jobs)
    for pk, evidence in idle.items():
        _warn(pk, rule, evidence, watchers, now)


@transaction.atomic
def _warn(
    attempt_id: int, rule: IdleRule, evidence: Evidence, watchers: Watchers, now: datetime
) -> None:
    attempt = locked_live_attempt(attempt_id)
    if attempt is None or attempt.state != AttemptState.RUNNING:
        return
    known = IdleWarning.objects.filter(attempt=attempt)
    if known.filter(Q(rule=rule, outcome=IdleOutcome.OPEN) | Q(kept_until__gt=now)).exists():
        return
    notice = None if rule.act_minutes is None else timedelta(minutes=rule.act_minutes)
    warning = IdleWarning.objects.create(
        attempt=attempt,
        rule=rule,
        rule_version=rule.version,
        warned_at=now,
        idle_since=now - timedelta(minutes=rule.warn_minutes),
        below_percent=rule.below_percent,
        gpus=evidence.gpus,
        readings=evidence.readings,
        highest_percent=evidence.highest,
        act=rule.act,
        act_at=None if notice is None else now + notice,
        looked_at=now,
    )
    job = attempt.job
    detail = {"by": rule.name, "evidence": warning.evidence, "then": rule.act}
    if warning.act_at is not None:
        detail["at"] = stamp(warning.act_at)
    record_event(job, "idle_warned", now=now, attempt=attempt, detail=detail)
    tell_of_warning(job, rule, warning, watchers, now=now)
    transitions.tell_of_job(job)


@transaction.atomic
def _act(warning_id: int, rule: IdleRule, watchers: Watchers, now: datetime) -> bool:
    """Pause or stop it, by the one path of all stops. False: it is not to be any more, or what
    speaks for it is not whole."""
    found = IdleWarning.objects.filter(pk=warning_id).values_list("attempt_id", flat=True)
    attempt = locked_live_attempt(found.get())
    warning = IdleWarning.objects.select_for_update().get(pk=warning_id)
    is_due = warning.act_at is not None and warning.act_at <= now
    if attempt is None or attempt.state != AttemptState.RUNNING or not is_due:
        return False
    same = IdleRule.objects.filter(pk=rule.pk, version=warning.rule_version, is_on=True)
    if warning.outcome != IdleOutcome.OPEN or not same.exists():
        return False
    window = timedelta(minutes=rule.warn_minutes)
    below = warning.below_percent
    if worked_since([attempt.pk], below, since=warning.idle_since, now=now):
        return False
    if attempt.pk not in proven_idle([attempt.pk], below, since=now - window, now=now):
        return False
    reason, outcome = _REASONS[IdleAct(warning.act)]
    said = {"evidence": _evidence_until(warning, attempt, now), "who": rule.name}
    who = rule.name[:_LONGEST_NAME]
    stopped = request_stop(attempt=attempt, reason=reason, now=now, who=who, said=said)
    if not stopped:
        return False
    warning.outcome, warning.closed_at = outcome, now
    warning.freed_gpu_s = warning.gpus * _left_s(attempt, now)
    warning.save(update_fields=["outcome", "closed_at", "freed_gpu_s"])
    if outcome == IdleOutcome.PAUSED:
        tell_of_pause(attempt.job, rule, warning, watchers, now=now)
    transitions.tell_of_job(attempt.job)
    return True


def _evidence_until(warning: IdleWarning, attempt: Attempt, now: datetime) -> str:
    """What is said of the whole time, from what the warning saw until now."""
    readings, highest = summed_up(attempt.pk, since=warning.idle_since, now=now)
    return idle_evidence(
        gpus=warning.gpus,
        below=warning.below_percent,
        idle_s=int((now - warning.idle_since).total_seconds()),
        highest=highest,
        readings=readings,
    )


def _left_s(attempt: Attempt, now: datetime) -> int:
    """Seconds until its time limit."""
    limit_s = attempt.extended_to_s or attempt.job.time_limit_s
    if attempt.started_at is None:
        return 0
    return max(0, int((attempt.started_at - now).total_seconds()) + limit_s)
