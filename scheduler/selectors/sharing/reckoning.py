"""What budgets have used at a moment, and where that leads: actual, committed, foreseen.

All figures are whole numbers in the budget's own measure: GPU-seconds, or steps of money.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from itertools import chain
from typing import Any

from django.db.models import IntegerField, OuterRef, QuerySet, Subquery, Sum, Value

from accounts.models.rows import as_rows, moment_in, rows_in
from scheduler.ledger.periods import Month
from scheduler.models import Account, Budget, BudgetHold, BudgetTrueUp, CommitsAt, Enforcement
from scheduler.money import STEPS, from_steps, steps_per_s
from scheduler.selectors.sharing.reach import projects_below
from scheduler.selectors.sharing.use import counted_upto, parts_of_use
from scheduler.states import days_in_words, hours_words, is_endless

# What the same weekday of the last four weeks took tells what it will take.
LOOK_BACK = timedelta(days=28)
_WEEKS = 4
# So far ahead days are looked at one by one, and a day is named on which a budget is used up.
LOOK_AHEAD = timedelta(days=400)


@dataclass(frozen=True, slots=True)
class Standing:
    """`used`: what has ended and what runs, so far; `kept`: what the running may still take, and
    what waiting jobs have pledged, which is `waiting`."""

    used: int
    kept: int
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class Foresight:
    """At `foreseen_until`: `low` if things go on as before, `high` with all that is kept.

    `out_on`: the day on which `low` reaches the limit, None if it does not.
    """

    low: int
    high: int
    out_on: date | None


_OPEN = (
    "gpu_seconds",
    "money",
    "whole_money",
    "attempt__assigned_at",
    "attempt__released_at",
    "attempt__job__time_limit_s",
)


def standings(budgets: Iterable[Budget], *, now: datetime) -> dict[int, Standing]:
    """By id; one query. What runs is counted by its share of what it has committed."""
    by_id = {budget.pk: budget for budget in budgets}
    holds = BudgetHold.objects.filter(budget_id__in=by_id, settled_at__isnull=True)
    open_: dict[int, list[tuple[Any, ...]]] = {pk: [] for pk in by_id}
    for pk, *hold in holds.values_list("budget_id", *_OPEN):
        open_[pk].append(tuple(hold))
    return {pk: _standing(by_id[pk], open_[pk], now) for pk in by_id}


def with_holds(rows: QuerySet[Budget]) -> QuerySet[Any]:
    """Budgets with what `standing_of` reads; no statement more."""
    unsettled = BudgetHold.objects.filter(budget=OuterRef("pk"), settled_at__isnull=True)
    return rows.annotate(unsettled=as_rows(unsettled.order_by(), *_OPEN))


def standing_of(row: Any, *, now: datetime) -> Standing:
    """Of a row of `with_holds`, as `standings` counts it."""
    return _standing(row, _held(row.unsettled), now)


def with_standings(rows: QuerySet[Budget], *, now: datetime) -> list[tuple[Budget, Standing]]:
    """Budgets in their order, each as `standings` counts it; one query for both."""
    return [(one, standing_of(one, now=now)) for one in with_holds(rows)]


def _held(text: str | None) -> list[tuple[Any, ...]]:
    return [
        (*kept, moment_in(begun), moment_in(released), limit_s)
        for *kept, begun, released, limit_s in rows_in(text)
    ]


def _standing(budget: Budget, holds: Iterable[tuple[Any, ...]], now: datetime) -> Standing:
    used, kept, waiting = budget.spent, 0, budget.committed
    for gpu_seconds, money, whole_money, begun, released, limit_s in holds:
        worst = money if budget.is_money else gpu_seconds
        # Its highest price ends it sooner, and not at a lower rate.
        whole = worst if whole_money is None else whole_money
        held_s = max(0, int(((released or now) - begun).total_seconds()))
        so_far = whole * held_s // max(1, limit_s)
        if whole_money is not None:
            so_far = min(so_far, worst)
        used += so_far
        kept += max(0, worst - so_far)
        waiting -= worst
    # Nothing waits where the holds changed since the budget was read.
    waiting = max(0, waiting) if budget.commits_at == CommitsAt.SUBMIT else 0
    return Standing(used, kept + waiting, waiting)


def foresee(
    budget: Budget,
    standing: Standing,
    *,
    now: datetime,
    by_day: Mapping[date, int] | None = None,
) -> Foresight:
    """Used so far plus, for each day that is left, the mean of its weekday; two queries, unless the
    caller has what was charged `by_day` in `days_before` (other days do not count).

    A day that has begun counts by the part of it that is left. Farther ahead than LOOK_AHEAD the
    mean of a week counts, and no day is named.
    """
    since, until = days_before(now)
    if by_day is None:
        by_day = daily_use(budget, since=since, until=until)
    mean = [0.0] * 7
    for day, amount in by_day.items():
        if since.date() <= day < until.date():
            mean[day.weekday()] += amount / _WEEKS
    to = foreseen_until(budget, now)
    used, low, out_on = float(standing.used), float(standing.used), None
    day, last = now.date(), min(budget.valid_until, now + LOOK_AHEAD)
    while True:
        begins = datetime(day.year, day.month, day.day, tzinfo=now.tzinfo)
        if begins >= last:
            break
        ends = min(begins + timedelta(days=1), last)
        part = (ends - max(begins, now)).total_seconds() / 86_400
        used += mean[day.weekday()] * max(0.0, part)
        if begins < to:
            low = used
        if out_on is None and used >= budget.limit:
            out_on = day
        day += timedelta(days=1)
    # What lies farther ahead is taken as so many weeks alike.
    low += sum(mean) / 7 * max(0.0, (to - last).total_seconds() / 86_400)
    return Foresight(int(low), int(low) + standing.kept, out_on)


def foreseen_until(budget: Budget, now: datetime) -> datetime:
    """Up to when a forecast adds up: to the end of the period, and where that stands for none to
    the end of this month: what a budget without end comes to in a hundred years nobody asks."""
    if not is_endless(budget.valid_until, budget.valid_from):
        return budget.valid_until
    month = Month.of(int(now.timestamp()))
    return min(budget.valid_until, datetime.fromtimestamp(month.end_s, UTC))


def days_before(now: datetime) -> tuple[datetime, datetime]:
    """The UTC days that a forecast goes by, from the begin of the first until that of today: whole
    ones alone, or a weekday would have five parts of days and count as four."""
    today = datetime.combine(now.astimezone(UTC).date(), time(), UTC)
    return today - LOOK_BACK, today


def daily_use(budget: Budget, *, since: datetime, until: datetime) -> dict[date, int]:
    """By UTC day what the account was charged; two queries, sums of whole numbers."""
    return daily_uses([budget], since=since, until=until)[budget.pk]


def daily_uses(
    budgets: Sequence[Budget], *, since: datetime, until: datetime
) -> dict[int, dict[date, int]]:
    """The same for some budgets, by id; two queries for all of them."""
    found: dict[int, dict[date, int]] = {budget.pk: {} for budget in budgets}
    if not budgets:
        return found
    counted = counted_upto()
    # An account has a budget for each month or year: what it was charged is asked for once.
    by_account: dict[int, list[Budget]] = {}
    for budget in budgets:
        by_account.setdefault(budget.account_id, []).append(budget)
    accounts = [alike[0].account for alike in by_account.values()]
    first, *more = chain.from_iterable(_charged(one, since, until, counted) for one in accounts)
    for account, day, price, seconds in first.union(*more, all=True) if more else first:
        on = day.date()
        for budget in by_account[account]:
            by_day = found[budget.pk]
            amount = seconds * steps_per_s(price) if budget.is_money else seconds
            by_day[on] = by_day.get(on, 0) + amount
    return found


def _charged(
    account: Account, since: datetime, until: datetime, counted: int
) -> Iterator[QuerySet[Any, Any]]:
    projects = projects_below(account)
    for part in parts_of_use(projects, since=since, until=until, counted=counted):
        rows = part.order_by().annotate(account_=Value(account.pk, IntegerField()))
        summed = rows.values_list("account_", "on_day", "unit_price")
        yield summed.annotate(s=Sum("gpu_seconds"))


@dataclass(frozen=True, slots=True)
class TrueUp:
    """The last time a budget was held against the ledger; see `BudgetTrueUp`.

    `moved`: by how much all true-ups together have moved what is spent, in the budget's measure.
    """

    until: datetime
    settled: int
    rated: Mapping[str, tuple[int, str]]
    unpriced: Sequence[tuple[str, str, str, int]]
    moved: int


_LAST = ("until_s", "settled", "rated", "unpriced")


def with_true_ups(budgets: QuerySet[Budget]) -> QuerySet[Any]:
    """Budgets with what `true_up_of` reads; no statement more."""
    compared = BudgetTrueUp.objects.filter(budget=OuterRef("pk"), is_opening=False)
    last = compared.order_by("-pk")[:1]
    moved = compared.order_by().values("budget").annotate(sum_=Sum("difference")).values("sum_")
    return budgets.annotate(true_up_=as_rows(last, *_LAST), trued_=Subquery(moved))


def true_up_of(budget: Any) -> TrueUp | None:
    """Of a row of `with_true_ups`; None where it was never compared."""
    rows = rows_in(budget.true_up_)
    if not rows:
        return None
    until_s, settled, rated, unpriced = rows[0]
    return TrueUp(
        until=datetime.fromtimestamp(until_s, UTC),
        settled=settled,
        rated=_json(rated),
        unpriced=_json(unpriced),
        moved=budget.trued_ or 0,
    )


def _json(value: Any) -> Any:
    """JSON within JSON: a text on SQLite, a value on PostgreSQL."""
    return json.loads(value) if isinstance(value, str) else value


def said_of(budget: Budget, last: TrueUp | None) -> list[str]:
    """What the last true-up found and a reader has to know: no price, or more than was kept."""
    if last is None:
        return []
    found = [
        f"no price for {flavour} ({kind.replace('-', ' ')}) since {days_in_words(day)}: "
        f"{hours_words(seconds)} GPU-hours are in no amount. Propose a price from then on."
        for flavour, kind, day, seconds in last.unpriced
    ]
    over = budget.spent + budget.committed - budget.limit
    # Less than half a cent would be said as nothing.
    is_over = over > (STEPS // 200 if budget.is_money else 0)
    also = " with what is committed" if budget.committed else ""
    if is_over and last.moved > 0 and budget.enforcement == Enforcement.RESERVE:
        found.append(
            f"{figure_of(budget, over)} over its limit{also}: the ledger charges "
            f"{figure_of(budget, last.moved)} more than was counted when jobs ended."
        )
    return found


def figure_of(budget: Budget, figure: int) -> str:
    """A figure in a budget's measure as people read it."""
    if budget.is_money:
        return f"{from_steps(figure):,.2f} {budget.currency}"
    return f"{hours_words(figure)} GPU-hours"
