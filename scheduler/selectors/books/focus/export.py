"""A closed month as FOCUS rows, streamed: memory grows with entries, not with lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from django.conf import settings
from django.db.models import Count, Sum

from accounts.models import User
from scheduler.ledger.entries import INTERNAL, RECOVERY, ROUNDING, Entry, EntryKind, team_of
from scheduler.ledger.exact import ZERO, gpu_hours
from scheduler.ledger.focus.columns import DEFAULT_VERSION
from scheduler.ledger.focus.facts import Allocation, Booked, Issuer, Origin, Owner
from scheduler.ledger.focus.methods import methods_of
from scheduler.ledger.focus.rows import (
    allocations,
    cells,
    entry_row,
    header,
    is_share,
    line_row,
    origin_of,
    pseudonym,
)
from scheduler.ledger.periods import Month
from scheduler.ledger.rating import ChargeKind, UsageLine
from scheduler.models import LedgerEntry, Period, PeriodClose, Placement, Pool, Statement
from scheduler.models import UsageLine as StoredLine
from scheduler.selectors.books.chain.chained import originals_of
from scheduler.selectors.books.focus.months import closed_month
from scheduler.selectors.books.focus.owners import Owners, beginning, last_of
from scheduler.selectors.books.prices.listed import Listings, listings_of
from scheduler.selectors.books.slugs.lines import in_pages

# Lines whose attempts' places are read together.
_AT_ONCE = 5_000
_LINE_FIELDS = (
    "pk",
    "holder",
    "day_s",
    "account",
    "pool_id",
    "flavour",
    "kind",
    "rate_id",
    "unit_price",
    "gpu_seconds",
    "amount",
    "attempt__number",
    "attempt__job_id",
    "attempt__job__name",
    "attempt__job__owner_id",
    "attempt__job__spec__labels",
    "attempt__standing__queued_at_s",
    "attempt_id",
    "attempt__job__booked_in__project_id",
    "attempt__job__booked_in__team_id",
    "attempt__job__session__pk",
    "attempt__assigned_at",
)
_ATTEMPT = _LINE_FIELDS.index("attempt_id")


@dataclass(frozen=True, slots=True)
class _Books:
    """What all rows of an export share."""

    issuer: Issuer
    owners: Owners
    booked: dict[tuple[str, str, str], Booked]
    invoices: dict[str, str]
    parts: dict[tuple[Origin, str], Allocation]
    listings: Listings
    racks: Mapping[str, str] | None


def focus_rows(
    viewer: User, period: str, *, version: str = DEFAULT_VERSION, issuer: str = "Trainyard"
) -> Iterator[list[str]]:
    """Header and rows of a closed month in a fixed order; for those who keep or audit the books.

    Lines first, in the order in which they were written, then entries without lines. Raises
    Forbidden, NotFound, Conflict for a month that is not closed, ValueError for a version.
    """
    row, close = closed_month(viewer, period)
    return _rows(row, _load(row, close, issuer, version), header(version))


def _rows(row: Period, books: _Books, names: list[str]) -> Iterator[list[str]]:
    yield names
    for line, owner in _lines(row, books):
        booked = books.booked[line.account, f"{line.flavour}:{line.kind}", line.rate_id]
        part = books.parts.get((origin_of(line), line.account))
        cells_of = line_row(line, owner, booked, books.issuer, part)
        yield cells(cells_of | books.listings.of(line), names)
    originals = originals_of(row)
    for stored in _entries(row).filter(lines=0):
        entry = _entry(stored)
        side = entry.credit if entry.debit in (RECOVERY, ROUNDING) else entry.debit
        owner = books.owners.at(side, last_of(entry.service_period))
        invoice = books.invoices.get(team_of(side), "")
        of = originals.get((stored.service_period_id, side, stored.sku), {})
        corrects = of.get(stored.rate_id) or min(of.values(), default=0)
        booked = Booked(invoice, entry.number, stored.hash, corrects)
        yield cells(entry_row(entry, owner, booked, books.issuer), names)


def _entries(row: Period) -> Any:
    return (
        LedgerEntry.objects.filter(period=row)
        .exclude(kind__in=INTERNAL)
        .select_related("service_period")
        .order_by("number")
    )


def _load(row: Period, close: PeriodClose, issuer: str, version: str) -> _Books:
    month = Month.parse(row.name)
    statements = Statement.objects.filter(close=close).values_list("account", "number")
    invoices = {account: f"{row.name}/{number}" for account, number in statements}
    booked = {
        (e.debit, e.sku, str(e.rate_id)): Booked(invoices[team_of(e.debit)], e.number, e.hash)
        for e in _entries(row).exclude(lines=0)
    }
    return _Books(
        issuer=Issuer(
            month=month,
            currency=row.currency,
            account_id="organisation",
            account_name=issuer,
            cluster=issuer,
            status=row.state,
            version=version,
            charging=row.charging,
            dataset=close.version,
            memory_gib=close.gpu_memory_gib or {},
        ),
        owners=Owners(),
        booked=booked,
        invoices=invoices,
        parts=_parts(row, close),
        listings=listings_of(month, as_of=close.closed_at),
        racks=close.racks,
    )


def _parts(row: Period, close: PeriodClose) -> dict[tuple[Origin, str], Allocation]:
    """What each account has of each shared charge; grows with days, pools and accounts."""
    shared = StoredLine.objects.filter(period=row, kind__in=[k for k in ChargeKind if is_share(k)])
    sums = (
        shared.order_by()
        .values_list("holder", "pool_id", "flavour", "day_s", "account")
        .annotate(seconds_=Sum("gpu_seconds"))
    )
    pools = {str(pk): name for pk, name in Pool.objects.values_list("pk", "name")}
    found = (
        ((holder, str(pool), flavour, day_s), account, seconds)
        for holder, pool, flavour, day_s, account, seconds in sums
    )
    return allocations(found, pools, methods_of(close.shares))


def _lines(row: Period, books: _Books) -> Iterator[tuple[UsageLine, Owner]]:
    """Lines in the order in which they were written."""
    found = in_pages(StoredLine.objects.filter(period=row), 0, *_LINE_FIELDS)
    while some := list(islice(found, _AT_ONCE)):
        places = _places({one[_ATTEMPT] for one in some}, books.racks)
        for one in some:
            yield _line(row.currency, one, books, places.get(one[_ATTEMPT], _NOWHERE))


@dataclass(slots=True)
class _Place:
    """What an attempt was given: racks by name, and how many devices on all its nodes."""

    racks: set[str] = field(default_factory=set)
    gpus: int = 0

    @property
    def rack(self) -> str:
        """The one that all its nodes are in, if any."""
        return next(iter(self.racks)) if len(self.racks) == 1 else ""


_NOWHERE = _Place()


def _places(attempts: set[int | None], kept: Mapping[str, str] | None) -> dict[int, _Place]:
    """By attempt; one statement. `kept`: racks as of the close, none where it is an old one."""
    placed = Placement.objects.filter(attempt__in=attempts - {None}).order_by()
    found: dict[int, _Place] = {}
    for attempt, node, rack, gpus in placed.values_list(
        "attempt_id", "node_id", "node__rack", Count("allocations")
    ):
        place = found.setdefault(attempt, _Place())
        place.racks.add(rack if kept is None else kept.get(str(node), ""))
        place.gpus += gpus
    return found


def _line(
    currency: str, found: tuple[Any, ...], books: _Books, place: _Place
) -> tuple[UsageLine, Owner]:
    _, holder, day_s, account, pool, flavour, kind, rate, price, seconds, amount = found[:11]
    number, job, job_name, person, labels, queued_at_s = found[11:17]
    _, of_project, of_team, session, assigned_at = found[17:]
    line = UsageLine(
        holder=holder,
        day_s=day_s,
        account=account,
        pool=str(pool),
        flavour=flavour,
        kind=ChargeKind(kind),
        rate_id=str(rate),
        unit_price=price,
        currency=currency,
        gpu_seconds=seconds,
        gpu_hours=gpu_hours(seconds),
        amount=amount,
    )
    owner = books.owners.at(account, assigned_at or beginning(day_s))
    if job is not None:
        owner = replace(
            owner,
            job_id=str(job),
            job_name=job_name,
            attempt_number=number,
            gpus=place.gpus,
            queued_s=_waited(number, queued_at_s, assigned_at),
            zone=place.rack,
            reservation=_reserved(of_project, of_team),
            resource="GPU Job" if session is None else "GPU Session",
            pseudonym=pseudonym(settings.SECRET_KEY, person),
            # A job's labels are part of its specification and never change.
            tags=labels if isinstance(labels, dict) else None,
        )
    return line, owner


def _reserved(project: int | None, team: int | None) -> str:
    """As the lines of what stood idle in such bookings name their holder."""
    if project is not None:
        return f"reserved:{project}"
    return f"reserved:team:{team}" if team is not None else ""


def _waited(number: int, queued_at_s: float | None, assigned_at: datetime) -> int | None:
    """Until the first attempt was given its nodes, as was written then: the job's own times move
    when it is held or sent again. A later attempt's wait is kept nowhere."""
    if number != 1 or queued_at_s is None:
        return None
    waited = assigned_at - datetime.fromtimestamp(queued_at_s, UTC)
    return max(0, int(waited.total_seconds()))


def _entry(row: LedgerEntry) -> Entry:
    """As much of a stored entry as a row shows."""
    return Entry(
        batch=row.batch,
        kind=EntryKind(row.kind),
        period="",
        service_period=row.service_period.name,
        debit=row.debit,
        credit=row.credit,
        amount=row.amount,
        currency=row.currency,
        sku=row.sku,
        rate_id=str(row.rate_id or ""),
        unit_price=row.unit_price or ZERO,
        gpu_seconds=row.gpu_seconds,
        reason=row.reason,
        number=row.number,
    )
