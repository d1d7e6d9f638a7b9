"""F20 on generated histories: never more committed and spent than there is, released once each,
and what is spent is what the ledger says whenever it was asked.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from contextlib import suppress
from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import transaction

from accounts.models import Rate
from accounts.services import set_rate
from scheduler.models import (
    Attempt,
    Budget,
    BudgetHold,
    BudgetPledge,
    BudgetTrueUp,
    CommitsAt,
    DeviceSegment,
    Job,
    UsageEntry,
)
from scheduler.money import STEPS, steps_per_s
from scheduler.services.attempts import abandon_placements, locked_live_attempt
from scheduler.services.books import true_up_budgets
from scheduler.services.budgets.pledges import settle_pledges
from scheduler.services.budgets.watching import watch_budgets
from scheduler.services.changing.limits import set_time_limit
from scheduler.services.changing.prices import Pricing, set_max_cost
from scheduler.services.errors import Conflict, Invalid
from scheduler.services.jobs import cancel_job
from scheduler.services.placing import Start, start_attempts
from scheduler.services.rows.placed import PlacedOn
from scheduler.services.sharing.budgets import BudgetRules, set_budget
from scheduler.services.sharing.committing import settle_budgets
from scheduler.services.stopping import request_stop
from scheduler.spec import SpecInvalid
from scheduler.states import END_RULES, WAITING_JOB_STATES, EndReason, JobState
from tests import scenes
from tests.scenes import MODEL, NOON, TOKEN, at, submit

pytestmark = pytest.mark.django_db
PRICES = ("3.60", "0.000001", "7.123457")
# Highest prices of jobs, each enough for a minute of three GPUs at the dearest one.
MOST = (None, "0.6", "2.5", "9")
ENDS = (
    EndReason.EXIT_CODE,
    EndReason.CANCELLED_BY_USER,
    EndReason.PREEMPTED,
    EndReason.NODE_LOST,
    EndReason.TIME_LIMIT,
)


class History:
    """Starts, ends of every kind, prices that change and budgets that are raised and lowered."""

    def __init__(self, seed: int, root, team, project) -> None:
        self.draws, self.asks = random.Random(seed), random.Random(-seed - 1)
        self.root, self.team, self.project = root, team, project
        self.now_s = 0
        self.cluster = scenes.build_cluster(root, nodes=2, gpus=3)
        self.is_money = bool(seed % 2)
        self.commits_at = CommitsAt.START if seed % 3 else CommitsAt.SUBMIT
        self.limit = 12
        for owner, limit in ((None, 30), (team, self.limit), (project, 9)):
            self.give(owner, limit)

    def give(self, owner, limit: int) -> None:
        measure = {"amount": Decimal(limit)} if self.is_money else {"gpu_hours": limit}
        set_budget(
            actor=self.root, owner=owner, **measure, valid_from=NOON - timedelta(days=2),
            valid_until=NOON + timedelta(days=200), now=at(self.now_s),
            rules=BudgetRules(commits_at=self.commits_at if owner else CommitsAt.START),
        )  # fmt: skip

    def step(self) -> None:
        self.now_s += self.draws.randint(0, 1500)
        what = self.draws.random()
        if what < 0.5:
            self._start()
        elif what < 0.9:
            self._end()
        elif what < 0.95:
            set_rate(
                actor=self.root, device_model=MODEL, valid_from=at(self.now_s),
                price_per_gpu_hour=Decimal(self.draws.choice(PRICES)), restated_for="as if then",
)  # fmt: skip
        else:
            self.limit += 2
            self.give(self.team, self.limit)
        if self.asks.random() < 0.3:
            true_up_budgets(now=at(self.now_s))
            check_against_segments(self.is_money, self.now_s)
        if self.commits_at == CommitsAt.SUBMIT:
            self._wait()
        settle_pledges(now=at(self.now_s))
        watch_budgets(now=at(self.now_s))

    def _start(self) -> None:
        node = self.cluster.node(self.draws.randint(1, 2))
        free = scenes._free(node, 3)
        gpus = self.draws.randint(1, 3)
        if len(free) < gpus:
            return
        limit = f"{self.draws.randint(1, 120)}m"
        try:
            job = submit(self.root, self.project, now=at(self.now_s), gpus_per_node=gpus,
                         time_limit=limit, max_cost=self.asks.choice(MOST))  # fmt: skip
        except SpecInvalid:
            assert self.commits_at == CommitsAt.SUBMIT
            return
        placed = PlacedOn(node.pk, 0, free[:gpus], 1, 16)
        start_attempts([Start(job.pk, (placed,))], lease_token=TOKEN, now=at(self.now_s))

    def _wait(self) -> None:
        """Submit one that waits, cancel one, change one's time limit or highest price."""
        what, now = self.asks.random(), at(self.now_s)
        waiting = list(Job.objects.filter(state__in=WAITING_JOB_STATES).order_by("pk"))
        with suppress(SpecInvalid, Conflict, Invalid):
            if what < 0.5 or not waiting:
                submit(self.root, self.project, now=now, gpus_per_node=self.asks.randint(0, 3),
                       time_limit=f"{self.asks.randint(1, 120)}m")  # fmt: skip
            elif what < 0.7:
                cancel_job(actor=self.root, job=self.asks.choice(waiting), now=now)
            elif what < 0.9:
                job, seconds = self.asks.choice(waiting), self.asks.randint(60, 7200)
                set_time_limit(actor=self.root, job=job, time_limit_s=seconds, now=now)
            else:
                job, most = self.asks.choice(waiting), self.asks.choice(MOST)
                asked = Pricing(Decimal(most)) if most else Pricing(is_taken_back=True)
                set_max_cost(actor=self.root, job=job, asked=asked, now=now)

    def _end(self) -> None:
        live = list(Attempt.objects.filter(ended_at__isnull=True).values_list("pk", flat=True))
        if not live:
            return
        with transaction.atomic():
            attempt = locked_live_attempt(self.draws.choice(live))
            assert attempt is not None
            placements = attempt.placements.select_related("node")
            reason = self.draws.choice(ENDS)
            if reason is EndReason.CANCELLED_BY_USER:
                request_stop(attempt=attempt, reason=reason, now=at(self.now_s), actor=self.root)
            abandon_placements(attempt, placements, reason, "as drawn", at(self.now_s))
            # A second word of the same end releases nothing more.
            settle_budgets(attempt, now=at(self.now_s))


