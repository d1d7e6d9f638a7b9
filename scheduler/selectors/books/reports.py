"""Reports of the books, each with the checks that its page prints: what ties to what, exactly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from django.db.models import Q

from accounts.errors import Conflict, Forbidden, NotFound
from accounts.models import Team, User
from accounts.permissions import can
from scheduler.ledger.auditing import audit
from scheduler.ledger.capacity import Capacity, CapacityRow
from scheduler.ledger.currencies import from_minor
from scheduler.ledger.entries import RECOVERY, ROUNDING
from scheduler.ledger.exact import EXACT, ZERO, total
from scheduler.ledger.periods import Month
from scheduler.ledger.segments import IN_SERVICE, Bucket, Segment
from scheduler.models import (
    DeviceSegment,
    LedgerEntry,
    Period,
    PeriodClose,
    Pool,
    Statement,
    StatementLine,
)

_CHUNK = 20_000


@dataclass(frozen=True, slots=True)
class Check:
    """Two figures that have to be the same."""

    words: str
    left: Decimal | int
    right: Decimal | int

    @property
    def holds(self) -> bool:
        """Whether they are, to the last digit."""
        return self.left == self.right


@dataclass(frozen=True, slots=True)
class AccountRow:
    """An account's month: seconds and amounts by kind of entry or SKU, and what it owes."""

    account: str
    gpu_seconds: int
    by_kind: dict[str, Decimal]
    total: Decimal


@dataclass(frozen=True, slots=True)
class StatementRow:
    """One line of a statement: an entry, with its share of the smallest coins."""

    project: str
    sku: str
    unit_price: Decimal
    gpu_seconds: int
    amount: Decimal
    units: int
    kind: str
    reason: str


def period_summary(viewer: User, period: str) -> tuple[list[AccountRow], list[Check]]:
    """A month by account, for those who keep the books. Raises Forbidden, NotFound."""
    row = _period(viewer, period)
    sums: dict[str, AccountRow] = {}
    credited = ZERO
    for entry in LedgerEntry.objects.filter(period=row).order_by("number"):
        side, sign = _side(entry)
        amount = entry.amount if sign > 0 else EXACT.minus(entry.amount)
        kind = entry.sku.rpartition(":")[2] or entry.kind
        old = sums.get(side) or AccountRow(side, 0, {}, ZERO)
        by_kind = {**old.by_kind, kind: EXACT.add(old.by_kind.get(kind, ZERO), amount)}
        seconds = old.gpu_seconds + sign * entry.gpu_seconds
        sums[side] = AccountRow(side, seconds, by_kind, EXACT.add(old.total, amount))
        credited = EXACT.add(credited, amount)
    rows = [sums[account] for account in sorted(sums)]
    checks = [Check("accounts = ledger", total(r.total for r in rows), credited)]
    close = PeriodClose.objects.filter(period=row).order_by("-version").first()
    if close is not None:
        statements = sum(s.units for s in Statement.objects.filter(close=close))
        checks.append(Check("statements = control total", statements, close.control))
        owed = from_minor(close.control, row.currency)
        checks.append(Check("ledger = control total", credited, owed))
    return rows, checks


def team_statement(viewer: User, team: Team, period: str) -> tuple[list[StatementRow], list[Check]]:
    """A team's statement of a closed month, line by line; for who may see the team's costs.

    Raises NotFound for others, as for a team that does not exist; Conflict before the close.
    """
    if not can(viewer, "view_costs", team):
        raise NotFound("There is no such statement for you.")
    row = Period.objects.filter(name=period).first()
    close = PeriodClose.objects.filter(period=row).order_by("-version").first() if row else None
    if row is None or close is None:
        raise Conflict(f"{period} is not closed yet; its statement comes with the close.")
    statement = Statement.objects.filter(close=close, account=f"team:{team.pk}").first()
    if statement is None:
        return [], []
    rows = []
    for part in StatementLine.objects.filter(statement=statement).select_related("entry"):
        side, sign = _side(part.entry)
        amount = part.entry.amount
        rows.append(
            StatementRow(
                project=side,
                sku=part.entry.sku,
                unit_price=part.entry.unit_price,
                gpu_seconds=sign * part.entry.gpu_seconds,
                amount=amount if sign > 0 else EXACT.minus(amount),
                units=part.units,
                kind=part.entry.kind,
                reason=part.entry.reason,
            )
        )
    return rows, [
        Check("lines = statement, in cents", sum(r.units for r in rows), statement.units),
        Check("lines = statement, exact", total(r.amount for r in rows), statement.exact),
    ]


def capacity(viewer: User, period: str) -> tuple[list[CapacityRow], list[Check]]:
    """What devices did in a month, by UTC day, pool and flavour; for who runs or
    pays for the cluster."""
    if not can(viewer, "read_usage", None):
        raise Forbidden("Only operators and those who keep or audit the books may see this.")
    try:
        month = Month.parse(period)
    except ValueError as error:
        raise NotFound(str(error)) from None
    pools = dict(Pool.objects.values_list("pk", "name"))
    table = Capacity(month.start_s, month.end_s)
    fields = ("device_id", "start_s", "end_s", "bucket", "pool_id", "flavour")
    rows = (
        DeviceSegment.objects.filter(start_s__lt=month.end_s)
        .filter(Q(end_s__gt=month.start_s) | Q(end_s__isnull=True))
        .order_by("device_id", "start_s", "id")
        .values_list(*fields)
    )

    def segments() -> Iterator[Segment]:
        for device, start_s, end_s, bucket, pool, flavour in rows.iterator(_CHUNK):
            segment = Segment(str(device), start_s, end_s, Bucket(bucket))
            table.add(segment, pools[pool], flavour)
            yield segment

    found = audit(segments(), month.start_s, month.end_s)
    shown = table.rows()
    parts = [row.rolled for row in shown]
    added = sum(r.allocated + r.idle + r.unallocated for r in parts)
    return shown, [
        Check("allocated + idle + unallocated = in service", added, found.span),
        Check("rows = segments", added, sum(found.seconds[bucket] for bucket in IN_SERVICE)),
    ]


def _side(entry: LedgerEntry) -> tuple[str, int]:
    """The account an entry is about, and whether it owes (1) or is owed (-1)."""
    if entry.debit in (RECOVERY, ROUNDING):
        return entry.credit, -1
    return entry.debit, 1


def _period(viewer: User, period: str) -> Period:
    if not can(viewer, "read_books", None):
        raise Forbidden(
            "Only those who keep or audit the books may see them. Ask an administrator."
        )
    row = Period.objects.filter(name=period).first()
    if row is None:
        raise NotFound("There are no books for this month.")
    return row


def holding(checks: Sequence[Check]) -> bool:
    """Whether all of a report's checks hold."""
    return all(check.holds for check in checks)
