"""Budgets at a start and at its end: commit the worst case, release it once, spend what was taken.

A job with a highest price commits no more money than is left of that.
Called in the transaction of the start, under the locks of the accounts from the root down, and in
the transaction that ends the attempt.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import F, Q, QuerySet, Sum

from accounts.statements import BuiltOnce
from scheduler.models import (
    Account,
    Attempt,
    Budget,
    BudgetHold,
    BudgetPledge,
    CommitsAt,
    Device,
    Enforcement,
    Job,
    UsageEntry,
)
from scheduler.money import MOST_AT_ONCE, MOST_COUNTED, steps_per_s
from scheduler.selectors.sharing.periods import in_force_or_late, is_late
from scheduler.services.rows.counters import raised
from scheduler.services.sharing.prices import dearest_steps, most_of


class BudgetReached(RuntimeError):
    """A start would take an account over `budget`; nothing of its transaction may stay."""

    def __init__(self, words: str, budget: Budget) -> None:
        super().__init__(words)
        self.budget = budget


@dataclass(frozen=True, slots=True)
class WorstCase:
    """An attempt of a job, its accounts (keys) and its devices (ids)."""

    attempt: Attempt
    job: Job
    keys: frozenset[str]
    devices: Sequence[int]

    @property
    def limit_s(self) -> int:
        """For how long it holds them at most."""
        return self.job.time_limit_s

    @property
    def gpu_seconds(self) -> int:
        """All devices for the whole time limit."""
        return len(self.devices) * self.limit_s


def commit_budgets(
    accounts: Sequence[Account], cases: Sequence[WorstCase], *, now: datetime
) -> None:
    """Commit each start's worst case to every budget on its way to the root.

    Raises BudgetReached where a budget that reserves has less left or waits for its next period,
    one that stops is used up, or no price is known for one in money. One statement where there is
    no budget. What a job has pledged of a budget becomes its hold.
    """
    key_of = {account.pk: account.key for account in accounts}
    budgets = list(in_force_or_late(now).filter(account__in=accounts))
    in_money = any(budget.is_money for budget in budgets)
    steps = _steps_of(cases, now) if in_money else {}
    most = {one.attempt.pk: most_of(one.attempt, one.job) for one in cases if in_money}
    pledged = _pledged(budgets, cases)
    holds = []
    for budget in budgets:
        key = key_of[budget.account_id]
        mine = [one for one in cases if key in one.keys and one.gpu_seconds]
        if not mine:
            continue
        if is_late(budget, now):
            raise BudgetReached(f"{key}: its next period's budget is still to be made", budget)
        credits = [pledged.get((one.attempt.job_id, budget.pk)) for one in mine]
        made = [
            _hold_of(one, credit, budget, steps, most.get(one.attempt.pk))
            for one, credit in zip(mine, credits, strict=True)
        ]
        known = [credit for credit in credits if credit is not None]
        more_s = sum(one.gpu_seconds for one in made) - sum(one.gpu_seconds for one in known)
        take(budget, key, more_s, sum(h.money for h in made) - sum(one.money for one in known))
        holds += made
    BudgetHold.objects.bulk_create(holds)
    if pledged:
        BudgetPledge.objects.filter(pk__in=[one.pk for one in pledged.values()]).delete()


def _pledged(
    budgets: Sequence[Budget], cases: Sequence[WorstCase]
) -> dict[tuple[int, int], BudgetPledge]:
    """By job and budget id; no query where no budget commits at the submit.

    Budgets are locked before pledges, from the root down, here as wherever pledges change.
    """
    asked = [budget.pk for budget in budgets if budget.commits_at == CommitsAt.SUBMIT]
    if not asked:
        return {}
    lock_budgets([budget.pk for budget in budgets])
    jobs = [one.attempt.job_id for one in cases if one.gpu_seconds]
    rows = BudgetPledge.objects.select_for_update().filter(budget__in=asked, job__in=jobs)
    return {(one.job_id, one.budget_id): one for one in rows}


def lock_budgets(budgets: Iterable[int]) -> None:
    """Lock the rows of these budgets (ids), from the root down."""
    rows = Budget.objects.select_for_update(of=("self",)).filter(pk__in=list(budgets))
    list(rows.only("pk").order_by("account__depth", "pk"))


def _hold_of(
    case: WorstCase,
    pledge: BudgetPledge | None,
    budget: Budget,
    steps: Mapping[tuple[int, int], int | None],
    most: int | None,
) -> BudgetHold:
    """With `most` money by its highest price, and no more than was pledged for so many GPU-seconds,
    whatever prices say now."""
    hold = BudgetHold(attempt=case.attempt, budget=budget, gpu_seconds=case.gpu_seconds)
    if pledge is None or case.gpu_seconds > pledge.gpu_seconds:
        hold.money = _money(case, budget, steps)
    elif None in (steps.get((case.attempt.pk, device)) for device in case.devices):
        hold.money = pledge.worst_money
    else:
        hold.money = min(_money(case, budget, steps), pledge.worst_money)
    hold.keep_at_most(most)
    return hold


def take(budget: Budget, key: str, gpu_seconds: int, money: int) -> None:
    """Raise the counts, by an UPDATE that holds only while the budget lets it.

    Lowering them always holds. Raises BudgetReached.
    """
    row = Budget.objects.filter(pk=budget.pk)
    if max(gpu_seconds, money) > MOST_AT_ONCE:
        raise BudgetReached(f"{key}: its budget cannot count so much", budget)
    if money > 0:
        row = row.filter(committed_money__lte=MOST_COUNTED - money, spent_money__lte=MOST_COUNTED)
    if gpu_seconds <= 0 and money <= 0:
        pass  # A pledge covers it, or it becomes less.
    elif budget.enforcement == Enforcement.HARD_STOP:
        row = row.filter(spent_out_at__isnull=True)
    elif budget.enforcement == Enforcement.RESERVE and budget.is_money:
        row = row.filter(Q(money__gte=F("committed_money") + F("spent_money") + money))
    elif budget.enforcement == Enforcement.RESERVE:
        row = row.filter(Q(gpu_seconds__gte=F("committed_s") + F("spent_s") + gpu_seconds))
    if not row.update(
        committed_s=F("committed_s") + gpu_seconds, committed_money=F("committed_money") + money
    ):
        raise BudgetReached(f"{key}: its budget does not pay for {gpu_seconds} GPU-s", budget)


def _money(case: WorstCase, budget: Budget, steps: Mapping[tuple[int, int], int | None]) -> int:
    """The case in steps of money; 0 for a budget in GPU-seconds."""
    if not budget.is_money:
        return 0
    prices = [steps[case.attempt.pk, device] for device in case.devices]
    if None in prices and budget.enforcement != Enforcement.WARN:
        raise BudgetReached("no price is set for its GPUs, and its budget is in money", budget)
    return sum(price or 0 for price in prices) * case.limit_s


def _steps_of(cases: Sequence[WorstCase], now: datetime) -> dict[tuple[int, int], int | None]:
    """By attempt and device: steps of money per second, as its team pays; three queries."""
    pairs = [(case.attempt.pk, device) for case in cases for device in case.devices]
    devices = Device.objects.filter(pk__in={device for _, device in pairs})
    model_of = dict(devices.values_list("pk", "model"))
    attempts = Attempt.objects.filter(pk__in=[case.attempt.pk for case in cases])
    team_of = dict(attempts.values_list("pk", "job__project__team_id"))
    asked = {pair: (team_of[pair[0]], model_of[pair[1]]) for pair in pairs}
    prices = dearest_steps(asked.values(), now=now)
    return {pair: prices[whose] for pair, whose in asked.items()}


def hold_again(attempt: Attempt, job: Job, then_s: int) -> None:
    """Commit what a live attempt of the job, loaded as it is but for its time limit, takes at worst
    with a limit of `then_s` and its highest price.

    Raises BudgetReached where a budget on the way has less left.
    """
    was_s, most = job.time_limit_s, most_of(attempt, job)
    holds = BudgetHold.objects.filter(attempt=attempt, settled_at__isnull=True)
    holds = holds.select_related("budget__account")
    for hold in holds.order_by("budget__account__depth", "budget_id"):
        # Both were made as something times the limit, so the division is exact.
        had_s, had = hold.gpu_seconds, hold.money
        hold.gpu_seconds += had_s * (then_s - was_s) // was_s
        whole = hold.worst_money
        hold.whole_money = whole + whole * (then_s - was_s) // was_s
        hold.keep_at_most(most)
        take(hold.budget, hold.budget.account.key, hold.gpu_seconds - had_s, hold.money - had)
        hold.save(update_fields=["gpu_seconds", "money", "whole_money"])


def settle_all(attempts: Sequence[Attempt], *, now: datetime) -> None:
    """`settle_budgets` for each; one statement where no budget was committed."""
    owing = {attempt for (attempt,) in _OWING.rows([attempt.pk for attempt in attempts])}
    for attempt in attempts:
        if attempt.pk in owing:
            settle_budgets(attempt, now=now)


def _owed_by(attempts: Sequence[int]) -> QuerySet[BudgetHold, tuple[Any, ...]]:
    holds = BudgetHold.objects.filter(attempt_id__in=attempts, settled_at__isnull=True)
    return holds.order_by().values_list("attempt_id")


_OWING = BuiltOnce(_owed_by)


def settle_budgets(attempt: Attempt, *, now: datetime) -> None:
    """Release what the attempt committed and spend what it took, exactly once.

    Of a budget that reserves it spends at most what it had committed: what an attempt held beyond
    its time limit, while it started or stopped or its node was lost, is on the bill and not on the
    budget. What was refunded is not spent.
    """
    holds = BudgetHold.objects.filter(attempt=attempt, settled_at__isnull=True)
    holds = holds.select_related("budget")
    for hold in holds.order_by("budget__account__depth", "budget_id"):
        used_s, used_money = used_by(UsageEntry.objects.filter(attempt=attempt))
        if hold.budget.enforcement == Enforcement.RESERVE:
            used_s, used_money = min(used_s, hold.gpu_seconds), min(used_money, hold.money)
        if not hold.budget.is_money:
            used_money = 0
        once = BudgetHold.objects.filter(pk=hold.pk, settled_at__isnull=True)
        if once.update(settled_at=now, spent_s=used_s, spent_money=used_money):
            Budget.objects.filter(pk=hold.budget_id).update(
                committed_s=F("committed_s") - hold.gpu_seconds,
                spent_s=F("spent_s") + used_s,
                committed_money=F("committed_money") - hold.money,
                spent_money=raised("spent_money", used_money),
            )


def used_by(entries: QuerySet[UsageEntry]) -> tuple[int, int]:
    """GPU-seconds and steps of money of charged time, refunds taken off; exact, one query."""
    rows = entries.order_by().values_list("unit_price").annotate(s=Sum("gpu_seconds"))
    found = [(seconds, steps_per_s(price)) for price, seconds in rows]
    gpu_seconds = sum(seconds for seconds, _ in found)
    money = sum(seconds * steps for seconds, steps in found)
    return max(0, gpu_seconds), min(max(0, money), MOST_COUNTED)
