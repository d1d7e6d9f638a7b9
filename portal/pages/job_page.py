"""What the overview of a job shows, gathered in a constant number of queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from accounts.models import User
from portal.pages.event_lines import event_line
from portal.pages.job_rows import elapsed_of, ends_by
from portal.pages.queue.why import why
from portal.pages.samples import SAMPLE
from portal.reports.charts import device_charts, latest, mean_use, slowed_of
from portal.reports.gpus.ranks import ranks_of
from portal.reports.placements import placement_rows
from portal.templatetags.states import SIGNS
from portal.templatetags.wording import end_word
from scheduler.models import Attempt, Job
from scheduler.selectors.checkpoints import Saved
from scheduler.selectors.jobs import (
    end_sentence_of,
    job_actions,
    may_read_inside,
    shown_state_of,
)
from scheduler.selectors.one_job.happened import shown_facts
from scheduler.selectors.one_job.header import Header
from scheduler.selectors.one_job.ruling import rules_in_words
from scheduler.selectors.one_job.tries import read_devices
from scheduler.selectors.people.watchers import own_watch
from scheduler.selectors.prices.seen import may_see_cost
from scheduler.selectors.tables.so_far import Span
from scheduler.selectors.telemetry import attempt_series, may_read_metrics
from scheduler.selectors.triage import Diagnosis, diagnosis_of, title_of
from scheduler.selectors.usage import JobCost, cost_of_attempts
from scheduler.selectors.waits.deciding import decided_by
from scheduler.states import (
    FINAL_JOB_STATES,
    LIVE_JOB_STATES,
    TIMES_OUT,
    WAITING_JOB_STATES,
    EndReason,
    JobState,
    Tier,
    end_sentence,
    wish_sentence,
)

EVENTS_SHOWN = 8
END_CLASSES = {"failed": "a-bad", "timed out": "a-bad", "preempted": "a-pre", "resized": "a-pre"}


@dataclass(frozen=True, slots=True)
class AttemptCard:
    """One attempt in the strip: `css` marks its end, `sentence` says it."""

    attempt: Attempt
    word: str
    end_reason: str
    css: str
    sentence: str
    label: str
    took: timedelta | None
    waited: timedelta | None


def job_frame(viewer: User, header: Header) -> dict[str, Any]:
    """What every tab of a job needs: the header, its buttons, and which tabs there are."""
    job = header.job
    return {
        "job": job,
        "actions": job_actions(viewer, job),
        "is_live": job.state in LIVE_JOB_STATES,
        "is_elastic": ".." in str(job.spec.get("nodes", "")),
        "is_waiting": job.state in WAITING_JOB_STATES,
        "is_final": job.state in FINAL_JOB_STATES,
        "is_unreachable": header.is_unreachable,
        "may_read": may_read_inside(viewer, job),
        "may_see_cost": may_see_cost(viewer, job),
        "may_measure": may_read_metrics(viewer, job),
        "stop": job.spec.get("stop", {}),
        "is_paused": shown_state_of(job) == "paused",
        "sign": _sign(job),
        "saved": header.saved,
        "idle": header.idle,
        "events_count": header.events_count,
        "attempts_known": header.attempts[-1].number if header.attempts else 0,
    }


def _sign(job: Job) -> str:
    word = "timed out" if job.end_reason in TIMES_OUT else str(shown_state_of(job))
    return SIGNS.get(word, SIGNS["held"])


def overview(viewer: User, header: Header, *, now: datetime) -> dict[str, Any]:
    """The whole overview, but for what its log says; `header` with EVENTS_SHOWN events and with
    tries."""
    job, frame, attempts = header.job, job_frame(viewer, header), header.attempts
    read_devices(attempts)
    ran = _ran(attempts)
    may_measure = bool(attempts) and frame["may_measure"]
    series = attempt_series(viewer, job, attempts[-1], now=now) if may_measure else []
    cost = cost_of_attempts(viewer, job, attempts, now=now) if frame["may_see_cost"] else None
    return frame | {
        "now": now,
        "attempts": [
            _card(one, earlier, job)
            for one, earlier in zip(attempts, [None, *attempts], strict=False)
        ],
        "latest": attempts[-1] if attempts else None,
        "elapsed": elapsed_of(job, ran, now),
        "began": ran[0] if ran else None,
        "gpu_use": mean_use(series),
        "cost": cost,
        "ends_by": ends_by(job, ran[0] if ran else None),
        "places": placement_rows(attempts[-1]) if attempts else [],
        "risk": _risk(job, frame["saved"], attempts, cost, now),
        "loss": _loss(attempts),
        "charts": device_charts(series)[:2],
        "slowed": slowed_of(series),
        "ranks": ranks_of(series),
        "since": latest(series),
        # Of one reading a chart says nothing, and its axis is of milliseconds.
        "has_curve": any(len(one.at) > 1 for one in series),
        "is_simulated": any(one.is_simulated for one in series) or _is_simulated(attempts),
        "events": [
            event_line(event, shown_facts(event, may_read=frame["may_read"]))
            for event in header.events
        ],
        "tier": Tier(job.tier).name.lower(),
        "retry_rules": rules_in_words(job),
        "told": wish_sentence(
            job.notify or (),
            has_mail=bool(viewer.email),
            is_array=job.job_set_id is not None,
        ),
        "watchers": [one.name for one in header.watchers],
        "watch": own_watch(viewer, header.watchers),
        "sentence": end_sentence_of(job),
        # Who has run it looks around for the first time.
        "is_sample": job.name == SAMPLE and job.owner_id == viewer.pk,
        "triage": _triage(viewer, job, attempts),
        **why(job, decided_by(header.lease_until, now=now), now),
    }


def _ran(attempts: Sequence[Attempt]) -> Span | None:
    """Begin and end of the last one that has begun."""
    begun = [(one.started_at, one.ended_at) for one in attempts if one.started_at is not None]
    return begun[-1] if begun else None


@dataclass(frozen=True, slots=True)
class Risk:
    """Work that would be lost if it stopped now: since when, and its cost (None: not shown)."""

    since: datetime
    cost: Decimal | None


def _risk(
    job: Job, saved: Saved | None, attempts: list[Attempt], cost: JobCost | None, now: datetime
) -> Risk | None:
    if job.state != JobState.RUNNING or not attempts or attempts[-1].started_at is None:
        return None
    since = attempts[-1].started_at
    if saved is not None and saved.taken_at > since:
        since = saved.taken_at
    hours = Decimal(max(0, int((now - since).total_seconds()))) / 3600
    return Risk(since, cost.hourly * hours if cost else None)


@dataclass(frozen=True, slots=True)
class Loss:
    """Work that is done again: of so many attempts, how long it took, and on all their GPUs."""

    attempts: int
    took: timedelta
    gpu_time: timedelta


def _loss(attempts: list[Attempt]) -> Loss | None:
    """What was lost at ends after which the job went on; None where nothing was."""
    ends = [attempt.end_facts for attempt in attempts if attempt.end_facts.get("goes_on")]
    lost = [facts for facts in ends if facts.get("lost_s")]
    if not lost:
        return None
    took, gpu_time = (
        timedelta(seconds=sum(facts.get(name, 0) for facts in lost))
        for name in ("lost_s", "lost_gpu_s")
    )
    return Loss(len(lost), took, gpu_time)


def _triage(viewer: User, job: Job, attempts: list[Attempt]) -> Diagnosis | None:
    """The triage of the last ended attempt, while the job is failed or waits to be tried again."""
    ended = [attempt for attempt in attempts if attempt.end_reason]
    if job.state not in (JobState.FAILED, *WAITING_JOB_STATES) or not ended:
        return None
    return diagnosis_of(viewer, job, ended[-1])


def _card(attempt: Attempt, earlier: Attempt | None, job: Job) -> AttemptCard:
    reason = attempt.end_reason
    word = attempt.state
    if reason:
        word = end_word(EndReason(reason))
    css = END_CLASSES.get(word, "" if reason else "a-run")
    began = attempt.started_at or attempt.assigned_at
    waited_from = earlier.ended_at if earlier else job.waits_since
    return AttemptCard(
        attempt,
        word,
        reason,
        css,
        end_sentence(reason, attempt.end_facts) if reason else "",
        title_of(attempt),
        attempt.ended_at - began if attempt.ended_at else None,
        attempt.assigned_at - waited_from if waited_from else None,
    )


def _is_simulated(attempts: list[Attempt]) -> bool:
    return any(
        allocation.device.is_simulated
        for attempt in attempts
        for placement in attempt.placements.all()
        for allocation in placement.allocations.all()
    )
