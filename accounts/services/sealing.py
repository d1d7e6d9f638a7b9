"""The one sealer: chains the events that are settled, in batches, and checks them.

Ids are drawn before transactions end, so an event may appear behind one with a higher id. Therefore
a seal reaches only up to a mark: the highest id seen, with a transaction number drawn after it.
Whoever drew a lower id has a lower transaction number, and once none of those is under way any
more, nothing can appear below the mark. Writers take no lock and never wait. SQLite has one writer
at a time, so there everything that is seen is settled.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db import connection, transaction
from django.db.models import Max, QuerySet
from django.utils import timezone

from accounts.chain import (
    GENESIS,
    Digest,
    Sealing,
    break_in_chain,
    break_in_events,
    digest_of,
    seal,
)
from accounts.models import AuditEvent, AuditHead, AuditSeal

BATCH = 1_000
# An insert draws its id, then its transaction number; between the two it is in no list.
_MARGIN = timedelta(seconds=1)
_NOTHING_BELOW = """
SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint <= %s OR NOT EXISTS (
  SELECT 1 FROM pg_snapshot_xip(pg_current_snapshot()) AS under_way
  WHERE under_way::text::bigint < %s)
"""


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What a check read, and what is broken first; empty if nothing is.

    `unsealed` events are newer than the last seal; `head` is its hash: kept elsewhere it proves
    that the chain was not written anew.
    """

    events: int
    seals: int
    unsealed: int
    head: str
    broken: str


def seal_audit(*, now: datetime | None = None, margin: timedelta = _MARGIN) -> int:
    """Seal what is settled; how many events that were.

    Two that run at once do no harm: the second finds the head locked and leaves. Under load the
    last events may have to wait for the next run.
    """
    now = now or timezone.now()
    if not _mark(now):
        return 0
    sealed = 0
    while count := _seal_batch(now, margin):
        sealed += count
    return sealed


def _head() -> AuditHead | None:
    """The locked head; None where somebody else seals right now."""
    if not AuditHead.objects.exists():
        AuditHead.objects.get_or_create(pk=1, defaults={"hash": GENESIS})
    free = AuditHead.objects.filter(pk=1)
    if connection.features.has_select_for_update_skip_locked:
        free = free.select_for_update(skip_locked=True)
    return free.first()


def _mark(now: datetime) -> bool:
    """Note how far the next seal may reach, unless a mark waits already; whether there is one."""
    highest = AuditEvent.objects.aggregate(highest=Max("pk"))["highest"] or 0
    if highest <= (AuditHead.objects.values_list("until_id", flat=True).first() or 0):
        return False
    with transaction.atomic():
        head = _head()
        if head is None:
            return False
        if head.mark_id <= head.until_id < highest:
            head.mark_id, head.mark_tx, head.mark_at = highest, _draw_transaction(), now
            head.save(update_fields=["mark_id", "mark_tx", "mark_at"])
    return True


def _draw_transaction() -> int:
    if connection.vendor != "postgresql":
        return 0
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_current_xact_id()::text::bigint")
        return int(cursor.fetchone()[0])


def _is_settled(head: AuditHead, now: datetime, margin: timedelta) -> bool:
    """Whether no transaction older than the mark is under way.

    A counter that is lower than the mark began anew (a restored backup): those are long gone.
    """
    if connection.vendor != "postgresql":
        return True
    if head.mark_at is not None and now - margin < head.mark_at <= now:
        return False
    with connection.cursor() as cursor:
        cursor.execute(_NOTHING_BELOW, [head.mark_tx, head.mark_tx])
        return bool(cursor.fetchone()[0])


@transaction.atomic
def _seal_batch(now: datetime, margin: timedelta) -> int:
    head = _head()
    if head is None or head.mark_id <= head.until_id or not _is_settled(head, now, margin):
        return 0
    events = list(_events(head.until_id + 1, head.mark_id)[:BATCH])
    until = events[-1].pk if len(events) == BATCH else head.mark_id
    made = seal(
        head.number + 1, head.until_id + 1, until, [_digest(event) for event in events], head.hash
    )
    AuditSeal.objects.create(
        number=made.number,
        from_id=made.from_id,
        until_id=made.until_id,
        count=made.count,
        sealed_at=now,
        digests=made.digests,
        previous=made.previous,
        hash=made.hash,
    )
    AuditHead.objects.filter(pk=head.pk).update(
        number=made.number, hash=made.hash, until_id=made.until_id
    )
    return len(events)


def verify_audit() -> AuditReport:
    """Read every seal and event and count them again; constant memory. Changes nothing.

    Seals that are written meanwhile are left to the next check.
    """
    last = AuditHead.objects.filter(pk=1).first()
    seals = AuditSeal.objects.filter(number__lte=last.number if last else 0).order_by("number")
    head, next_id, number, count = GENESIS, 1, 1, 0
    for row in seals.iterator(8):
        found = _sealing(row)
        events = _events(next_id, found.until_id).iterator(BATCH)
        broken = break_in_chain(found, number, next_id, head) or break_in_events(
            found, map(_digest, events)
        )
        if broken:
            return AuditReport(count, number - 1, 0, head, broken)
        head, next_id = found.hash, found.until_id + 1
        number, count = number + 1, count + found.count
    unsealed = AuditEvent.objects.filter(pk__gte=next_id).count()
    return AuditReport(count, number - 1, unsealed, head, _broken_end(last, number - 1, head))


def _broken_end(last: AuditHead | None, seals: int, head: str) -> str:
    if last is None:
        return "seals were put in" if AuditSeal.objects.exists() else ""
    if last.number == seals and last.hash == head:
        return ""
    return f"seals after number {seals} are missing"


def _events(first: int, last: int) -> QuerySet[AuditEvent]:
    return AuditEvent.objects.filter(pk__gte=first, pk__lte=last).order_by("pk")


def _sealing(row: AuditSeal) -> Sealing:
    return Sealing(
        number=row.number,
        from_id=row.from_id,
        until_id=row.until_id,
        count=row.count,
        digests=bytes(row.digests),
        previous=row.previous,
        hash=row.hash,
    )


def _digest(event: AuditEvent) -> Digest:
    return digest_of(
        event.pk,
        {
            "at": event.at.astimezone(UTC).isoformat(timespec="microseconds"),
            "actor": event.actor_id,
            "actor_name": event.actor_name,
            "on_behalf_of": event.on_behalf_of_id,
            "on_behalf_of_name": event.on_behalf_of_name,
            "action": event.action,
            "area": event.area,
            "team": event.team_id,
            "subject": [event.subject_kind, event.subject_id, event.subject_label],
            "request_id": event.request_id,
            "ip": event.ip,
            # Events of before this was kept are digested as they were.
            **({} if event.user_agent is None else {"user_agent": event.user_agent}),
            "before": event.before,
            "after": event.after,
            "reason": event.reason,
        },
    )
