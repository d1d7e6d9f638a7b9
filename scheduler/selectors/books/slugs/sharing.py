"""Budgets against what was used of them, and quotas against what teams held."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from django.db.models import Q, QuerySet, Sum

from scheduler.ledger.rating import DAY_S, ChargeKind, cut
from scheduler.ledger.segments import ALLOCATED
from scheduler.models import Budget, BudgetHold, DeviceSegment, Quota, UsageLine
from scheduler.money import from_steps
from scheduler.selectors.books.frame import (
    Ask,
    Bound,
    Cells,
    Check,
    Column,
    Form,
    Report,
    Sheet,
    Who,
    sheet_of,
)
from scheduler.selectors.books.months import Books, books_of
from scheduler.selectors.books.scope import Scope
from scheduler.selectors.books.seconds import by_day, day_of, within
from scheduler.selectors.books.slugs.devices import end_of

_HELD = [str(bucket) for bucket in ALLOCATED]
_TRAILING_DAYS = 28
_BUDGETS = (
    Column("budget", "Budget", Form.COUNT),
    Column("team", "Team"),
    Column("project", "Project"),
    Column("valid_from", "From", Form.MOMENT),
    Column("valid_until", "Until", Form.MOMENT),
    Column("enforcement", "At the limit"),
    Column("budget_gpu_seconds", "Budget h", Form.SECONDS, is_summed=True),
    Column("actual_gpu_seconds", "Actual h", Form.SECONDS, is_summed=True),
    Column("committed_gpu_seconds", "Committed h", Form.SECONDS, is_summed=True),
    Column("forecast_low_gpu_seconds", "Forecast low h", Form.SECONDS),
    Column("forecast_gpu_seconds", "Forecast h", Form.SECONDS),
    Column("forecast_high_gpu_seconds", "Forecast high h", Form.SECONDS),
    Column("variance_gpu_seconds", "Over (+) or under h", Form.SECONDS),
    Column("budget_amount", "Budget", Form.AMOUNT),
    Column("actual_amount", "Actual", Form.AMOUNT),
    Column("committed_amount", "Committed", Form.AMOUNT),
    Column("used_percent", "Used", Form.PERCENT),
    Column("currency", "Currency"),
)


def _budget_actual(ask: Ask, scope: Scope) -> Sheet:
    """Budgets that are valid in a month. Forecast = actual + committed + what the days left take,
    each as the mean (lowest, highest) of its weekday in the last 28 days."""
    books = books_of(ask.period)
    window = [datetime.fromtimestamp(s, UTC) for s in (books.month.start_s, books.month.end_s)]
    budgets = [
        budget
        for budget in Budget.objects.filter(valid_from__lt=window[1], valid_until__gt=window[0])
        .select_related("account__project", "account__team")
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
    rows = [_budget_row(budget, scope, past, now_s) for budget in budgets]
    return sheet_of(
        _BUDGETS, rows, ask, _budget_checks(budgets), version=books.version, state=books.state
    )


def _budget_checks(budgets: list[Budget]) -> list[Check]:
    """Counters against the holds they count; money in its own steps, so that none is rounded."""
    holds = BudgetHold.objects.filter(budget__in=[b.pk for b in budgets]).order_by()
    found = []
    for is_money, unit in ((False, "GPU-s"), (True, "steps of money")):
        own = [budget for budget in budgets if budget.is_money is is_money]
        if is_money and not own:
            continue
        of_it = holds.filter(budget__in=[b.pk for b in own])
        spent = of_it.aggregate(n=Sum("spent_money" if is_money else "spent_s"))["n"] or 0
        kept = of_it.filter(settled_at__isnull=True)
        committed = kept.aggregate(n=Sum("money" if is_money else "gpu_seconds"))["n"] or 0
        actual, held = sum(b.spent for b in own), sum(b.committed for b in own)
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


def _budget_row(
    budget: Budget, scope: Scope, past: dict[tuple[Any, ...], int], now_s: int
) -> Cells:
    account = budget.account
    by_date: dict[int, int] = {}
    for (day, team, project), seconds in past.items():
        if account.project_id in (None, project) and account.team_id in (None, team):
            by_date[day] = by_date.get(day, 0) + seconds
    used = None
    if budget.limit:
        share = Decimal(budget.spent + budget.committed) * 100 / budget.limit
        used = share.quantize(Decimal("0.01"))
    head = (budget.pk, *_owner(budget, scope), budget.valid_from, budget.valid_until)
    if budget.is_money:
        money = (from_steps(each) for each in (budget.limit, budget.spent, budget.committed))
        hours = (None,) * 7
        return (*head, str(budget.enforcement), *hours, *money, used, budget.currency)
    so_far = budget.spent + budget.committed
    lowest, mean, highest = _forecast(by_date, now_s, int(budget.valid_until.timestamp()))
    forecast = (so_far + lowest, so_far + mean, so_far + highest, so_far + mean - budget.limit)
    counts = (budget.limit, budget.spent, budget.committed, *forecast)
    return (*head, str(budget.enforcement), *counts, None, None, None, used, "")


def _forecast(by_date: dict[int, int], now_s: int, until_s: int) -> tuple[int, int, int]:
    """Lowest, mean and highest use of the time left, weekday by weekday; half-up whole seconds."""
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


_QUOTAS = (
    Column("day", "Day", Form.DAY),
    Column("team", "Team"),
    Column("flavour", "GPU"),
    Column("guaranteed", "Guaranteed now", Form.COUNT),
    Column("mean_gpus", "Mean use", Form.PRICE),
    Column("peak_gpus", "Peak use", Form.COUNT),
    Column("used_gpu_seconds", "Used h", Form.SECONDS, is_summed=True),
    Column("borrowed_gpu_seconds", "Borrowed h", Form.SECONDS, is_summed=True),
    Column("unused_gpu_seconds", "Guarantee left to others h", Form.SECONDS, is_summed=True),
)


def _quota_use(ask: Ask, scope: Scope) -> Sheet:
    """By team, GPU model and day. Guarantees are those of today: past ones are not kept."""
    books = books_of(ask.period)
    start_s, end_s = books.month.start_s, end_of(books, ask)
    segments = within(start_s, end_s).filter(bucket__in=_HELD, project__isnull=False)
    teams = {pk: slug for slug, pk in scope.team_ids.items()}
    if not (scope.is_all or scope.is_operator):
        teams = {pk: slug for pk, slug in teams.items() if pk in scope.teams}
    if ask.team:
        scope.accounts(ask.team) if not scope.is_operator else None
        teams = {pk: slug for pk, slug in teams.items() if slug == ask.team}
    segments = segments.filter(project__team__in=list(teams))
    used = by_day(segments, start_s, end_s, "project__team_id", "flavour")
    borrowed = _borrowed(books, scope)
    peaks = _peaks(segments, start_s, end_s)
    promised = _guarantees(teams)
    rows: list[Cells] = []
    for key in sorted(used, key=lambda each: (each[0], teams[each[1]], each[2])):
        day, team, flavour = key
        span = min(end_s, day + DAY_S) - max(day, start_s)
        guaranteed = promised.get((team, flavour), promised.get((team, ""), 0))
        mean = (Decimal(used[key]) / span).quantize(Decimal("0.01"))
        rest = max(0, guaranteed * span - used[key])
        own = (day_of(day), teams[team], flavour, guaranteed, mean, peaks.get(key, 0))
        rows.append((*own, used[key], borrowed.get(key, 0) if borrowed is not None else None, rest))
    in_service = sum(by_day(within(start_s, end_s).exclude(bucket="out"), start_s, end_s).values())
    checks = [Bound("use is at most capacity", sum(used.values()), in_service, "GPU-s")]
    remark = "Guarantees are those of now; what was borrowed is known once the month is closed."
    return sheet_of(
        _QUOTAS, rows, ask, checks, version=books.version, state=books.state, remarks=(remark,)
    )


def _peaks(
    segments: QuerySet[DeviceSegment], start_s: int, end_s: int
) -> dict[tuple[Any, ...], int]:
    """Most devices held at one moment by day, team and flavour: one sweep, ends before starts."""
    peaks: dict[tuple[Any, ...], int] = {}
    ends: dict[tuple[Any, ...], list[int]] = {}
    rows: Iterable[tuple[int, int | None, int, str]] = (
        segments.order_by("start_s", "id")
        .values_list("start_s", "end_s", "project__team_id", "flavour")
        .iterator(20_000)
    )
    for begin, end, team, flavour in rows:
        first, last = max(begin, start_s), end_s if end is None else min(end, end_s)
        if first >= last:
            continue
        held = ends.setdefault((team, flavour), [])
        while held and held[0] <= first:
            heapq.heappop(held)
        heapq.heappush(held, last)
        key = (first - first % DAY_S, team, flavour)
        peaks[key] = max(peaks.get(key, 0), len(held))
        for later, _ in list(cut(first, last, ()))[1:]:
            standing = sum(1 for until in held if until > later)
            key = (later - later % DAY_S, team, flavour)
            peaks[key] = max(peaks.get(key, 0), standing)
    return peaks


def _borrowed(books: Books, scope: Scope) -> dict[tuple[Any, ...], int] | None:
    """Seconds above the guarantee by day, team and flavour, as the close rated them."""
    if not books.version:
        return None
    lines = UsageLine.objects.filter(period=books.period, kind=str(ChargeKind.RUN_BORROWED))
    found: dict[tuple[Any, ...], int] = {}
    for day, account, flavour, seconds in (
        lines.order_by().values_list("day_s", "account", "flavour").annotate(Sum("gpu_seconds"))
    ):
        key = (day, scope.team_ids.get(scope.place(account).team), flavour)
        found[key] = found.get(key, 0) + seconds
    return found


def _guarantees(teams: dict[int, str]) -> dict[tuple[int, str], int]:
    """Guaranteed GPUs by team and model, all pools together; the empty model: any."""
    found: dict[tuple[int, str], int] = {}
    for team, model, count in Quota.objects.filter(
        Q(account__team__in=list(teams)), guaranteed__gt=0
    ).values_list("account__team_id", "gpu_model", "guaranteed"):
        found[team, model] = found.get((team, model), 0) + count
    return found


REPORTS = (
    Report(
        "budget-actual", "Budget against actual", "What is spent, committed and to be expected.",
        "account × budget", _BUDGETS, Who.BOOKS | Who.TEAMS, _budget_actual,
        frozenset({"team", "project"}), ("team", "actual_gpu_seconds"),
    ),
    Report(
        "quota-use", "Use of quotas", "What teams held beside what they are guaranteed.",
        "team × flavour × day", _QUOTAS, Who.BOOKS | Who.TEAMS | Who.OPERATORS, _quota_use,
        frozenset({"team"}),
    ),
)  # fmt: skip
