"""Budgets against what was used of them, and what is to be expected."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from django.db.models import OuterRef, Subquery, Sum

from scheduler.ledger.rating import DAY_S, cut
from scheduler.ledger.segments import ALLOCATED
from scheduler.models import Budget, BudgetHold
from scheduler.money import from_steps
from scheduler.selectors.books.frame import (
    Ask,
    Cells,
    Check,
    Column,
    Drill,
    Form,
    Report,
    Sheet,
    Who,
    sheet_of,
)
from scheduler.selectors.books.scope import Scope
from scheduler.selectors.books.seconds import by_day, within
from scheduler.selectors.books.spans import end_of
from scheduler.selectors.sharing.reckoning import daily_uses

_HELD = [str(bucket) for bucket in ALLOCATED]
_TRAILING_DAYS = 28
# Budgets of money asked for in one statement; SQLite unites 500 questions at most.
_AT_ONCE = 200
_HELD_BY = Drill("segments", {"team": "team", "project": "project"}, {"bucket": "allocated"})
_BUDGETS = (
    Column("budget", "Budget", Form.COUNT),
    Column("team", "Team"),
    Column("project", "Project"),
    Column("valid_from", "From", Form.MOMENT),
    Column("valid_until", "Until", Form.MOMENT),
    Column("enforcement", "At the limit"),
    Column("budget_gpu_seconds", "Budget h", Form.SECONDS, is_summed=True),
    Column("actual_gpu_seconds", "Actual h", Form.SECONDS, is_summed=True, drill=_HELD_BY),
    Column("committed_gpu_seconds", "Committed h", Form.SECONDS, is_summed=True),
    Column("forecast_low_gpu_seconds", "Forecast low h", Form.SECONDS),
    Column("forecast_gpu_seconds", "Forecast h", Form.SECONDS),
    Column("forecast_high_gpu_seconds", "Forecast high h", Form.SECONDS),
    Column("variance_gpu_seconds", "Over (+) or under h", Form.SECONDS),
    Column("budget_amount", "Budget", Form.AMOUNT),
    Column("actual_amount", "Actual", Form.AMOUNT, drill=_HELD_BY),
    Column("committed_amount", "Committed", Form.AMOUNT),
    Column("forecast_low_amount", "Forecast low", Form.AMOUNT),
    Column("forecast_amount", "Forecast", Form.AMOUNT),
    Column("forecast_high_amount", "Forecast high", Form.AMOUNT),
    Column("variance_amount", "Over (+) or under", Form.AMOUNT),
    Column("used_percent", "Used", Form.PERCENT),
    Column("currency", "Currency"),
)


def _budget_actual(ask: Ask, scope: Scope) -> Sheet:
    """Budgets that are valid in a month. Forecast = actual + committed + what the days left take,
    each as the mean (lowest, highest) of its weekday in the last 28 days: of seconds as they were
    held, of money as it was charged."""
    books = scope.books(ask.period)
    window = [datetime.fromtimestamp(s, UTC) for s in (books.month.start_s, books.month.end_s)]
    budgets = [
        budget
        for budget in Budget.objects.filter(valid_from__lt=window[1], valid_until__gt=window[0])
        .select_related("account__project", "account__team")
        .annotate(**_of_holds())
        .order_by("account__depth", "pk")
        if _is_shown(budget, ask, scope)
    ]
    now_s = end_of(books, ask)
    past = by_day(
        within(now_s - _TRAILING_DAYS * DAY_S, now_s).filter(bucket__in=_HELD),
        now_s - _TRAILING_DAYS * DAY_S,
        now_s,
        "project__team_id",
        "project_id",
    )
    charged = _charged([budget for budget in budgets if budget.is_money], now_s)
    rows = []
    for budget in budgets:
        by_date = charged[budget.pk] if budget.is_money else _held_by(budget, past)
        rows.append(_budget_row(budget, scope, by_date, now_s))
    return sheet_of(
        _BUDGETS, rows, ask, _budget_checks(budgets), version=books.version, state=books.state
    )


def _of_holds() -> dict[str, Subquery]:
    """What the holds of a budget add up to: settled and open, in seconds and in money."""
    found = {}
    for name, column, is_open in (
        ("settled_s_", "spent_s", False),
        ("settled_money_", "spent_money", False),
        ("open_s_", "gpu_seconds", True),
        ("open_money_", "money", True),
    ):
        holds = BudgetHold.objects.filter(budget=OuterRef("pk")).order_by()
        if is_open:
            holds = holds.filter(settled_at__isnull=True)
        sums = holds.values("budget").annotate(sum_=Sum(column)).values("sum_")
        found[name] = Subquery(sums)
    return found


def _budget_checks(budgets: list[Budget]) -> list[Check]:
    """Counters against the holds they count; money in its own steps, so that none is rounded."""
    found = []
    for is_money, unit in ((False, "GPU-s"), (True, "steps of money")):
        own = [budget for budget in budgets if budget.is_money is is_money]
        if is_money and not own:
            continue
        actual, held = sum(b.spent for b in own), sum(b.committed for b in own)
        spent, committed = (
            sum(getattr(b, f"{name}_{'money' if is_money else 's'}_") or 0 for b in own)
            for name in ("settled", "open")
        )
        found.append(Check("actual equals settled holds", actual, spent, unit))
        found.append(Check("committed equals open holds", held, committed, unit))
    return found


def _is_shown(budget: Budget, ask: Ask, scope: Scope) -> bool:
    team, project = _owner(budget, scope)
    key = budget.account.key
    if not scope.is_all:
        owner = budget.account.project.team_id if budget.account.project else budget.account.team_id
        if owner not in scope.teams:
            return False
    if ask.project:
        return f"{team}/{project}" == ask.project
    return team == ask.team if ask.team else bool(key)


def _owner(budget: Budget, scope: Scope) -> tuple[str, str]:
    """Slugs of team and project; the organisation has neither."""
    account = budget.account
    if account.project is not None:
        team = account.project.team_id
        return scope.place(f"team:{team}").team, account.project.slug
    return (account.team.slug if account.team is not None else "", "")


def _held_by(budget: Budget, past: Mapping[tuple[Any, ...], int]) -> dict[int, int]:
    """By day the seconds that the account of a budget of GPU-hours held."""
    account = budget.account
    by_date: dict[int, int] = {}
    for (day, team, project), seconds in past.items():
        if account.project_id in (None, project) and account.team_id in (None, team):
            by_date[day] = by_date.get(day, 0) + seconds
    return by_date


def _charged(budgets: list[Budget], now_s: int) -> dict[int, dict[int, int]]:
    """By budget of money and day the steps that its account was charged."""
    today = now_s - now_s % DAY_S
    since, until = (datetime.fromtimestamp(s, UTC) for s in (today - _TRAILING_DAYS * DAY_S, now_s))
    found: dict[int, dict[int, int]] = {}
    for first in range(0, len(budgets), _AT_ONCE):
        uses = daily_uses(budgets[first : first + _AT_ONCE], since=since, until=until)
        for pk, dated in uses.items():
            found[pk] = {
                int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()): steps
                for day, steps in dated.items()
            }
    return found


def _budget_row(budget: Budget, scope: Scope, by_date: dict[int, int], now_s: int) -> Cells:
    used = None
    if budget.limit:
        share = Decimal(budget.spent + budget.committed) * 100 / budget.limit
        used = share.quantize(Decimal("0.01"))
    head = (budget.pk, *_owner(budget, scope), budget.valid_from, budget.valid_until)
    so_far = budget.spent + budget.committed
    lowest, mean, highest = _forecast(by_date, now_s, int(budget.valid_until.timestamp()))
    forecast = (so_far + lowest, so_far + mean, so_far + highest, so_far + mean - budget.limit)
    counts = (budget.limit, budget.spent, budget.committed, *forecast)
    nothing = (None,) * len(counts)
    if budget.is_money:
        money = (from_steps(each) for each in counts)
        return (*head, str(budget.enforcement), *nothing, *money, used, budget.currency)
    return (*head, str(budget.enforcement), *counts, *nothing, used, "")


def _forecast(by_date: dict[int, int], now_s: int, until_s: int) -> tuple[int, int, int]:
    """Lowest, mean and highest use of the time left, weekday by weekday; whole numbers,
    rounded down."""
    today = now_s - now_s % DAY_S
    by_weekday: dict[int, list[int]] = {}
    for back in range(1, _TRAILING_DAYS + 1):
        day = today - back * DAY_S
        by_weekday.setdefault(day // DAY_S % 7, []).append(by_date.get(day, 0))
    sums = [0, 0, 0]
    for first, until in cut(now_s, until_s, ()):
        known = by_weekday.get(first // DAY_S % 7, [0])
        for place, use in enumerate((min(known), sum(known) // len(known), max(known))):
            sums[place] += use * (until - first) // DAY_S
    return sums[0], sums[1], sums[2]


REPORTS = (
    Report(
        "budget-actual", "Budget against actual", "What is spent, committed and to be expected.",
        "account × budget", _BUDGETS, Who.BOOKS | Who.TEAMS, _budget_actual,
        frozenset({"team", "project"}), ("team", "actual_gpu_seconds"),
    ),
)  # fmt: skip
