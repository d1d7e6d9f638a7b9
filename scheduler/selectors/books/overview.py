"""The books at a glance: their months, whose bill changed most, which budgets run out first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db.models import (
    Count,
    Exists,
    F,
    FilteredRelation,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
)

from accounts.errors import Forbidden
from accounts.models import User
from accounts.permissions import can
from scheduler.conf import load_conf
from scheduler.ledger.currencies import from_minor
from scheduler.ledger.periods import Month, PeriodState
from scheduler.models import (
    Adjustment,
    Budget,
    Period,
    Reconciliation,
    Statement,
    StatementEvent,
)
from scheduler.models.money.disputes import StatementStep
from scheduler.money import from_steps
from scheduler.selectors.books.desk import require_reader
from scheduler.selectors.books.scope import Scope
from scheduler.selectors.sharing.budgets import share_words
from scheduler.selectors.sharing.limits import owner_path
from scheduler.selectors.sharing.reckoning import Standing, with_standings

_MONTHS = 24
_NEAREST = 5
_S_PER_HOUR = 3600


@dataclass(frozen=True, slots=True)
class MonthRow:
    """A month: where it stands, and for those who keep the books its control total.

    `closes_at`: when it closes by itself, None where it does not.
    """

    name: str
    state: str
    version: int
    currency: str
    control: Decimal | None
    closed_at: datetime | None
    findings: Sequence[str]
    closes_at: datetime | None


@dataclass(frozen=True, slots=True)
class Overview:
    """`is_bookkeeper` tells whether totals and open matters are in it; `has_older` whether there
    are months before those. `disputes`: statements whose dispute nobody has answered.
    """

    is_bookkeeper: bool
    current: str
    months: Sequence[MonthRow]
    has_older: bool
    open_adjustments: int
    disputes: int


def books_overview(viewer: User, now: datetime) -> Overview:
    """The last two years of months, each with its last close; one statement, two without months."""
    keeps = can(viewer, "read_books", None)
    current = str(Month.of(int(now.timestamp())))
    last = FilteredRelation("closes", condition=Q(closes__version=F("version")))
    found = Period.objects.annotate(
        last=last,
        waiting=_counted(_undecided(), "decided_at"),
        disputed=_counted(_disputed(), "step"),
    ).annotate(control=F("last__control"), ended=F("last__closed_at"), found=F("last__findings"))
    rows = list(found.order_by("-name")[: _MONTHS + 1])
    months = [_row(row, keeps) for row in rows[:_MONTHS]]
    if current not in {month.name for month in months}:
        blank = Period(name=current, state=PeriodState.OPEN, currency=load_conf().currency)
        ahead = _closes_at(blank)
        months.insert(0, MonthRow(current, blank.state, 0, blank.currency, None, None, (), ahead))
    waiting, disputes = 0, 0
    if keeps:
        # Without months there is no statement either.
        waiting = (rows[0].waiting or 0) if rows else _undecided().count()
        disputes = (rows[0].disputed or 0) if rows else 0
    return Overview(keeps, current, months, len(rows) > _MONTHS, waiting, disputes)


def _undecided() -> QuerySet[Adjustment]:
    return Adjustment.objects.filter(decided_at__isnull=True)


def _disputed() -> QuerySet[StatementEvent]:
    """Disputes that nothing but a mail came after."""
    later = StatementEvent.objects.filter(statement=OuterRef("statement"), pk__gt=OuterRef("pk"))
    answered = Exists(later.exclude(step=StatementStep.SENT))
    return StatementEvent.objects.filter(~answered, step=StatementStep.DISPUTED)


def _counted(rows: QuerySet[Any], alike: str) -> Subquery:
    """How many there are, beside each month; `alike` is the same in all of them."""
    return Subquery(rows.order_by().values(alike).annotate(n=Count("pk")).values("n"))


def _row(row: Any, keeps: bool) -> MonthRow:
    has = keeps and row.control is not None
    return MonthRow(
        row.name,
        row.state,
        row.version,
        row.currency,
        from_minor(row.control, row.currency) if has else None,
        row.ended,
        tuple(row.found or ()) if has else (),
        _closes_at(row),
    )


def _closes_at(period: Period) -> datetime | None:
    return load_conf().closing.ahead(Month.parse(period.name), PeriodState(period.state))


def reconciliation(viewer: User) -> Reconciliation | None:
    """What the last nightly run said, None before the first. Raises Forbidden."""
    if not can(viewer, "read_books", None):
        raise Forbidden(
            "Only those who keep or audit the books may see this. Ask an administrator."
        )
    return Reconciliation.objects.order_by("-pk").first()


@dataclass(frozen=True, slots=True)
class Mover:
    """An account's bill of one closed month beside the one before; `number`: its last statement."""

    account: str
    before: Decimal
    after: Decimal
    currency: str
    number: int | None

    @property
    def change(self) -> Decimal:
        """After less before."""
        return self.after - self.before

    @property
    def percent(self) -> int | None:
        """Of before, rounded; None where there was nothing."""
        return round(self.change * 100 / self.before) if self.before else None


