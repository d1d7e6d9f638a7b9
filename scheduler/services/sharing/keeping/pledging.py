"""Budgets that commit at the submit: jobs pledge their worst case while they wait.

A pledge is taken by the same `UPDATE` as a hold, from the root down, in the transaction of the
submit. At the start it becomes the attempt's hold (`committing`); when the job waits no more it is
given back, exactly once: whoever deletes its row, under that row's lock, lowers the count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime

from django.db.models import F, QuerySet

from accounts.models import Project
from scheduler.models import (
    Budget,
    BudgetPledge,
    CommitsAt,
    Enforcement,
    Job,
)
from scheduler.money import from_steps
from scheduler.selectors.sharing.periods import in_force
from scheduler.services.sharing.committing import BudgetReached, lock_budgets, take
from scheduler.services.sharing.prices import dearest_of, spent_of
from scheduler.services.sharing.tree import lines_of, whose_account
from scheduler.spec import SpecInvalid, SpecProblem
from scheduler.states import PRICED_WORDS, hours_words, until_words

_S_PER_HOUR = 3600


class PledgeRefused(BudgetReached):
    """What `budget` has left is less than `need`, in its own measure; None: no price is known.
    `is_priced`: that goes by a highest price."""

    def __init__(self, budget: Budget, need: int | None, *, is_priced: bool = False) -> None:
        super().__init__(f"{budget.account}: its budget does not pay for {need} more", budget)
        self.need = need
        self.is_priced = is_priced

    @property
    def asks(self) -> str:
        """What would have been committed, in words."""
        return "an amount nobody knows" if self.need is None else in_words(self.budget, self.need)

    @property
    def asks_openly(self) -> str:
        """The same, for those as well who may not see what the job costs."""
        return PRICED_WORDS if self.is_priced else self.asks

    @property
    def left(self) -> str:
        """What the budget has left, in words."""
        return in_words(self.budget, left_of(self.budget))


def left_of(budget: Budget) -> int:
    """What may still be committed, in the budget's own measure."""
    return max(0, budget.limit - budget.committed - budget.spent)


def in_words(budget: Budget, figure: int) -> str:
    """A figure of the budget as GPU-hours, or as an amount of its currency."""
    if budget.is_money:
        return f"{from_steps(figure):.2f} {budget.currency}"
    return f"{hours_words(figure)} GPU-hours"


def pledging(now: datetime) -> QuerySet[Budget]:
    """Budgets in force that commit at the submit, from the root down, with their accounts."""
    budgets = in_force(now).filter(commits_at=CommitsAt.SUBMIT, enforcement=Enforcement.RESERVE)
    return budgets.select_related("account__team", "account__project")


class Worst:
    """What jobs may take at most; prices are looked up once for all that ask for the same GPUs."""

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._price: dict[tuple[object, ...], int | None] = {}
        self._spent: dict[int, int] = {}

    def of(self, job: Job, budget: Budget) -> BudgetPledge:
        """As it would be pledged, not written; raises PledgeRefused where no price is known."""
        pledge = BudgetPledge(job=job, budget=budget, gpu_seconds=job.gpus * job.time_limit_s)
        if budget.is_money:
            steps = self.steps_of(job)
            if steps is None:
                raise PledgeRefused(budget, None)
            pledge.money = steps
            pledge.keep_at_most(self.most_of(job))
        return pledge

    def steps_of(self, job: Job) -> int | None:
        """All GPUs for the whole time limit, in steps of money; None without a price."""
        price = self._dearest(job)
        return None if price is None else job.gpus * job.time_limit_s * price

    def kept_of(self, job: Job) -> int | None:
        """The same, and no more than its highest price lets it: what is committed for it."""
        steps, most = self.steps_of(job), self.most_of(job)
        return steps if steps is None or most is None else min(steps, most)

    def most_of(self, job: Job) -> int | None:
        """What a waiting job has left of its highest price, in steps; None without one."""
        if job.max_cost_steps is None:
            return None
        self.learn([job])
        return max(0, job.max_cost_steps - self._spent.get(job.pk, 0))

    def learn(self, jobs: Iterable[Job]) -> None:
        """Look up together what those have cost so far that have a highest price and were tried;
        one query if there are any."""
        tried = [job.pk for job in jobs if job.max_cost_steps is not None and job.end_reason]
        if unknown := [pk for pk in tried if pk not in self._spent]:
            self._spent |= dict.fromkeys(unknown, 0) | spent_of(unknown)

    def _dearest(self, job: Job) -> int | None:
        """Steps of money per second of the dearest GPU it may get; None if one has no price."""
        team = job.project.team_id
        asked = (team, job.pool_id, job.gpu_model, tuple(job.gpu_models), job.gpu_milli)
        if asked not in self._price:
            models = job.gpu_models or [job.gpu_model]
            self._price[asked] = dearest_of(team, job.pool_id, models, job.gpu_milli, now=self._now)
        return self._price[asked]


def pledge(
    jobs: Sequence[Job],
    budgets: Sequence[Budget],
    *,
    now: datetime,
    worst: Worst | None = None,
) -> list[BudgetPledge]:
    """Commit the worst case of waiting jobs, loaded with their projects: all or none.

    `budgets`: from the root down, with their accounts. Raises PledgeRefused; the caller's
    transaction must not stay then. No statement without budgets; else two, one for each budget
    above the jobs, and two more if one is in money.
    """
    if not budgets:
        return []
    lines = lines_of({(job.project_id, job.project.team_id) for job in jobs})
    worst, rows = worst or Worst(now), list[BudgetPledge]()
    worst.learn(jobs)
    for budget in budgets:
        mine = [
            worst.of(job, budget)
            for job in jobs
            if job.gpus and budget.account.key in lines[job.project_id]
        ]
        whole = sum(one.gpu_seconds for one in mine), sum(one.money for one in mine)
        is_priced = any(one.whole_money is not None for one in mine)
        if mine and _take(budget, *whole, is_priced=is_priced):
            rows += mine
    return BudgetPledge.objects.bulk_create(rows)


