"""Rows of live data for invariants, so many at a time that memory does not grow with the past.

Only the columns that a check looks at. What is compared in pairs is read in order, and each part
begins with the last row of the one before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from django.db.models import F, Max, Q, QuerySet

from accounts.models import ApiToken, Project, Team
from scheduler.conf import load_conf
from scheduler.invariants.rows import Row, Rows, plain
from scheduler.models import (
    Account,
    Allocation,
    Attempt,
    Booking,
    BudgetHold,
    Delivery,
    Dependency,
    Device,
    DeviceSegment,
    IdleWarning,
    Job,
    JobEvent,
    LogChunk,
    Node,
    NodeEvent,
    OutboundMail,
    Placement,
    Quota,
    SubmitKey,
    UsageEntry,
)
from scheduler.services.inbox.delivering import DUE_FOR
from scheduler.services.timeline.patience import patience_with
from scheduler.states import FINAL_JOB_STATES, AttemptState, JobState, NodeState

JOBS, ROWS, NODES = 500, 5_000, 50
# How far back a quarantine may have begun that is over within the time looked at.
_QUARANTINED_FOR = timedelta(days=30)
_AWAY = (NodeState.SILENT, NodeState.LOST)
_ATTEMPT = ("id", "job_id", "number", "state", "assigned_at", "ended_at", "end_reason")
_HELD = ("id", "placement_id", "device_id", "acquired_at", "released_at")
_RANK = ("id", "attempt_id", "node_id", "rank")
_END = ("exit_code", "end_reason", "log_size", "log_pruned_at", "ran_until")
_JOB = ("id", "state", "version", "booked_in_id", "owner_id", "max_cost_steps")
# What was asked for beforehand, and what an end says of the next try.
_ASKED = ("retries", "user_retries_used", "free_retries_used", "retry_rules")
_MOMENTS = ("finish_by", "start_by", "started_at", "ended_at")
_NEXT = ("end_facts", "triage", "stop_grace_s")
_WARNED = ("id", "attempt_id", "outcome", "act_at", "closed_at", "kept_until")


def jobs_of(since: datetime | None) -> Iterator[tuple[int, ...]]:
    """Numbers of the jobs that are not over, or have ended since, or should hold nothing and do."""
    jobs = Job.objects.order_by("pk")
    if since is not None:
        open_states = [state for state in JobState if state not in FINAL_JOB_STATES]
        live = Attempt.objects.exclude(state=AttemptState.ENDED)
        holding = Allocation.objects.filter(released_at__isnull=True)
        jobs = jobs.filter(
            Q(state__in=open_states)
            | Q(ended_at__gte=since)
            | Q(pk__in=live.values("job"))
            | Q(pk__in=holding.values("placement__attempt__job"))
        )
    last = 0
    while part := tuple(jobs.filter(pk__gt=last).values_list("pk", flat=True)[:JOBS]):
        yield part
        last = part[-1]


def rows_of_jobs(jobs: Sequence[int]) -> Rows:
    """These jobs with all that was written of them; what belongs to something before that."""
    attempts = Attempt.objects.filter(job__in=jobs)
    ranks = Placement.objects.filter(attempt__job__in=jobs)
    held = Allocation.objects.filter(placement__attempt__job__in=jobs)
    holds = BudgetHold.objects.filter(attempt__job__in=jobs)
    pieces = LogChunk.objects.filter(placement__attempt__job__in=jobs)
    events = ("id", "job_id", "attempt_id", "actor_id", "kind", "from_state", "to_state")
    waits = Dependency.objects.filter(job__in=jobs)
    awaited = Job.objects.filter(pk__in=waits.order_by().values("on"))
    warnings = IdleWarning.objects.filter(attempt__job__in=jobs)
    charged = UsageEntry.objects.filter(allocation__in=held.order_by().values("pk"))
    booked = Booking.objects.filter(jobs__in=jobs).distinct()
    keys = SubmitKey.objects.filter(job__in=jobs)
    return Rows(
        {
            "budgethold": _read(holds, "id", "attempt_id", "settled_at", "money"),
            "usageentry": _read(charged, "id", "allocation_id", "kind", "gpu_seconds"),
            "logchunk": _read(pieces, "id", "placement_id", "offset", "size", "path"),
            "submitkey": _read(keys, "id", "user_id", "job_id"),
            "jobevent": _read(JobEvent.objects.filter(job__in=jobs), *events),
            "allocation": _read(held, *_HELD),
            "placement": _read(ranks, *_RANK, *_END),
            "attempt": _read(attempts, *_ATTEMPT, *_NEXT),
            "job": _read(Job.objects.filter(pk__in=jobs), *_JOB, *_ASKED, *_MOMENTS),
            "dependency": _read(waits, "id", "job_id", "on_id", "kind"),
            "awaited": _read(awaited, "id", "state", "started_at", "ended_at"),
            "idlewarning": _read(warnings, *_WARNED),
            "booking": _read(booked, "id", "from_at", "until_at"),
        }
    )


def held_devices(since: datetime | None) -> Iterator[Rows]:
    """What is held, and was until then, device by device."""
    held = _held_since(since).order_by("device_id", "acquired_at", "id")
    return _parts("allocation", held, *_HELD)


def cards_in_parts(since: datetime | None) -> Iterator[Rows]:
    """Parts of each card that has some, or had; what is held of them and of it, and was until then.

    Card by card: what one was held for is little beside what all were.
    """
    parts = Device.objects.filter(parent__isnull=False)
    for card in parts.order_by("parent_id").values_list("parent_id", flat=True).distinct():
        mine = _read(parts.filter(parent=card), "id", "parent_id")
        held = _held_since(since).filter(Q(device=card) | Q(device__parent=card))
        yield Rows({"device": mine, "allocation": _read(held, *_HELD)})


def _held_since(since: datetime | None) -> QuerySet[Allocation]:
    held = Allocation.objects.all()
    if since is None:
        return held
    return held.filter(Q(released_at__isnull=True) | Q(released_at__gte=since))


def device_time(since: datetime | None) -> Iterator[Rows]:
    """Segments of devices that are open, or ended since then."""
    segments = DeviceSegment.objects.order_by("device_id", "start_s", "id")
    if since is not None:
        second = int(since.timestamp())
        segments = segments.filter(Q(end_s__isnull=True) | Q(end_s__gte=second))
    return _parts("devicesegment", segments, "id", "device_id", "start_s", "end_s")


def nodes_and_cards(since: datetime | None) -> Iterator[Rows]:
    """All cards; what happened to their nodes; and of those that were in quarantine, what held."""
    fields = ("id", "node_id", "at", "kind", "from_state", "to_state", "detail")
    every = list(Node.objects.order_by("pk").values_list("pk", flat=True))
    for nodes in (every[at : at + NODES] for at in range(0, len(every), NODES)):
        told = NodeEvent.objects.filter(node__in=nodes)
        held = Allocation.objects.filter(device__node__in=_were_out(told, since))
        if since is not None:
            told = told.filter(at__gte=since - _QUARANTINED_FOR)
            held = held.filter(acquired_at__gte=since)
        cards = _read(
            Device.objects.filter(node__in=nodes),
            *("id", "uuid", "node_id", "index", "parent_id", "health", "trouble", "check_at"),
        )
        events = _read(told, *fields)
        yield Rows({"device": cards, "nodeevent": events})
        for part in _batches(held.order_by("pk"), _HELD):
            yield Rows({"device": cards, "nodeevent": events, "allocation": part})


def _were_out(told: QuerySet[NodeEvent], since: datetime | None) -> list[int]:
    out = told.filter(to_state="quarantined")
    if since is not None:
        out = out.filter(at__gte=since - _QUARANTINED_FOR)
    return list(out.order_by().values_list("node", flat=True).distinct())


def live_attempts() -> Rows:
    """Attempts that have not ended, with jobs and nodes, and after how long each node is lost.

    A node is lost after the longest that any of them can live there without the server.
    """
    live = Attempt.objects.exclude(state=AttemptState.ENDED)
    ranks = Placement.objects.filter(attempt__in=live.order_by().values("pk"))
    ranks = ranks.filter(ended_at__isnull=True)
    patience, least = patience_with(ranks), load_conf().lost_after
    told = NodeEvent.objects.filter(node__in=patience).order_by()
    gone = dict(told.filter(to_state=NodeState.SILENT).values_list("node").annotate(Max("at")))
    back = told.filter(from_state__in=_AWAY).exclude(to_state__in=_AWAY)
    came = dict(back.values_list("node").annotate(Max("at")))
    nodes = []
    for row in Node.objects.order_by().values("id", "state", "pool_id", "last_seen_at"):
        pk, is_away = row["id"], row["state"] in _AWAY
        lost_s = patience.get(pk, least).total_seconds()
        since = {"away_since": gone.get(pk) if is_away else None, "here_since": came.get(pk)}
        nodes.append(plain({**row, **since, "lost_after_s": lost_s}))
    attempts = _read(live, "id", "job_id", "state", "stopping_at", "stop_grace_s")
    jobs = _read(Job.objects.filter(attempts__in=live.order_by().values("pk")), "id", "pool_id")
    ranked = _read(ranks, *_RANK)
    return Rows({"attempt": attempts, "placement": ranked, "node": nodes, "job": jobs})


def held_now() -> Rows:
    """Quotas, and what is held of devices at this moment."""
    held = Allocation.objects.filter(released_at__isnull=True)
    ranks = Placement.objects.filter(pk__in=held.order_by().values("placement"))
    attempts = Attempt.objects.filter(pk__in=ranks.order_by().values("attempt"))
    jobs = Job.objects.filter(pk__in=attempts.order_by().values("job"))
    devices = Device.objects.filter(pk__in=held.order_by().values("device"))
    quota = ("id", "account_id", "pool_id", "gpu_model", "held", "held_milli")
    return Rows(
        {
            "quota": _read(Quota.objects.order_by(), *quota),
            "account": _read(Account.objects.order_by(), "id", "key"),
            "team": _read(Team.objects.order_by(), "id", "parent_id"),
            "project": _read(Project.objects.order_by(), "id", "team_id"),
            "allocation": _read(held, *_HELD),
            "placement": _read(ranks, *_RANK),
            "attempt": _read(attempts, *_ATTEMPT),
            "job": _read(jobs, "id", "project_id", "pool_id"),
            "device": _read(devices, "id", "model", "milli"),
        }
    )


def outbox(since: datetime | None) -> Iterator[Rows]:
    """Mails and calls that wait, or are from since then; those of webhooks that rest do not.

    Nor what goes to who has no address or is gone, which is given up, and rightly so; nor calls
    that were due for days while their receiver did not answer.
    """
    mails, calls = OutboundMail.objects.order_by("pk"), Delivery.objects.order_by("pk")
    nobody = Q(person__is_active=False) | Q(person__email="")
    mails = mails.exclude(nobody, given_up_at__isnull=False, tries=0)
    calls = calls.filter(Q(webhook__paused_at__isnull=True) | Q(sent_at__isnull=False))
    calls = calls.exclude(webhook__person__is_active=False)
    calls = calls.exclude(tries=0, given_up_at__gte=F("not_before") + DUE_FOR)
    if since is not None:
        waits = Q(sent_at__isnull=True, given_up_at__isnull=True)
        mails = mails.filter(waits | Q(created_at__gte=since))
        calls = calls.filter(waits | Q(created_at__gte=since))
    fields = ("id", "key", "not_before", "tries", "sent_at", "given_up_at")
    for part in _batches(mails, (*fields, "person_id")):
        yield Rows({"outboundmail": part})
    for part in _batches(calls, (*fields, "webhook_id", "status")):
        yield Rows({"delivery": part})


def revoked_tokens(since: datetime | None) -> Iterator[Rows]:
    """Tokens that were revoked and that somebody used, as far as one of the two was since then."""
    tokens = ApiToken.objects.filter(revoked_at__isnull=False, last_used_at__isnull=False)
    if since is not None:
        tokens = tokens.filter(Q(revoked_at__gte=since) | Q(last_used_at__gte=since))
    for part in _batches(tokens.order_by("pk"), ("id", "revoked_at", "last_used_at")):
        yield Rows({"apitoken": part})


def _parts(table: str, rows: QuerySet[Any], *fields: str) -> Iterator[Rows]:
    last: list[Row] = []
    for part in _batches(rows, fields):
        yield Rows({table: [*last, *part]})
        last = part[-1:]


def _batches(rows: QuerySet[Any], fields: Sequence[str]) -> Iterator[list[Row]]:
    found = rows.values(*fields).iterator(ROWS)
    while part := [plain(row) for row in islice(found, ROWS)]:
        yield part


def _read(rows: QuerySet[Any], *fields: str) -> list[Row]:
    return [plain(row) for row in rows.order_by().values(*fields)]