@dataclass(frozen=True, slots=True)
class Burn:
    """A running budget: hours, or amounts of its currency."""

    owner: str
    limit: Decimal
    used: Decimal
    kept: Decimal
    unit: str

    @property
    def percent(self) -> int:
        """Used and kept of the limit; 100 where nothing is allowed."""
        return int((self.used + self.kept) * 100 / self.limit) if self.limit else 100

    @property
    def share(self) -> str:
        """The same in the words of the budgets' own page: `45 %`, `under 1 %`, `about 60 times`."""
        return share_words(self.percent, is_some=bool(self.used + self.kept))


def movers(scope: Scope, months: Sequence[tuple[str, int, str]]) -> list[Mover]:
    """The largest changes between two closed months, `(name, version, currency)` the later first.

    One statement; nothing where there are no two months of one currency. Raises Forbidden.
    """
    require_reader(scope.viewer)
    if len(months) < 2 or months[0][2] != months[1][2]:
        return []
    (later, last, currency), (earlier, first, _) = months[:2]
    bills = Statement.objects.filter(close__period__name__in=(later, earlier)).values_list(
        "account", "close__period__name", "close__version", "units", "number"
    )
    units: dict[str, dict[str, int]] = {}
    numbers: dict[str, int] = {}
    for account, name, version, amount, number in bills:
        if version == (last if name == later else first):
            units.setdefault(account, {})[name] = amount
            if name == later:
                numbers[account] = number
    found = [
        Mover(
            scope.place(account).team or account,
            from_minor(of.get(earlier, 0), currency),
            from_minor(of.get(later, 0), currency),
            currency,
            numbers.get(account),
        )
        for account, of in units.items()
    ]
    found.sort(key=lambda mover: (-abs(mover.change), mover.account))
    return [mover for mover in found if mover.change][:_NEAREST]


def burning(viewer: User, now: datetime) -> list[Burn]:
    """The running budgets that are nearest to their limit; one statement. Raises Forbidden."""
    require_reader(viewer)
    rows = Budget.objects.filter(valid_from__lte=now, valid_until__gt=now)
    rows = rows.select_related("account__team", "account__project__team")
    found = [_burn(budget, seen) for budget, seen in with_standings(rows, now=now)]
    return sorted(found, key=lambda burn: (-burn.percent, burn.owner))[:_NEAREST]


def _burn(budget: Budget, seen: Standing) -> Burn:
    limit, used, kept = (
        from_steps(each) if budget.is_money else Decimal(each) / _S_PER_HOUR
        for each in (budget.limit, seen.used, seen.kept)
    )
    unit = budget.currency if budget.is_money else "GPU-hours"
    return Burn(owner_path(budget) or "the organisation", limit, used, kept, unit)
