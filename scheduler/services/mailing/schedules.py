"""Schedules of reports: made and ended by people, claimed mail by mail by a task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from django.db import IntegrityError, transaction
from django.utils import timezone

from accounts.models import User
from accounts.permissions import can
from accounts.services.audit import record
from scheduler.ledger.periods import Month
from scheduler.models import Period, ReportDelivery, ReportSchedule
from scheduler.models.money.schedules import Rhythm
from scheduler.selectors.books.catalogue import may_open, report_named
from scheduler.selectors.books.scope import scope_of
from scheduler.selectors.books.spans import SPAN
from scheduler.services.errors import Conflict, Forbidden, Invalid

FORMATS = ("csv", "xlsx", "parquet")
MOST_RECIPIENTS = 50
# Reports of what is, not of what was closed: they go out when the month is over.
LIVE = frozenset(
    {"capacity", "idle-waste", "use-and-waste", "budget-actual", "quota-use", "audit-extract"}
)
# Whoever claimed a mail and is silent for so long has died over it.
_RETRY = timedelta(minutes=30)
# A schedule that was out of reach for long sends the last date only, not all it missed.
_MONDAY = 0


@dataclass(frozen=True, slots=True)
class Due:
    """One mail to send: which report, of which month, to whom."""

    delivery: ReportDelivery
    schedule: ReportSchedule
    recipient: User
    period: str


@transaction.atomic
def create_schedule(
    *,
    actor: User,
    slug: str,
    rhythm: str,
    file_format: str,
    recipients: Sequence[User],
    filters: Mapping[str, str] | None = None,
    now: datetime | None = None,
) -> ReportSchedule:
    """Send a report regularly. Raises NotFound, Forbidden for who may not open it, Invalid."""
    report = report_named(slug)
    scope = scope_of(actor)
    if report.is_trail or not may_open(scope, report):
        raise Forbidden("This report is not yours to open, so it cannot be sent for you.")
    if rhythm not in Rhythm.values:
        raise Invalid(f"Choose from {', '.join(Rhythm.values)}.", field="rhythm")
    if file_format not in FORMATS:
        raise Invalid(f"Choose from {', '.join(FORMATS)}.", field="file_format")
    kept = {name: value.strip() for name, value in (filters or {}).items() if value.strip()}
    for name in kept:
        # Its days are those of its rhythm.
        if name in SPAN:
            raise Invalid("A schedule sends the month it is about; leave the days out.", field=name)
        if name not in report.takes - {"attempt"}:
            raise Invalid(f"{report.title} is not narrowed by {name}.", field=name)
    scope.accounts(kept.get("team", ""), kept.get("project", ""))
    if not 0 < len(recipients) <= MOST_RECIPIENTS:
        raise Invalid(f"Name 1 to {MOST_RECIPIENTS} people.", field="recipients")
    if unreachable := [person.username for person in recipients if not person.email]:
        raise Invalid(f"No mail address is known of {', '.join(unreachable)}.", field="recipients")
    schedule = ReportSchedule.objects.create(
        slug=slug,
        filters=kept,
        rhythm=rhythm,
        file_format=file_format,
        created_by=actor,
        created_at=now or timezone.now(),
    )
    schedule.recipients.set(recipients)
    names = sorted(person.username for person in recipients)
    after = {"rhythm": rhythm, "format": file_format, "recipients": names, **kept}
    record(actor, "export.schedule", schedule, after=after, now=now)
    return schedule


@transaction.atomic
def end_schedule(
    *, actor: User, schedule: ReportSchedule, now: datetime | None = None
) -> ReportSchedule:
    """Send it no more; for who made it and for those who keep the books. Raises Conflict."""
    if schedule.created_by_id != actor.pk and not can(actor, "keep_books", None):
        raise Forbidden("Only who made it and those who keep the books may end it.")
    locked = ReportSchedule.objects.select_for_update().get(pk=schedule.pk)
    if locked.ended_at is not None:
        raise Conflict("It was ended already.")
    locked.ended_at = now or timezone.now()
    locked.save(update_fields=["ended_at"])
    record(actor, "export.end_schedule", locked, before={"rhythm": locked.rhythm}, now=now)
    return locked


def claim_due(*, now: datetime) -> Iterator[Due]:
    """The mails that are due now, each claimed as it is taken: two tasks share them.

    What was claimed and never settled is taken again after half an hour.
    """
    for schedule in ReportSchedule.objects.filter(ended_at__isnull=True).order_by("pk"):
        due_on, period = due_of(schedule, now)
        if due_on < schedule.created_at.astimezone(UTC).date() or not _is_ready(schedule, period):
            continue
        for recipient in schedule.recipients.filter(is_active=True).order_by("pk"):
            delivery = _claim(schedule, due_on, period, recipient, now)
            if delivery is not None:
                yield Due(delivery, schedule, recipient, period)


def due_of(schedule: ReportSchedule, now: datetime) -> tuple[date, str]:
    """The last date a schedule was due on, and the month it is about: the one the day before."""
    today = now.astimezone(UTC).date()
    if schedule.rhythm == Rhythm.WEEKLY:
        due_on = today - timedelta(days=(today.weekday() - _MONDAY) % 7)
    else:
        due_on = today.replace(day=1)
    before = due_on - timedelta(days=1)
    return due_on, str(Month(before.year, before.month))


def _is_ready(schedule: ReportSchedule, period: str) -> bool:
    """A monthly report of the books waits for the close."""
    if schedule.rhythm == Rhythm.WEEKLY or schedule.slug in LIVE:
        return True
    return Period.objects.filter(name=period, version__gt=0).exists()


def _claim(
    schedule: ReportSchedule, due_on: date, period: str, recipient: User, now: datetime
) -> ReportDelivery | None:
    """The delivery if it is ours to make, or None."""
    found = ReportDelivery.objects.filter(schedule=schedule, due_on=due_on, recipient=recipient)
    stale = found.filter(outcome="", claimed_at__lte=now - _RETRY)
    if found.exists():
        return found.get() if stale.update(claimed_at=now) else None
    try:
        with transaction.atomic():
            return ReportDelivery.objects.create(
                schedule=schedule,
                due_on=due_on,
                period=period,
                recipient=recipient,
                claimed_at=now,
            )
    except IntegrityError:
        return None


def settle(delivery: ReportDelivery, outcome: str) -> None:
    """How it went: `sent`, or why not."""
    ReportDelivery.objects.filter(pk=delivery.pk).update(outcome=outcome[:255])
