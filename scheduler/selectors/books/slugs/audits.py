"""The audit trail of a month as a report: who did what, with hashes of before and after."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from django.db.models import BigIntegerField, Count, F, Q, QuerySet, Subquery, Value

from accounts.models import AuditEvent, AuditSeal
from accounts.permissions import can
from scheduler.selectors.books.frame import Ask, Check, Column, Form, Report, Row, Sheet, Who
from scheduler.selectors.books.scope import Scope
from scheduler.selectors.books.spans import SPAN, span_of, standing_of
from scheduler.states import budget_in_words

_EVENTS = (
    Column("event", "Event", Form.COUNT, is_detail=True),
    Column("at", "When", Form.MOMENT),
    Column("actor", "Who"),
    Column("on_behalf_of", "For"),
    Column("action", "Action"),
    Column("subject", "Of what"),
    Column("subject_id", "Number", is_file_only=True),
    Column("subject_label", "Name"),
    Column("before_sha256", "Before (SHA-256)", is_file_only=True),
    Column("after_sha256", "After (SHA-256)", is_file_only=True),
    Column("ip", "Address", is_detail=True),
    Column("user_agent", "Program", is_file_only=True),
    Column("request_id", "Request", is_file_only=True),
    Column("reason", "Reason"),
    Column("seal", "Seal", Form.COUNT),
)
_CHUNK = 5_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OF_SEALS = (
    "A seal is a numbered batch of events with a hash over them and the seal before: an event that "
    "is changed, removed or put in later breaks it. The command manage.py verify_ledger reads all "
    "of them again and names the first event that differs."
)
_LAST_SEALED = AuditSeal.objects.order_by("-until_id").values("until_id")[:1]


def _audit_extract(ask: Ask, scope: Scope) -> Sheet:
    """Events of a month in order of time; bookkeepers get those of money."""
    books = scope.books(ask.period)
    span = span_of(books, replace(ask, now_s=0))
    window = span.window
    wanted = Q() if can(scope.viewer, "read_audit", None) else Q(area="money")
    events = AuditEvent.objects.filter(wanted, at__gte=window[0], at__lt=window[1])
    sealed = AuditEvent.objects.filter(pk__lte=Subquery(_LAST_SEALED)).order_by()
    there_ = sealed.annotate(one_=Value(1)).values("one_").annotate(n_=Count("pk")).values("n_")
    seals, count = _seals_and_count(events, Subquery(there_))

    untils = [seal[2] for seal in seals]
    names = _names_of(scope)

    def rows(after: int) -> Iterator[Row]:
        # Events of one moment are one key: they stay together on a page.
        left = events.filter(at__gt=_EPOCH + timedelta(microseconds=after)) if after else events
        for event in left.order_by("at", "pk").iterator(_CHUNK):
            place = bisect_left(untils, event.pk)
            is_sealed = place < len(seals) and seals[place][1] <= event.pk
            key = (event.at - _EPOCH) // timedelta(microseconds=1)
            yield Row(key, _cells(event, seals[place][0] if is_sealed else None, names))

    there = (seals[-1][4] or 0) if seals else 0
    counted = sum(seal[3] for seal in seals)
    checks = [Check("sealed events of all months are all there", there, counted, "events")]
    return Sheet(rows, {}, checks, count=count, remarks=[_OF_SEALS], **standing_of(books, span))


def _seals_and_count(
    events: QuerySet[AuditEvent], there: Subquery
) -> tuple[list[tuple[int, ...]], int]:
    """Seals by rising event, and how many events the month has; one statement."""
    names = ("number_", "from_", "until_", "count_", "there_")
    # Bare values: by those nothing is grouped.
    known = [name for name in names if name != "count_"]
    none = {name: Value(0, output_field=BigIntegerField()) for name in known}
    of_month = events.order_by().annotate(**none).values(*known).annotate(count_=Count("pk"))
    of_seals = {"number_": F("number"), "from_": F("from_id"), "until_": F("until_id")}
    seals = AuditSeal.objects.order_by().annotate(**of_seals, count_=F("count"), there_=there)
    found = sorted(seals.values_list(*names).union(of_month.values_list(*names), all=True))
    # The first seal has number 1.
    return [one for one in found if one[0]], sum(one[3] for one in found if not one[0])


def _names_of(scope: Scope) -> dict[str, str]:
    """Paths of teams and projects by the keys of their accounts in limits: `project:3`, where the
    ledger says `team:1/project:3`."""
    return {
        key.rpartition("/")[2]: f"{place.team}/{place.project}".rstrip("/")
        for key, place in scope.places.items()
    }


def _cells(
    event: AuditEvent, seal: int | None, names: Mapping[str, str]
) -> tuple[str | int | datetime | None, ...]:
    return (
        event.pk,
        event.at,
        event.actor_name or "the system",
        event.on_behalf_of_name,
        event.action,
        event.subject_kind,
        event.subject_id,
        budget_in_words(event.subject_label, names)
        if event.subject_kind == "budget"
        else event.subject_label,
        _digest(event.before),
        _digest(event.after),
        event.ip,
        event.user_agent or "",
        event.request_id,
        event.reason,
        seal,
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest() if text else ""


REPORTS = (
    Report(
        "audit-extract",
        "Audit extract",
        "Who changed what in a month, under which seal; files have before and after as hashes.",
        "event",
        _EVENTS,
        Who.BOOKS,
        _audit_extract,
        SPAN,
        is_streamed=True,
    ),
)
