"""Budgets against what was used of them, and what is to be expected."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

from scheduler.ledger.rating import DAY_S, cut
from scheduler.models import Budget
from scheduler.money import from_steps
from scheduler.selectors.books.adding import Adds
from scheduler.selectors.books.frame import (
    Ask,
    Bars,
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
from scheduler.selectors.books.slugs.actuals import (
    Used,
    claims_of,
    posted,
    used_of,
    with_figures,
)
from scheduler.selectors.sharing.reckoning import daily_uses, figure_of, foreseen_until, said_of
from scheduler.states import day_words, is_endless, moment_words

_TRAILING_DAYS = 28
# Budgets asked for in one statement; SQLite unites 500 questions at most.
_AT_ONCE = 200
_HELD_BY = Drill("segments", {"team": "team", "project": "project"}, {"bucket": "allocated"})
# A project's budget lies within its team's, and that within its parent's: nothing adds up.
_BUDGETS = (
    Column("budget", "Budget", Form.COUNT),
    Column("team", "Team"),
    Column("project", "Project"),
    Column("valid_from", "From", Form.MOMENT, is_detail=True),
    Column("valid_until", "Until", Form.MOMENT, is_detail=True),
    Column("enforcement", "At the limit", is_detail=True),
    Column("budget_gpu_seconds", "Budget h", Form.SECONDS),
    Column("actual_gpu_seconds", "Actual h", Form.SECONDS, drill=_HELD_BY),
    Column("committed_gpu_seconds", "Committed h", Form.SECONDS),
    Column("forecast_low_gpu_seconds", "Forecast low h", Form.SECONDS, is_detail=True),
    Column("forecast_gpu_seconds", "Forecast h", Form.SECONDS),
    Column("forecast_high_gpu_seconds", "Forecast high h", Form.SECONDS, is_detail=True),
    Column("variance_gpu_seconds", "Over (+) or under h", Form.SECONDS),
    Column("budget_amount", "Budget in money", Form.AMOUNT),
    Column("actual_amount", "Actual in money", Form.AMOUNT, drill=_HELD_BY),
    Column("committed_amount", "Committed in money", Form.AMOUNT),
    Column("forecast_low_amount", "Forecast low in money", Form.AMOUNT, is_detail=True),
    Column("forecast_amount", "Forecast in money", Form.AMOUNT),
    Column("forecast_high_amount", "Forecast high in money", Form.AMOUNT, is_detail=True),
    Column("variance_amount", "Over (+) or under in money", Form.AMOUNT),
    Column("used_percent", "Used and committed", Form.PERCENT),
    Column("currency", "Currency"),
    Column("ledger_until", "Ledger until", Form.MOMENT, is_file_only=True),
)
_ADDS = tuple(
    Adds(f"forecast_{measure}", (f"variance_{measure}",), (f"budget_{measure}",))
    for measure in ("gpu_seconds", "amount")
)


def _budget_actual(ask: Ask, scope: Scope) -> Sheet:
    """Budgets that are valid in a month, each over its whole period.

    Actual is what the ledger says of what has ended: what is posted, what was rated of months that
    were never closed when the budget was last held against it, and since then what ends charged.
    Forecast = actual + committed + what the days left take, each as the mean (lowest, highest) of
    its weekday in the last 28 days, as it was charged. One without end has none; what it comes to
    at the end of the month of now stands in its note.
    """
    books = scope.books(ask.period)
    if ask.team or ask.project:
        scope.check_known(ask.team, ask.project)
    window = [datetime.fromtimestamp(s, UTC) for s in (books.month.start_s, books.month.end_s)]
    budgets = [
        budget
        for budget in with_figures(
            Budget.objects.filter(valid_from__lt=window[1], valid_until__gt=window[0])
        ).order_by("account__depth", "pk")
        if _is_shown(budget, ask, scope)
    ]
    # Actual and committed are as of now, whichever month is opened: so is what is left of the time.
    now_s = ask.now_s or books.month.end_s
    booked = posted(claims_of(budgets, scope.parents))
    used = [used_of(budget, booked[budget.pk]) for budget in budgets]
    charged = _charged(budgets, now_s)
    ahead = {one.budget.pk: _ahead(one.budget, charged[one.budget.pk], now_s) for one in used}
    rows = [_budget_row(one, scope, ahead[one.budget.pk]) for one in used]
    return sheet_of(
        _BUDGETS, rows, ask, _budget_checks(used), version=books.version, state=books.state,
        notes=[
            (_name(one.budget, scope), words)
            for one in used
            for words in _notes(one, ahead[one.budget.pk])
        ],
    )  # fmt: skip


def _name(budget: Budget, scope: Scope) -> str:
    whose = "/".join(filter(None, _owner(budget, scope))) or "the organisation"
    return f"Budget {budget.pk} of {whose}"


def _notes(used: Used, ahead: _Ahead) -> list[str]:
    """What a reader has to know of one budget beside its figures."""
    budget = used.budget
    found = [f"{words[:1].upper()}{words[1:]}" for words in said_of(budget, used.last)]
    if used.last is not None and used.counted != used.told:
        found.append(
            f"Limits count {figure_of(budget, used.counted)}, the ledger says "
            f"{figure_of(budget, used.told)} since its last comparison on "
            f"{moment_words(used.last.until)}."
        )
    if used.last is None and budget.spent:
        found.append("It was not held against the ledger yet; that happens every night.")
    if ahead.is_endless and ahead.mean:
        by_then = figure_of(budget, used.actual + budget.committed + ahead.mean)
        found.append(
            f"It has no end, so only this month is foreseen: by {day_words(ahead.until)} it comes "
            f"to {by_then} if the days left are like those of the last four weeks."
        )
    return found


def _budget_checks(used: list[Used]) -> list[Check]:
    """Counters against what they count, and against the ledger, to the step of money.

    What was posted since the last true-up shows as a difference until the next.
    """
    found = []
    for is_money in (False, True):
        own = [one for one in used if one.budget.is_money is is_money]
        if not own and (is_money or used):
            continue
        compared = [one for one in own if one.last is not None]
        ties = (
            (
                "what limits count = the ledger",
                sum(one.counted for one in compared),
                sum(one.told for one in compared),
            ),
            (
                "actual = settled holds + what it began with + true-ups",
                sum(one.budget.spent for one in own),
                sum(one.settled + one.moved for one in own),
            ),
            (
                "committed = open holds + pledges",
                sum(one.budget.committed for one in own),
                sum(one.held for one in own),
            ),
        )
        # Where none was compared yet, as its note says, nothing is held against the ledger.
        for words, left, right in ties[0 if compared or not own else 1 :]:
            if is_money:
                unit = own[0].budget.currency
                found.append(Check(words, from_steps(left), from_steps(right), unit))
            else:
                found.append(Check(words, left, right, "GPU-s"))
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


def _charged(budgets: list[Budget], now_s: int) -> dict[int, dict[int, int]]:
    """By budget and day what its account was charged, in its own measure."""
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


@dataclass(frozen=True, slots=True)
class _Ahead:
    """What a budget takes from now `until` a moment: the end of its period, or of this month where
    that stands for none (`is_endless`)."""

    until: datetime
    is_endless: bool
    lowest: int
    mean: int
    highest: int


def _ahead(budget: Budget, by_date: dict[int, int], now_s: int) -> _Ahead:
    now = datetime.fromtimestamp(now_s - 1, UTC)
    until = foreseen_until(budget, now)
    from_s, until_s = (int(at.timestamp()) for at in (budget.valid_from, until))
    is_without = is_endless(budget.valid_until, budget.valid_from)
    return _Ahead(until, is_without, *_forecast(by_date, now_s, from_s, until_s))


def _budget_row(used: Used, scope: Scope, ahead: _Ahead) -> Cells:
    budget = used.budget
    so_far = used.actual + budget.committed
    share = None
    if budget.limit:
        share = (Decimal(so_far) * 100 / budget.limit).quantize(Decimal("0.01"))
    head = (budget.pk, *_owner(budget, scope), budget.valid_from, budget.valid_until)
    forecast: tuple[int | None, ...] = (None,) * 4
    if not ahead.is_endless:
        mean = so_far + ahead.mean
        forecast = (so_far + ahead.lowest, mean, so_far + ahead.highest, mean - budget.limit)
    nothing = (None,) * 7
    tail = (share, budget.currency if budget.is_money else "", used.until)
    if budget.is_money:
        limit, committed = from_steps(budget.limit), from_steps(budget.committed)
        amounts = (None if each is None else from_steps(each) for each in forecast)
        figures = (limit, used.amount, committed, *amounts)
        return (*head, str(budget.enforcement), *nothing, *figures, *tail)
    counts = (budget.limit, used.actual, budget.committed, *forecast)
    return (*head, str(budget.enforcement), *counts, *nothing, *tail)


def _forecast(
    by_date: dict[int, int], now_s: int, from_s: int, until_s: int
) -> tuple[int, int, int]:
    """Lowest, mean and highest use of the time left of a period, weekday by weekday; whole numbers,
    rounded down."""
    today = now_s - now_s % DAY_S
    by_weekday: dict[int, list[int]] = {}
    for back in range(1, _TRAILING_DAYS + 1):
        day = today - back * DAY_S
        by_weekday.setdefault(day // DAY_S % 7, []).append(by_date.get(day, 0))
    uses = {
        weekday: (min(known), sum(known) // len(known), max(known))
        for weekday, known in by_weekday.items()
    }
    start_s = max(now_s, from_s)
    # A period may end in the year 9999: seven days in a row are taken at once.
    weeks, rest_s = divmod(max(0, until_s - start_s), 7 * DAY_S)
    sums = [weeks * sum(use[place] for use in uses.values()) for place in range(3)]
    for first, until in cut(start_s, start_s + rest_s, ()):
        for place, use in enumerate(uses[first // DAY_S % 7]):
            sums[place] += use * (until - first) // DAY_S
    return sums[0], sums[1], sums[2]


REPORTS = (
    Report(
        "budget-actual", "Budget against actual", "What is spent, committed and to be expected.",
        "account × budget", _BUDGETS, Who.BOOKS | Who.TEAMS, _budget_actual,
        frozenset({"team", "project"}), ("budget", "actual_gpu_seconds"),
        tuple(
            Bars((f"actual_{unit}", f"committed_{unit}"), (f"budget_{unit}", f"forecast_{unit}"))
            for unit in ("gpu_seconds", "amount")
        ),
        adds=_ADDS,
    ),
)  # fmt: skip
