"""Rows to what the ledger counts with; in pages, so that memory does not grow with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from django.db.models import Exists, Min, OuterRef, Q, QuerySet

from accounts.models import Project, Rate
from accounts.selectors import every_team
from accounts.selectors.rates import approved_rates
from scheduler.ledger.auditing import Audit, audit
from scheduler.ledger.closing import BookKey, payer
from scheduler.ledger.costs.spare import SharePolicy, Spare, Spares
from scheduler.ledger.entries import (
    RECOVERY,
    project_account,
    team_account,
)
from scheduler.ledger.exact import EXACT, ZERO
from scheduler.ledger.periods import Month
from scheduler.ledger.rating import BORROWED, Held, PriceList
from scheduler.ledger.segments import ALLOCATED, Bucket, Segment, proven
from scheduler.ledger.shares import IdlePolicy
from scheduler.ledger.tiers import Guarantee, Intervals, guaranteed_seconds, pieces
from scheduler.models import (
    Allocation,
    Device,
    DeviceSegment,
    LedgerEntry,
    Period,
)
from scheduler.models.money.terms import Unreachable
from scheduler.selectors.books.prices.rates import price_of
from scheduler.selectors.books.terms import terms_of
from scheduler.states import END_RULES, EndReason

PAGE = 20_000
_DEVICES_AT_ONCE = 200
_ATTEMPTS_AT_ONCE = 500


def moment_of(at_s: int) -> datetime:
    """A second of the books as the database has moments."""
    return datetime.fromtimestamp(at_s, UTC)


def price_list(also: Rate | None = None) -> PriceList:
    """All approved prices of all cards, `also` one that is not approved, as if it was decided last;
    what begins or ends within a second does so with the next one. A query, and one for the tree
    where a team has a card."""
    rates = [*approved_rates(), *([] if also is None else [also])]
    prices = [price_of(rate) for rate in sorted(rates, key=lambda rate: rate.valid_from)]
    teams = every_team() if any(price.team for price in prices) else []
    ways: dict[int, tuple[str, ...]] = {}
    for pk, _, parent in teams:
        ways[pk] = (team_account(str(pk)), *ways.get(parent or 0, ()))
    return PriceList(prices, {way[0]: way for way in ways.values()})


def share_policies(month: Month, guarantees: Sequence[Guarantee]) -> dict[str, SharePolicy]:
    """How each pool splits what nobody held in a month; pools by their id as text."""
    return {
        str(pool): SharePolicy(
            idle=IdlePolicy(terms.idle),
            platform=IdlePolicy(terms.platform),
            guarantee_percent=terms.guarantee_percent,
            guaranteed=guaranteed_seconds(guarantees, str(pool), month.start_s, month.end_s),
        )
        for pool, terms in terms_of(month).items()
    }


def segments_within(month: Month) -> QuerySet[DeviceSegment]:
    """The segments that reach into a month, in no order."""
    is_over = Q(end_s__gt=month.start_s) | Q(end_s__isnull=True)
    return DeviceSegment.objects.filter(is_over, start_s__lt=month.end_s).order_by()


def audit_month(month: Month) -> tuple[Audit, list[Spare]]:
    """Whether the month's segments are a partition, and the seconds in it that nobody held."""
    spares = Spares(month.start_s, month.end_s)
    earlier = DeviceSegment.objects.filter(device=OuterRef("pk"), start_s__lt=month.start_s)
    before = Device.objects.filter(Exists(earlier)).values_list("pk", flat=True)
    found = audit(
        streams(month, spares),
        month.start_s,
        month.end_s,
        known_before={str(device) for device in before},
    )
    return found, spares.found()


def streams(month: Month, spares: Spares) -> Iterator[Segment]:
    """All segments of the month by device and start; what nobody held is counted on the way."""
    ids = list(Device.objects.order_by("pk").values_list("pk", flat=True))
    fields = ("device_id", "start_s", "end_s", "bucket", "pool_id", "flavour")
    for first in range(0, len(ids), _DEVICES_AT_ONCE):
        devices = ids[first : first + _DEVICES_AT_ONCE]
        rows = segments_within(month).filter(device_id__in=devices)
        for device, start_s, end_s, bucket, pool, flavour in (
            rows.order_by("device_id", "start_s", "id").values_list(*fields).iterator(PAGE)
        ):
            segment = Segment(str(device), start_s, end_s, Bucket(bucket))
            spares.add(segment, str(pool), flavour)
            yield segment


def held_in(
    month: Month, tiers: Intervals | None = None, *, attempts: Sequence[int] | None = None
) -> Iterator[Held]:
    """The month's segments that attempts held, attempt by attempt; `tiers`: what was borrowed.

    `attempts`: of these alone.

    Pages end between attempts; nothing is kept open between them, so that others may write.
    """
    tiers = tiers or {}
    accounts = {
        pk: project_account(str(team), str(pk))
        for pk, team in Project.objects.order_by().values_list("pk", "team_id")
    }
    rows = segments_within(month).filter(bucket__in=[str(b) for b in ALLOCATED])
    if attempts is not None:
        for first in range(0, len(attempts), _ATTEMPTS_AT_ONCE):
            some = attempts[first : first + _ATTEMPTS_AT_ONCE]
            yield from _held(month, rows.filter(attempt_id__in=some), tiers, accounts)
        return
    yield from _held(month, rows, tiers, accounts)


