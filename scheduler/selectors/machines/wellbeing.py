"""What an operator asks first: is the whole of it alive, and if not, what is late."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, Min, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce

from accounts.errors import Forbidden
from accounts.models import AuditEvent, AuditHead, User
from accounts.permissions import is_operator
from scheduler.models import (
    CycleRecord,
    DeviceSample,
    InvariantCheck,
    Job,
    JobEvent,
    Node,
    OutboundMail,
    Reconciliation,
    SchedulerLease,
)
from scheduler.states import BY_SCHEDULER, JobState, NodeState

_OF_NODES = (Count("pk"), Min("last_seen_at"), Count("counts_from"))
# A list of waiting jobs may be thousands long; if the oldest are well, so are the others soon.
_MOST_UNSEEN = 100
GIVEN_UP_WITHIN = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Machines:
    """How many nodes are in a state, the one of them that was heard longest ago, and how many
    have to say first, after a restore, what runs there."""

    state: str
    count: int
    oldest: datetime | None
    uncounted: int


@dataclass(frozen=True, slots=True)
class Wellbeing:
    """Moments are None where there is none; `unseen_since` is of the waiting job that waits longest
    for nothing but the scheduler, `unsealed_since` of the oldest event outside the audit's chain.
    `promises_at` and what follows are of the last look at the invariants; `first_break` in words.
    """

    answered_ms: float
    lease_until: datetime | None
    lease_holder: str
    cycle_at: datetime | None
    cycle_ms: float | None
    unseen_since: datetime | None
    unsealed_since: datetime | None
    reconciled_at: datetime | None
    reconciled: bool | None
    promises_at: datetime | None
    promises_broken: int | None
    promises_whole: bool | None
    first_break: str | None
    oldest_sample: datetime | None
    mails_waiting: int
    mail_due_since: datetime | None
    mails_given_up: int
    nodes: tuple[Machines, ...]


def wellbeing(viewer: User, *, now: datetime) -> Wellbeing:
    """Three statements, however much there is. Raises Forbidden, and what the database raises."""
    if not is_operator(viewer):
        raise Forbidden("Only operators see how the server itself is. Ask one of them.")
    began = time.perf_counter()
    moments = _moments()
    answered_ms = (time.perf_counter() - began) * 1000
    waiting = Q(sent_at__isnull=True, given_up_at__isnull=True)
    mails = OutboundMail.objects.order_by().aggregate(
        mails_waiting=Count("pk", filter=waiting),
        # Each try that fails puts off the next one: what is due is told by the mail's own age.
        mail_due_since=Min("created_at", filter=waiting),
        mails_given_up=Count("pk", filter=Q(given_up_at__gt=now - GIVEN_UP_WITHIN)),
    )
    nodes = Node.objects.exclude(state=NodeState.RETIRED).order_by("state").values_list("state")
    return Wellbeing(
        answered_ms=answered_ms,
        nodes=tuple(Machines(*row) for row in nodes.annotate(*_OF_NODES)),
        **moments,
        **mails,
    )


def _moments() -> dict[str, Any]:
    """Each the first row of a list, all of them as one statement around a row that is there."""
    lease = SchedulerLease.objects.order_by("-expires_at")
    cycle = CycleRecord.objects.order_by("-id")
    checked = Reconciliation.objects.order_by("-pk")
    promises = InvariantCheck.objects.order_by("-pk")
    unseen = _unseen()
    sealed = AuditHead.objects.filter(pk=1).values("until_id")
    unsealed = AuditEvent.objects.filter(pk__gt=Coalesce(Subquery(sealed), 0)).order_by("pk")
    wanted = {
        "lease_until": _first(lease, "expires_at"),
        "lease_holder": _first(lease, "holder"),
        "cycle_at": _first(cycle, "at"),
        "cycle_ms": _first(cycle, "duration_ms"),
        "unseen_since": _first(unseen, "since_"),
        "unsealed_since": _first(unsealed, "at"),
        "reconciled_at": _first(checked, "at"),
        "reconciled": _first(checked, "holds"),
        "promises_at": _first(promises, "at"),
        "promises_broken": _first(promises, "broken"),
        "promises_whole": _first(promises, "is_whole"),
        "first_break": _first(promises, "breaks__0"),
        "oldest_sample": _first(DeviceSample.objects.order_by("at"), "at"),
    }
    # Anybody's row: a preview of a role, which looks here too, has none.
    found = User.objects.order_by("pk").annotate(**wanted).values(*wanted)[0]
    return {**found, "lease_holder": _spoken(found["lease_holder"] or "")}


def _unseen() -> QuerySet[Job]:
    """Who waits for the scheduler alone, from `since_` on, the longest first: one that waits again
    keeps the time of its submit, so it is told by the last event. Of the oldest only."""
    unseen = Job.objects.filter(state=JobState.QUEUED, wait_reason__in=sorted(BY_SCHEDULER))
    oldest = unseen.order_by("queued_at").values("pk")[:_MOST_UNSEEN]
    last = JobEvent.objects.filter(job=OuterRef("pk")).order_by("-at").values("at")[:1]
    since = Coalesce(Subquery(last), "queued_at")
    return Job.objects.filter(pk__in=oldest).annotate(since_=since).order_by("since_")


def _spoken(holder: str) -> str:
    """What `loop.lease.own_name` says, for people: `process 12 on HOST`."""
    host, _, rest = holder.rpartition(" ")
    return f"process {rest.rpartition(':')[2]} on {host}" if host else holder


def _first(rows: QuerySet[Any], field: str) -> Subquery:
    return Subquery(rows.values(field)[:1])
