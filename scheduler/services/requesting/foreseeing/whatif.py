"""What a decision would do to everyone: asked for, worked out by a task, kept as evidence."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from accounts.models import User
from accounts.services.audit import record
from scheduler import events
from scheduler.models import Job, QuotaRequest, WhatIf
from scheduler.services.requesting.deciding import offer_of
from scheduler.services.requesting.foreseeing.replaying import (
    MOST_JOBS,
    MOST_JOBS_AT_ONCE,
    USUAL_DAYS,
    Past,
    Question,
    replay_past,
)
from scheduler.services.requesting.foreseeing.standing import money_and_room
from scheduler.services.requesting.rights import owner_of, require_part
from scheduler.services.rows import claims
from scheduler.states import REPLAYED_KINDS, RequestKind

logger = logging.getLogger(__name__)

TASK = "scheduler.tasks.simulate_requests"
# The version of what the answer means; it goes up when the same past would be answered otherwise.
ENGINE = "trainyard 0.1.0, replay 2"
# Whoever asks again and again until it is done gets it within that time, and no other.
FRESH_FOR = timedelta(minutes=5)


@transaction.atomic
def ask_whatif(
    *,
    actor: User,
    request: QuotaRequest,
    fresh_for: timedelta = FRESH_FOR,
    now: datetime | None = None,
) -> WhatIf:
    """The simulation of what is on the table; a new one unless one is under way or came to its end
    less than `fresh_for` ago.

    It waits until `simulate_at_once` or the task takes it up.
    """
    now = now or timezone.now()
    giver = require_part(actor, request)
    offer = offer_of(request)
    fresh = Q(finished_at=None) | Q(finished_at__gt=now - fresh_for)
    found = offer.seen_of(request).filter(fresh).exclude(progress="failed").first()
    if found is not None:
        return found
    row = WhatIf.objects.create(
        request=request,
        revision=request.revision,
        amount=offer.amount,
        valid_until=offer.valid_until,
        all_steps=1 + len(choices(offer.amount)),
        asked_by=actor,
        created_at=now,
    )
    after = {"amount": offer.amount}
    record(actor, "request.simulate", request, after=after, on_behalf_of=giver, now=now)
    return row


def choices(amount: int) -> tuple[int, ...]:
    """What is compared with nothing: half of it, and all."""
    return (amount,) if amount < 2 else (amount // 2, amount)


def simulate_waiting(*, now: datetime | None = None, most: int = 10) -> int:
    """Work out what waits, oldest first; how many were done. Safe when two run at once."""
    now = now or timezone.now()
    done = 0
    for row in list(claims.waiting(WhatIf.objects.all())[:most]):
        if claims.claim(row):
            simulate(row, now=now)
            done += 1
    return done


def simulate_at_once(row: WhatIf, *, now: datetime) -> WhatIf:
    """Work it out while somebody waits, if the history is short enough; else leave it to a task."""
    since = now - timedelta(days=USUAL_DAYS)
    ended = Job.objects.filter(queued_at__gte=since, started_at__isnull=False)
    if row.progress != "waiting":
        return row
    if ended.count() > MOST_JOBS_AT_ONCE:
        # Only now: a worker that was told before would take a short one from under who waits.
        events.send_on_commit(TASK)
        return row
    return simulate(row, now=now) if claims.claim(row) else row


def simulate(row: WhatIf, *, now: datetime, most_jobs: int = MOST_JOBS) -> WhatIf:
    """Replay, and store the answer with its digest; what breaks is stored as failed.

    What another has taken up meanwhile, as this one was silent, stays that one's.
    """
    request = row.request
    question = Question(
        owner_of(request),
        RequestKind(request.kind),
        request.pool,
        request.gpu_model,
        choices(row.amount),
        _hours(row),
    )

    def tell(done: int) -> None:
        claims.go_on(row, done_steps=done)

    try:
        past = replay_past(question, now=now, most_jobs=most_jobs, tell=tell)
    except claims.ClaimLost:
        return row
    except Exception:
        logger.exception("the what-if %s of %s failed", row.pk, request)
        claims.tell(row, progress="failed", finished_at=now)
        return row
    answer = {
        "question": {
            "request": request.pk,
            "revision": row.revision,
            "kind": request.kind,
            "amounts": [0, *question.amounts],
        },
        **_told(past),
        **money_and_room(row, question, now=now),
    }
    is_told = past.impact is not None or _is_never_replayed(request)
    if claims.tell(
        row,
        answer=answer,
        engine=ENGINE,
        digest=digest_of(answer, ENGINE),
        progress="done" if is_told else "empty",
        done_steps=row.all_steps,
        finished_at=now,
    ):
        events.publish_on_commit(f"user:{row.asked_by_id}")
    return row


def _is_never_replayed(request: QuotaRequest) -> bool:
    return request.kind not in REPLAYED_KINDS


def _hours(row: WhatIf) -> tuple[datetime, datetime] | None:
    """Of a booking: from when until when."""
    if row.request.kind != RequestKind.RESERVATION:
        return None
    asked = row.request.versions.get(number=row.revision)
    return asked.valid_from, row.valid_until


def digest_of(answer: Mapping[str, Any], engine: str) -> str:
    """SHA-256 over the canonical JSON of the answer and what gave it."""
    text = json.dumps([engine, answer], sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def estimate(question: Question, *, now: datetime) -> tuple[float, float] | None:
    """The asker's own p90 wait in seconds, without and with all of it; None without a history.

    Of few enough jobs to be answered while somebody waits.
    """
    past = replay_past(question, now=now, most_jobs=MOST_JOBS_AT_ONCE)
    if past.impact is None:
        return None
    for team in past.impact.teams:
        if team.name == question.name:
            return team.p90_s[0], team.p90_s[-1]
    return None


def _told(past: Past) -> dict[str, Any]:
    """The part of an answer that comes from the replay."""
    window = past.window
    told: dict[str, Any] = {
        "since": past.since.isoformat(),
        "until": past.until.isoformat(),
        "pool": past.pool.name if past.pool else "",
        "nodes": window.nodes if window else 0,
        "gpus_per_node": window.workload.gpus_per_node if window else 0,
        "jobs": past.impact.jobs if past.impact else 0,
        "left_out": past.impact.left_out if past.impact else 0,
        "notes": list(past.notes),
        "teams": [],
    }
    if past.impact is not None:
        told |= {
            "teams": [asdict(team) for team in past.impact.teams],
            "preemptions": list(past.impact.preemptions),
            "utilisation": list(past.impact.utilisation),
        }
    canonical: dict[str, Any] = json.loads(json.dumps(told))
    return canonical