def check(history: History) -> None:
    """The counters against the holds one by one, and against what was charged."""
    for budget in Budget.objects.all():
        holds = list(BudgetHold.objects.filter(budget=budget))
        open_holds = [one for one in holds if one.settled_at is None]
        pledges = list(BudgetPledge.objects.filter(budget=budget).select_related("job"))
        kept: list[BudgetHold | BudgetPledge] = [*open_holds, *pledges]
        assert budget.committed_s == sum(one.gpu_seconds for one in kept)
        assert budget.committed_money == sum(one.money for one in kept)
        assert all(one.job.state in WAITING_JOB_STATES for one in pledges)
        if budget.is_money:
            _check_priced(kept)
        if budget.commits_at == CommitsAt.SUBMIT:
            line = Job.objects.filter(state=JobState.QUEUED, gpus_per_node__gt=0)
            assert {one.job_id for one in pledges} >= set(line.values_list("pk", flat=True))
        moves = list(BudgetTrueUp.objects.filter(budget=budget))
        settled_s = sum(one.spent_s or 0 for one in holds)
        settled = sum(one.spent_money or 0 for one in holds) if budget.is_money else settled_s
        assert budget.spent == settled + sum(one.difference for one in moves)
        trued = sum(one.difference for one in moves)
        # What lies above the limit is what the ledger charged beyond what ends had counted.
        assert budget.committed + budget.spent <= budget.limit + max(0, trued)
        live = set(Attempt.objects.filter(ended_at__isnull=True).values_list("pk", flat=True))
        assert {one.attempt_id for one in open_holds} == live
        for one in holds:
            if one.settled_at is not None:
                _check_settled(one, is_money=budget.is_money)


def _check_priced(kept: list[BudgetHold | BudgetPledge]) -> None:
    """No more than is left of highest prices; who has none commits its whole time limit."""
    for one in kept:
        job = one.job if isinstance(one, BudgetPledge) else one.attempt.job
        earlier = UsageEntry.objects.filter(job=job)
        if isinstance(one, BudgetHold):
            earlier = earlier.exclude(attempt=one.attempt)
        spent = int(sum(row.cost for row in earlier) * STEPS)
        if job.max_cost_steps is not None:
            assert one.money <= max(0, job.max_cost_steps - spent)
        assert one.money <= one.worst_money
        assert (one.whole_money is None) == (one.money == one.worst_money)


def check_against_segments(is_money: bool, now_s: int) -> None:
    """Second by second from the segments of what has ended, with the price of each second; what
    the platform pays for is in no budget."""
    prices = sorted(Rate.objects.values_list("valid_from", "pk", "price_per_gpu_hour"))
    began = [math.ceil(moment.timestamp()) for moment, _, _ in prices]
    seconds, steps = 0, 0
    until_s = int(at(now_s).timestamp())
    held = DeviceSegment.objects.filter(
        attempt__ended_at__isnull=False, bucket__in=("run", "overhead")
    ).values_list("start_s", "end_s", "attempt__end_reason")
    for start_s, end_s, reason in held:
        if END_RULES[EndReason(reason)].billable:
            ended_s = end_s or until_s
            seconds += ended_s - start_s
            for second in range(start_s, ended_s):
                steps += steps_per_s(prices[bisect_right(began, second) - 1][2])
    for budget in Budget.objects.all():
        # Lines round their hours to nine places, so amounts to a few steps each.
        assert abs(budget.spent - (steps if is_money else seconds)) <= (4_000 if is_money else 0)


def _check_settled(hold: BudgetHold, *, is_money: bool) -> None:
    entries = UsageEntry.objects.filter(attempt=hold.attempt_id)
    rows = list(entries.values_list("gpu_seconds", "unit_price"))
    charged_s = sum(seconds for seconds, _ in rows)
    charged = sum(seconds * steps_per_s(price) for seconds, price in rows)
    assert hold.spent_s == min(charged_s, hold.gpu_seconds)
    if is_money:
        assert hold.spent_money == min(charged, hold.money)


def play(seed: int, steps: int, root, team, project) -> History:
    history = History(seed, root, team, project)
    for _ in range(steps):
        history.step()
        check(history)
    return history


@pytest.mark.parametrize("seed", range(25))
def test_committed_and_spent_stay_within_every_budget(seed, root, team, project):
    play(seed, 6, root, team, project)
    assert BudgetHold.objects.exists()


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 600))
def test_committed_and_spent_stay_within_every_budget_in_many_histories(seed, root, team, project):
    play(seed, 40, root, team, project)