def _take(budget: Budget, gpu_seconds: int, money: int, *, is_priced: bool) -> bool:
    """False if the budget was removed meanwhile; raises PledgeRefused."""
    try:
        take(budget, budget.account.key, gpu_seconds, money)
    except BudgetReached:
        try:
            counts = ["committed_s", "spent_s", "committed_money", "spent_money"]
            budget.refresh_from_db(fields=counts)
        except Budget.DoesNotExist:
            return False
        need = money if budget.is_money else gpu_seconds
        raise PledgeRefused(budget, need, is_priced=is_priced) from None
    return True


def pledge_at_submit(jobs: Sequence[Job], budgets: Sequence[Budget], *, now: datetime) -> None:
    """The same for a submit; raises SpecInvalid, which names the budget and what may be done."""
    commits = [one for one in budgets if one.commits_at == CommitsAt.SUBMIT]
    try:
        pledge(jobs, commits, now=now)
    except PledgeRefused as refused:
        project = next(job.project for job in jobs)
        words = _refusal(refused, project, len(jobs), now)
        raise SpecInvalid([SpecProblem("project", words)]) from None


def _refusal(refused: PledgeRefused, project: Project, jobs: int, now: datetime) -> str:
    budget = refused.budget
    whose = whose_account(budget.account, project) or "all teams"
    if refused.need is None:
        return (
            f"the budget of {whose} is in money, and no price is set for the GPUs that this may "
            "get. Ask those who keep the books to set one, or name another GPU model"
        )
    what = "this job" if jobs == 1 else f"these {jobs} jobs"
    asks = refused.asks_openly if jobs == 1 else refused.asks_openly.replace("its", "their")
    ends = until_words(budget.valid_until, now)
    whom = "those who keep the books" if budget.is_money else "an operator"
    if budget.account.project_id is not None:
        whom += " or your team's lead"
    return (
        f"the budget of {whose} has {refused.left} left {ends}, and {what} may take {asks}. Ask "
        f"for less time or fewer GPUs, {_priced(budget)}cancel what waits, or ask {whom} to raise "
        "the budget"
    )


def _priced(budget: Budget) -> str:
    return "give a highest price that is paid for, " if budget.is_money and left_of(budget) else ""


def give_back(jobs: Iterable[int]) -> None:
    """Jobs (ids) that wait no more keep nothing; one statement if they have pledged nothing."""
    _remove(BudgetPledge.objects.filter(job__in=list(jobs)))


def give_back_of(budgets: Collection[int]) -> int:
    """Nobody keeps anything of these budgets (ids) any more; returns how many pledges went."""
    return _remove(BudgetPledge.objects.filter(budget__in=budgets))


def give_back_below(teams: Collection[int], accounts_of: Collection[int]) -> int:
    """Jobs of the teams (ids) keep nothing of what the teams `accounts_of` have."""
    return _remove(
        BudgetPledge.objects.filter(
            job__project__team__in=teams, budget__account__team__in=accounts_of
        )
    )


def give_back_rows(pledges: Collection[int]) -> int:
    """These pledges (ids) are nobody's any more; returns how many went."""
    return _remove(BudgetPledge.objects.filter(pk__in=pledges))


def _remove(which: QuerySet[BudgetPledge]) -> int:
    """Delete the rows under their budgets' locks, and lower the counts from the root down."""
    budgets = set(which.order_by().values_list("budget_id", flat=True))
    if not budgets:
        return 0
    lock_budgets(budgets)
    rows = which.select_related("budget__account").select_for_update(of=("self",))
    found = list(
        rows.filter(budget__in=budgets).order_by("budget__account__depth", "budget_id", "pk")
    )
    if not found:
        return 0
    sums: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for one in found:
        sums[one.budget_id][0] += one.gpu_seconds
        sums[one.budget_id][1] += one.money
    BudgetPledge.objects.filter(pk__in=[one.pk for one in found]).delete()
    for pk, (seconds, money) in sums.items():
        Budget.objects.filter(pk=pk).update(
            committed_s=F("committed_s") - seconds, committed_money=F("committed_money") - money
        )
    return len(found)


def adjust(job: Job, *, now: datetime) -> None:
    """What a waiting job has pledged, for its time limit, GPUs and highest price as they are now.

    At the price it was pledged at. Raises PledgeRefused where a budget has less left.
    """
    most = Worst(now).most_of(job)
    lock_budgets(BudgetPledge.objects.filter(job=job).values_list("budget_id", flat=True))
    rows = BudgetPledge.objects.select_for_update(of=("self",)).filter(job=job)
    rows = rows.select_related("budget__account__team", "budget__account__project")
    for one in rows.order_by("budget__account__depth", "budget_id"):
        had_s, had = one.gpu_seconds, one.money
        one.gpu_seconds = job.gpus * job.time_limit_s
        # It was made as a price times the seconds, so the division is exact.
        one.whole_money = one.worst_money * one.gpu_seconds // had_s
        one.keep_at_most(most)
        is_priced = one.whole_money is not None
        _take(one.budget, one.gpu_seconds - had_s, one.money - had, is_priced=is_priced)
        one.save(update_fields=["gpu_seconds", "money", "whole_money"])
