"""How the whole is doing, in a few cheap queries; names nobody."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Avg, Count, F, FloatField, Max, Min, QuerySet, Subquery, Sum, Value
from django.db.models.functions import Abs

from accounts.models import User
from scheduler.models import (
    Attempt,
    CycleRecord,
    Delivery,
    Device,
    Dialect,
    InvariantCheck,
    Job,
    Node,
    OutboundMail,
    Placement,
    SchedulerLease,
)
from scheduler.states import (
    LIVE_ATTEMPT_STATES,
    UNHEARD_NODES,
    AttemptState,
    DeviceHealth,
    JobState,
    NodeState,
)

# Of so many attempts, the newest, it is told how long their programs took to begin.
_NEWEST = 200


@dataclass(frozen=True, slots=True)
class Pulse:
    """Counts by state, every state present; `last_cycle_ms` is 0 before the first cycle."""

    jobs: dict[str, int]
    nodes: dict[str, int]
    has_scheduler: bool
    last_cycle_ms: float


def has_scheduler(*, now: datetime) -> bool:
    """Whether one holds the lease; one look at one row, for anybody may ask as often as they like.

    Raises the database's own error when it does not answer.
    """
    return SchedulerLease.objects.filter(expires_at__gt=now).exists()


def read_pulse(*, now: datetime) -> Pulse:
    """Raises the database's own error when it does not answer."""
    last = CycleRecord.objects.order_by("-id").values_list("duration_ms", flat=True).first()
    jobs = dict(Job.objects.order_by().values_list("state").annotate(Count("pk")))
    nodes = dict(Node.objects.order_by().values_list("state").annotate(Count("pk")))
    return Pulse(
        jobs={str(state): jobs.get(str(state), 0) for state in JobState},
        nodes={str(state): nodes.get(str(state), 0) for state in NodeState},
        has_scheduler=has_scheduler(now=now),
        last_cycle_ms=last or 0.0,
    )


@dataclass(frozen=True, slots=True)
class Lags:
    """What is behind, in seconds, bytes and numbers; 0 where nothing is.

    `log_bytes`: of ranks that have ended and whose log is not all here. `checked_at`: the last look
    at the invariants, in seconds since 1970; 0 before the first. `broken`: what it found.
    `silence_s`: of the node, neither lost nor retired, that was not heard for longest.
    `unreachable`: attempts with a rank on a node that is not heard. `untaken_s`: age of the oldest
    assignment that its nodes have not taken up. `start_s`: from assignment to the program's start,
    on average over the newest attempts.
    """

    oldest_job_s: float
    mail_s: float
    webhook_s: float
    log_bytes: int
    quarantined_gpus: int
    clock_off_s: float
    checked_at: float
    broken: int
    silence_s: float
    unreachable: int
    untaken_s: float
    start_s: float


def read_lags(*, now: datetime) -> Lags:
    """One statement, however much there is. Raises the database's own error."""
    wanted = _figures()
    # Anybody's row: there is one wherever somebody may ask.
    read = User.objects.order_by("pk").annotate(**wanted).values(*wanted)[0]

    def age_s(name: str) -> float:
        since = read[name]
        return max(0.0, (now - since).total_seconds()) if since else 0.0

    return Lags(
        oldest_job_s=age_s("job_"),
        mail_s=age_s("mail_"),
        webhook_s=age_s("webhook_"),
        log_bytes=int(read["logs_"] or 0),
        quarantined_gpus=int(read["gpus_"] or 0),
        clock_off_s=float(read["clock_"] or 0.0),
        checked_at=read["at_"].timestamp() if read["at_"] else 0.0,
        broken=int(read["broken_"] or 0),
        silence_s=age_s("heard_"),
        unreachable=int(read["away_"] or 0),
        untaken_s=age_s("untaken_"),
        start_s=read["start_"].total_seconds() if read["start_"] else 0.0,
    )


def _figures() -> dict[str, Subquery]:
    unsent: dict[str, Any] = {"sent_at__isnull": True, "given_up_at__isnull": True}
    # Not people's own chats: one that is wrong is its owner's affair and no alarm.
    going = Delivery.objects.filter(
        **unsent, webhook__paused_at__isnull=True, webhook__dialect=Dialect.SIGNED
    )
    logs = Placement.objects.filter(
        attempt__state__in=LIVE_ATTEMPT_STATES, log_expected__gt=F("log_size")
    )
    nodes = Node.objects.exclude(state=NodeState.RETIRED)
    gpus = Device.objects.filter(is_present=True, in_service=True, node__in=nodes)
    checks = InvariantCheck.objects.order_by("-pk")
    expected = nodes.exclude(state=NodeState.LOST)
    away = Placement.objects.filter(
        attempt__state__in=LIVE_ATTEMPT_STATES, ended_at=None, node__state__in=UNHEARD_NODES
    )
    newest = Attempt.objects.order_by("-pk").values("pk")[:_NEWEST]
    begun = Attempt.objects.filter(pk__in=newest, started_at__isnull=False)
    return {
        "job_": _one(Job.objects.filter(state=JobState.QUEUED), Min("queued_at")),
        "mail_": _one(OutboundMail.objects.filter(**unsent), Min("created_at")),
        "webhook_": _one(going, Min("created_at")),
        "logs_": _one(logs, Sum(F("log_expected") - F("log_size"))),
        "gpus_": _one(gpus.filter(health=DeviceHealth.QUARANTINED), Count("pk")),
        "clock_": _one(nodes, Max(Abs("clock_skew_s"), output_field=FloatField())),
        "heard_": _one(expected, Min("last_seen_at")),
        "away_": _one(away, Count("attempt", distinct=True)),
        "untaken_": _one(Attempt.objects.filter(state=AttemptState.ASSIGNED), Min("assigned_at")),
        "start_": _one(begun, Avg(F("started_at") - F("assigned_at"))),
        "at_": Subquery(checks.values("at")[:1]),
        "broken_": Subquery(checks.values("broken")[:1]),
    }


def _one(rows: QuerySet[Any], figure: Any) -> Subquery:
    """A figure of all these rows, as a part of another statement."""
    grouped = rows.order_by().annotate(all_=Value(1)).values("all_")
    return Subquery(grouped.annotate(figure_=figure).values("figure_"))
