"""Budgets are held against the ledger: what they count as spent becomes what it says.

While jobs run and end, a budget counts with general prices, so that it can count at once. What the
ledger says is known later and costs more to find: borrowed time, time that costs less or nothing,
what the platform pays for, refunds, corrections, shares. A run counts all months anew that were
never closed, outside any transaction, then moves each counter by the difference, one by one.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db import transaction
from django.db.models import (
    BigIntegerField,
    Case,
    Exists,
    F,
    Max,
    Min,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Sum,
    When,
)
from django.utils import timezone

from accounts.models import Team
from accounts.models.rows import as_rows, rows_in
from accounts.services import audit
from scheduler import events
from scheduler.conf import load_conf
from scheduler.ledger.budgets.actuals import Actual, Claim
from scheduler.ledger.exact import plain
from scheduler.ledger.periods import Month
from scheduler.models import (
    Attempt,
    Budget,
    BudgetHold,
    BudgetTrueUp,
    DeviceSegment,
    LedgerEntry,
    Period,
)
from scheduler.money import from_steps
from scheduler.selectors.books.slugs.actuals import (
    claims_of,
    in_measure,
    is_same,
    posted,
    posted_of_open,
)
from scheduler.services.books.budgets.rating import SoFar, count_so_far
from scheduler.services.books.posting import locked_head
from scheduler.services.sharing.budgets import subject_of

logger = logging.getLogger(__name__)
# Beside the months of `BudgetTrueUp.rated`: what is posted of attempts whose holds are open, less.
_RUNNING = "running"


@dataclass(frozen=True, slots=True)
class _Seen:
    """What was true when a run began, before anything was counted.

    `open_`: attempts by the budgets that hold something for them; `settled`: what settled holds had
    spent; `newest`: the last attempt; `closed`: names of months.
    """

    until_s: int
    budgets: list[Budget]
    claims: dict[int, Claim]
    head: int
    newest: int
    months: list[tuple[Month, Period]]
    open_: dict[int, frozenset[str]]
    settled: dict[int, int]
    closed: frozenset[str]

    @property
    def apart(self) -> frozenset[str]:
        """All attempts for which something is held."""
        return frozenset().union(*self.open_.values())


def true_up_budgets(*, now: datetime | None = None) -> int:
    """Compare every budget that may have changed with the ledger; returns how many were moved.

    Idempotent: a second run finds no difference, and of two at once the one that has looked later
    counts. An attempt whose hold is open counts by its hold, so what it has used is left out here;
    one that ends while a run counts is added as its end counted it.
    """
    now = now or timezone.now()
    if not Budget.objects.exists():
        return 0
    seen = _look(now)
    booked = posted(seen.claims, up_to=seen.head)
    running = posted_of_open(seen.claims, seen.open_, seen.closed)
    counted = [
        count_so_far(month, row, seen.until_s, apart=seen.apart, newest=seen.newest)
        for month, row in seen.months
    ]
    rated = {str(one.month): one.actuals(seen.claims, seen.open_, seen.until_s) for one in counted}
    return sum(
        _true_up(
            seen,
            budget,
            booked[budget.pk],
            {name: found[budget.pk] for name, found in rated.items()}
            | ({_RUNNING: running[budget.pk]} if budget.pk in running else {}),
            _unpriced(budget, seen.claims[budget.pk], counted),
            now,
        )
        for budget in seen.budgets
    )


def true_up_after(what: str, *, now: datetime | None = None) -> None:
    """The same behind something that is done already; where it fails the next night does it."""
    try:
        true_up_budgets(now=now)
    except Exception:
        logger.exception("budgets could not be held against the ledger after %s", what)


@transaction.atomic
def _look(now: datetime) -> _Seen:
    """Under the chain's lock, so that no month is closed meanwhile; holds in one statement, so that
    none is settled between two."""
    head = locked_head()
    closed = frozenset(Period.objects.filter(version__gt=0).values_list("name", flat=True))
    months = _open_months(int(now.timestamp()), closed)
    budgets: list[Any] = list(_due(now, months))
    rows = Team.objects.filter(parent__isnull=False).order_by().values_list("pk", "parent_id")
    claims = claims_of(budgets, [(pk, parent) for pk, parent in rows if parent is not None])
    touched = [m for m in months if any(c.has_month(m) is not False for c in claims.values())]
    return _Seen(
        until_s=int(now.timestamp()),
        budgets=budgets,
        claims=claims,
        head=head.number,
        newest=Attempt.objects.aggregate(newest=Max("pk"))["newest"] or 0,
        months=_with_rows(touched),
        open_={one.pk: frozenset(str(pk) for (pk,) in rows_in(one.open_)) for one in budgets},
        settled={one.pk: one.settled_sum or 0 for one in budgets},
        closed=closed,
    )


def _open_months(now_s: int, closed: Collection[str]) -> list[Month]:
    """From the first with segments to the one of now, those that were never closed."""
    first = DeviceSegment.objects.aggregate(first=Min("start_s"))["first"]
    found = []
    month = Month.of(now_s if first is None else first)
    while month.start_s <= now_s:
        if str(month) not in closed:
            found.append(month)
        month = month.following
    return found


def _with_rows(months: Sequence[Month]) -> list[tuple[Month, Period]]:
    """Each with its row; one that nobody has touched has none yet, and none is made."""
    rows = {row.name: row for row in Period.objects.filter(name__in=[str(m) for m in months])}
    currency = load_conf().currency
    return [(m, rows.get(str(m)) or Period(name=str(m), currency=currency)) for m in months]


def _due(now: datetime, months: Sequence[Month]) -> QuerySet[Budget]:
    """What reaches into a month that is not closed, what was never compared, and what entries or
    settled holds came to since it was; with its holds."""
    opened = months[0].start_s if months else int(now.timestamp())
    compared = BudgetTrueUp.objects.filter(budget=OuterRef("pk"), is_opening=False)
    latest = compared.order_by("-until_s")
    never = ~Exists(compared)
    still = Q(valid_until__gt=datetime.fromtimestamp(opened, UTC))
    unsettled = BudgetHold.objects.filter(budget=OuterRef("pk"), settled_at__isnull=True)
    return (
        Budget.objects.alias(
            head_seen=Subquery(latest.values("head_number")[:1]),
            settled_known=Subquery(latest.values("settled")[:1]),
        )
        .annotate(settled_sum=_settled_sum())
        .filter(
            still | never | Q(settled_sum__gt=F("settled_known")) | _booked_since(),
            valid_from__lte=now,
        )
        .select_related("account__project__team", "account__team")
        .annotate(open_=as_rows(unsettled.order_by(), "attempt_id"))
        .order_by("pk")
    )


def _booked_since() -> Q:
    """Budgets, with `head_seen`, that reach into a month with entries after that one."""
    found = Q()
    newest = LedgerEntry.objects.order_by().values_list("period__name").annotate(Max("number"))
    for name, number in newest:
        month = Month.parse(name)
        start, end = (datetime.fromtimestamp(s, UTC) for s in (month.start_s, month.end_s))
        found |= Q(head_seen__lt=number, valid_from__lt=end, valid_until__gt=start)
    return found


def _settled_sum() -> Subquery:
    """What the settled holds of a budget have spent, in its own measure."""
    holds = BudgetHold.objects.filter(budget=OuterRef("pk"), settled_at__isnull=False).order_by()
    own = Case(
        When(budget__money__isnull=False, then=F("spent_money")),
        default=F("spent_s"),
        output_field=BigIntegerField(),
    )
    return Subquery(holds.values("budget").annotate(sum_=Sum(own)).values("sum_"))


def _unpriced(budget: Budget, claim: Claim, counted: Sequence[SoFar]) -> list[list[Any]]:
    """What no price is known for; a budget of GPU-hours asks for none."""
    if not budget.is_money:
        return []
    return [row for month in counted for row in month.unpriced_of(claim)]


@transaction.atomic
def _true_up(
    seen: _Seen,
    budget: Budget,
    booked: Actual,
    rated: Mapping[str, Actual],
    unpriced: list[list[Any]],
    now: datetime,
) -> bool:
    """Move one counter, under its row's lock; False where nothing had to be moved.

    What was settled since the run began has been added by then and stays so.
    """
    row = Budget.objects.select_for_update().filter(pk=budget.pk).first()
    newer = BudgetTrueUp.objects.filter(
        budget_id=budget.pk, is_opening=False, until_s__gte=seen.until_s
    )
    if row is None or newer.exists():
        return False
    total = booked
    for actual in rated.values():
        total = total.plus(actual)
    ledger = in_measure(row, total)
    settled = Budget.objects.annotate(settled_sum=_settled_sum()).get(pk=row.pk).settled_sum or 0
    difference = max(0, ledger + settled - seen.settled[row.pk]) - row.spent
    if is_same(row, difference):
        difference = 0
    BudgetTrueUp.objects.create(
        budget=row,
        at=now,
        until_s=seen.until_s,
        head_number=seen.head,
        before=row.spent,
        ledger=ledger,
        difference=difference,
        settled=seen.settled[row.pk],
        rated={name: [each.gpu_seconds, plain(each.amount)] for name, each in rated.items()},
        unpriced=unpriced,
    )
    if not difference:
        return False
    column = "spent_money" if row.is_money else "spent_s"
    Budget.objects.filter(pk=row.pk).update(**{column: F(column) + difference})
    before = {"spent": _shown(row, row.spent)}
    after = {"spent": _shown(row, row.spent + difference), "ledger": _shown(row, ledger)}
    after |= {"head_number": seen.head}
    subject = subject_of(budget)
    audit.record(None, "budget.true_up", subject, before=before, after=after, now=now)
    events.wake_scheduler_on_commit()
    return True


def _shown(budget: Budget, figure: int) -> str | int:
    """GPU-seconds, or an amount in full: steps say nothing to who reads it later."""
    return f"{from_steps(figure):f} {budget.currency}" if budget.is_money else figure
