"""Budgets as the ledger sees them: what was posted for each, in one statement, and what was rated
of months that were never closed when it was last compared.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db.models import (
    BigIntegerField,
    Case,
    CharField,
    F,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Sum,
    Value,
    When,
)
from django.db.models.functions import Cast

from accounts.models.rows import as_rows, rows_in
from accounts.trees import below
from scheduler.ledger.budgets.actuals import Actual, Charge, Claim, Of, actuals
from scheduler.ledger.entries import INTERNAL, RECOVERY, ROUNDING
from scheduler.ledger.exact import EXACT, half_even
from scheduler.ledger.periods import Month
from scheduler.ledger.rating import DAY_S, ChargeKind
from scheduler.models import (
    Budget,
    BudgetHold,
    BudgetPledge,
    BudgetTrueUp,
    LedgerEntry,
    Period,
    UsageLine,
)
from scheduler.models.exact import ExactSum
from scheduler.money import MOST_COUNTED, SAME_STEPS, STEPS, from_steps
from scheduler.selectors.books.seconds import EpochSecond
from scheduler.selectors.sharing.reckoning import TrueUp, true_up_of, with_true_ups

# A pool's idle and broken time that is shared out: owed, and held by nobody of the team.
SHARES = (str(ChargeKind.IDLE_SHARE), str(ChargeKind.PLATFORM_SHARE))
_NAMES = ("of_", "debit_", "credit_", "month_", "day_", "amount_", "seconds_")
_AT_ONCE = 500
_MONTH, _LINES, _LOOSE = "month", "lines", "loose"


def claims_of(budgets: Sequence[Budget], parents: Sequence[tuple[int, int]]) -> dict[int, Claim]:
    """By id; budgets come with their account. `parents`: teams below others, each with its own.

    A team's budget has the teams that lie below it now, as its counters do.
    """
    found = {}
    for budget in budgets:
        account = budget.account
        teams = None
        if account.team_id is not None:
            teams = frozenset(map(str, {account.team_id, *below({account.team_id}, parents)}))
        found[budget.pk] = Claim(
            start_s=int(budget.valid_from.timestamp()),
            end_s=int(budget.valid_until.timestamp()),
            project="" if account.project_id is None else str(account.project_id),
            teams=teams,
        )
    return found


def in_measure(budget: Budget, actual: Actual) -> int:
    """What a budget counts of it: GPU-seconds, or the amount in steps, to the nearest one."""
    if not budget.is_money:
        return actual.gpu_seconds
    return min(half_even(EXACT.multiply(actual.amount, STEPS), 0), MOST_COUNTED)


def is_same(budget: Budget, difference: int) -> bool:
    """Whether what is counted and what the ledger says differ by its rounding of hours alone."""
    return budget.is_money and abs(difference) < SAME_STEPS


def posted(claims: Mapping[int, Claim], *, up_to: int | None = None) -> dict[int, Actual]:
    """What entries say each budget's accounts owe; `up_to`: the last entry that is read.

    Entries count in the month they are booked in, so that a month's budget of a team comes to its
    statement. One statement, none without budgets.
    """
    if not claims:
        return {}
    return actuals(claims, _charges(claims, up_to))


def posted_of_open(
    claims: Mapping[int, Claim], open_: Mapping[int, Collection[str]], closed: Collection[str]
) -> dict[int, Actual]:
    """By budget, less than 0: what `closed` months say of the attempts it still holds something
    for, which count by their holds. Nothing of budgets without such."""
    apart = sorted({int(pk) for own in open_.values() for pk in own})
    found: dict[int, Actual] = {}
    for first in range(0, len(apart), _AT_ONCE):
        lines = UsageLine.objects.filter(
            attempt_id__in=apart[first : first + _AT_ONCE], period__name__in=closed
        ).exclude(kind__in=SHARES)
        for attempt, account, day_s, seconds, amount in lines.order_by().values_list(
            "attempt_id", "account", "day_s", "gpu_seconds", "amount"
        ):
            for key, own in open_.items():
                claim = claims[key]
                if str(attempt) in own and claim.is_for(account) and claim.has_day(day_s):
                    less = Actual(-seconds, EXACT.minus(amount))
                    found[key] = found.get(key, Actual()).plus(less)
    return found


def _charges(claims: Mapping[int, Claim], up_to: int | None) -> Iterator[Charge]:
    rows = _entries(claims, up_to)
    cut = {str(month) for claim in claims.values() for month in claim.cut_months()}
    if cut:
        rows = rows.union(_lines(cut), all=True)
    for of, debit, credit, name, day_s, amount, seconds in rows:
        month = Month.parse(name)
        if debit in (RECOVERY, ROUNDING):
            debit, amount, seconds = credit, EXACT.minus(amount), -seconds
        if of == _LINES:
            yield Charge(debit, Of.LINES, month, seconds, amount, day_s)
        elif of == _MONTH:
            yield Charge(debit, Of.MONTH, month, seconds, amount)
        elif day_s and month.start_s <= day_s < month.end_s:
            yield Charge(debit, Of.DAY, month, seconds, amount, day_s - day_s % DAY_S)
        else:
            yield Charge(debit, Of.END, month, seconds, amount)


def _entries(claims: Mapping[int, Claim], up_to: int | None) -> QuerySet[Any, tuple[Any, ...]]:
    """Sums of what nobody but teams and platform owe, by account and month; what was decided by
    hand with its second."""
    first = Month.of(min(claim.start_s for claim in claims.values()))
    last = Month.of(max(claim.end_s for claim in claims.values()) - 1)
    entries = LedgerEntry.objects.exclude(kind__in=[str(kind) for kind in INTERNAL]).filter(
        period__name__gte=str(first), period__name__lte=str(last)
    )
    if up_to is not None:
        entries = entries.filter(number__lte=up_to)
    is_share = Q(sku__endswith=f":{SHARES[0]}") | Q(sku__endswith=f":{SHARES[1]}")
    return (
        entries.order_by()
        .annotate(
            of_=Case(
                When(lines__gt=0, then=Value(_MONTH)),
                default=Value(_LOOSE),
                output_field=CharField(),
            ),
            debit_=F("debit"),
            credit_=F("credit"),
            month_=F("period__name"),
            day_=Cast(EpochSecond("adjustment__decided_at"), BigIntegerField()),
            own_=Case(
                When(is_share, then=Value(0)),
                default=F("gpu_seconds"),
                output_field=BigIntegerField(),
            ),
        )
        .values(*_NAMES[:5])
        .annotate(amount_=ExactSum("amount"), seconds_=Cast(Sum("own_"), BigIntegerField()))
        .values_list(*_NAMES)
    )


def _lines(months: set[str]) -> QuerySet[Any, tuple[Any, ...]]:
    """Sums of the lines of months that were closed, by account and day."""
    lines = UsageLine.objects.filter(period__name__in=sorted(months), period__version__gt=0)
    return (
        lines.order_by()
        .annotate(
            of_=Cast(Value(_LINES), CharField()),
            debit_=F("account"),
            credit_=Cast(Value(""), CharField()),
            month_=F("period__name"),
            day_=F("day_s"),
            own_=Case(
                When(kind__in=SHARES, then=Value(0)),
                default=F("gpu_seconds"),
                output_field=BigIntegerField(),
            ),
        )
        .values(*_NAMES[:5])
        .annotate(amount_=ExactSum("amount"), seconds_=Cast(Sum("own_"), BigIntegerField()))
        .values_list(*_NAMES)
    )


@dataclass(frozen=True, slots=True)
class Used:
    """A budget and what it comes to, in its own measure but for `amount`, which is exact.

    `ledger`: posted, and rated when it was last compared; `since`: what ends have charged after
    that. `settled` and `held`: sums of its holds, the latter with pledges; `moved`: what it began
    with and all true-ups.
    """

    budget: Budget
    last: TrueUp | None
    ledger: Actual
    since: int
    settled: int
    held: int
    moved: int

    @property
    def counted(self) -> int:
        """What limits counted when it was last compared."""
        return self.budget.spent - self.since

    @property
    def told(self) -> int:
        """What the ledger says, as a counter takes it: not below 0, and not moved for nothing."""
        told = max(0, in_measure(self.budget, self.ledger))
        return self.counted if is_same(self.budget, told - self.counted) else told

    @property
    def actual(self) -> int:
        """What has ended took, as far as the ledger is known, then as it was charged."""
        if self.last is None:
            return self.budget.spent
        return in_measure(self.budget, self.ledger) + self.since

    @property
    def amount(self) -> Decimal:
        """The same in money."""
        if self.last is None:
            return from_steps(self.budget.spent)
        return EXACT.add(self.ledger.amount, from_steps(self.since))

    @property
    def until(self) -> datetime | None:
        """Up to when the ledger was asked."""
        return self.last.until if self.last else None


def with_figures(budgets: QuerySet[Budget]) -> QuerySet[Any]:
    """Budgets with their accounts and all that `used_of` reads beside what is posted."""
    beside = {"budget": OuterRef("pk")}
    sums = {}
    for measure in ("s", "money"):
        column = "gpu_seconds" if measure == "s" else "money"
        settled = BudgetHold.objects.filter(**beside, settled_at__isnull=False)
        unsettled = BudgetHold.objects.filter(**beside, settled_at__isnull=True)
        sums[f"settled_{measure}_"] = _sum(settled, f"spent_{measure}")
        sums[f"held_{measure}_"] = _sum(unsettled, column)
        sums[f"pledged_{measure}_"] = _sum(BudgetPledge.objects.filter(**beside), column)
    rows = with_true_ups(budgets).select_related("account__project", "account__team")
    return rows.annotate(
        **sums,
        moved_=_sum(BudgetTrueUp.objects.filter(**beside), "difference"),
        closed_=as_rows(Period.objects.filter(version__gt=0).order_by(), "name"),
    )


def _sum(rows: QuerySet[Any], column: str) -> Subquery:
    sums = rows.order_by().values("budget").annotate(sum_=Sum(column)).values("sum_")
    return Subquery(sums)


def used_of(budget: Any, booked: Actual) -> Used:
    """A row of `with_figures` with what is posted for it."""
    last = true_up_of(budget)
    closed = {name for (name,) in rows_in(budget.closed_)}
    total = booked
    for month, (seconds, amount) in last.rated.items() if last else ():
        if month not in closed:
            total = total.plus(Actual(seconds, Decimal(amount)))
    measure = "money" if budget.is_money else "s"
    settled = getattr(budget, f"settled_{measure}_") or 0
    return Used(
        budget=budget,
        last=last,
        ledger=total,
        since=settled - last.settled if last else 0,
        settled=settled,
        held=sum(getattr(budget, f"{what}_{measure}_") or 0 for what in ("held", "pledged")),
        moved=budget.moved_ or 0,
    )