def _held(
    month: Month, rows: QuerySet[DeviceSegment], tiers: Intervals, accounts: Mapping[int, str]
) -> Iterator[Held]:
    first = rows.aggregate(first=Min("attempt_id"))["first"]
    if first is None:
        return
    known = terms_of(month)
    charging = {pk for pk, terms in known.items() if terms.unreachable == Unreachable.TEAM}
    last: int = first - 1
    while True:
        page = _page(rows, last)
        if not page:
            return
        last = page[-1][0]
        for row, where, start_s, end_s in _told(page, month):
            attempt, device, pool, flavour, _, _, _, project, reason = row
            held = Held(
                holder=str(attempt),
                account=payer(
                    accounts.get(project),
                    where,
                    is_billable=_BILLABLE[reason],
                    pays_unreachable=pool in charging,
                ),
                pool=str(pool),
                flavour=flavour,
                bucket=where,
                tier="",
                start_s=start_s,
                end_s=end_s,
            )
            times = tiers.get((attempt, device)) if where is Bucket.RUN else None
            if times is None:
                yield held
            else:
                for begin, end, is_borrowed in pieces(held.start_s, held.end_s, times):
                    tier = BORROWED if is_borrowed else ""
                    yield replace(held, tier=tier, start_s=begin, end_s=end)


def _told(
    page: Sequence[tuple[Any, ...]], month: Month
) -> Iterator[tuple[tuple[Any, ...], Bucket, int, int]]:
    """Rows with bucket, start and end; the time of silent nodes by what they told of it later.

    A statement more where there is such time.
    """
    silent = sorted({row[0] for row in page if row[4] == Bucket.UNREACHABLE})
    ran = _ran(silent) if silent else {}
    for row in page:
        attempt, device, _, _, bucket, start_s, end_s, *_ = row
        until_s = month.end_s if end_s is None else end_s
        if bucket == Bucket.UNREACHABLE:
            for part in proven(start_s, until_s, ran.get((attempt, device))):
                yield row, *part
        else:
            yield row, Bucket(bucket), start_s, until_s


def _ran(attempts: Sequence[int]) -> dict[tuple[int, int], tuple[int, int]]:
    """By (attempt, device) from when until when the program ran, as its node told."""
    rows = Allocation.objects.filter(
        placement__attempt__in=attempts,
        placement__started_at__isnull=False,
        placement__ran_until__isnull=False,
    ).order_by()
    names = ("attempt_id", "started_at", "ran_until")
    found = rows.values_list("device_id", *(f"placement__{name}" for name in names))
    return {
        (attempt, device): (int(started.timestamp()), int(until.timestamp()))
        for device, attempt, started, until in found
    }


def nobodys(month: Month) -> list[str]:
    """Segments that say a card was held or kept, and not for whom: nobody would pay for them."""
    unheld = Q(bucket__in=[str(b) for b in ALLOCATED], attempt__isnull=True)
    unkept = Q(bucket=str(Bucket.RESERVED_IDLE), project__isnull=True, team__isnull=True)
    rows = segments_within(month).filter(unheld | unkept).order_by("id")
    fields = ("device_id", "bucket", "start_s", "end_s")
    return [
        f"device {device} is {bucket} from second {start_s} to "
        f"{'now' if end_s is None else end_s} for nobody"
        for device, bucket, start_s, end_s in rows.values_list(*fields)
    ]


def reserved_in(month: Month) -> Iterator[Held]:
    """The month's segments kept for somebody and not used: by project, or by team."""
    teams = dict(Project.objects.order_by().values_list("pk", "team_id"))
    rows = (
        segments_within(month)
        .filter(bucket=str(Bucket.RESERVED_IDLE))
        .order_by("project_id", "team_id", "id")
    )
    fields = ("project_id", "team_id", "pool_id", "flavour", "start_s", "end_s")
    for project, whole, pool, flavour, start_s, end_s in rows.values_list(*fields).iterator(PAGE):
        team = teams.get(project)
        account = None if team is None else project_account(str(team), str(project))
        yield Held(
            holder=f"reserved:{project}" if whole is None else f"reserved:team:{whole}",
            account=account if whole is None else team_account(str(whole)),
            pool=str(pool),
            flavour=flavour,
            bucket=Bucket.RESERVED_IDLE,
            tier="",
            start_s=start_s,
            end_s=month.end_s if end_s is None else end_s,
        )


_BILLABLE = {"": True} | {str(reason): END_RULES[reason].billable for reason in EndReason}
_HELD = (
    "attempt_id",
    "device_id",
    "pool_id",
    "flavour",
    "bucket",
    "start_s",
    "end_s",
    "project_id",
    "attempt__end_reason",
)


def _page(rows: QuerySet[DeviceSegment], last: int) -> list[tuple[Any, ...]]:
    """Rows of whole attempts behind attempt `last`; larger than a page where one attempt is."""
    size = PAGE
    rows = rows.filter(attempt_id__gt=last)
    while True:
        page = list(rows.order_by("attempt_id", "id").values_list(*_HELD)[:size])
        if len(page) < size:
            return page
        if page[0][0] != page[-1][0]:
            cut = page[-1][0]
            while page[-1][0] == cut:
                page.pop()
            return page
        size *= 4


def booked_for(period: Period) -> dict[BookKey, tuple[int, Decimal, Decimal]]:
    """What the books hold for a month's use, wherever it was posted: seconds, amount, price."""
    found: dict[BookKey, tuple[int, Decimal, Decimal]] = {}
    for entry in LedgerEntry.objects.filter(service_period=period).exclude(sku=""):
        is_owed = entry.credit == RECOVERY
        key = BookKey(entry.debit if is_owed else entry.credit, entry.sku, str(entry.rate_id or ""))
        seconds, amount, _ = found.get(key, (0, ZERO, ZERO))
        change = entry.amount if is_owed else EXACT.minus(entry.amount)
        found[key] = (
            seconds + (entry.gpu_seconds if is_owed else -entry.gpu_seconds),
            EXACT.add(amount, change),
            entry.unit_price,
        )
    return found
