"""F20 on generated histories: never more committed and spent than there is, released once each."""

from __future__ import annotations

import random
from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import transaction

from accounts.services import set_rate
from scheduler.models import Attempt, Budget, BudgetHold, UsageEntry
from scheduler.money import steps_per_s
from scheduler.services.attempts import abandon_placements, locked_live_attempt
from scheduler.services.budgets.watching import watch_budgets
from scheduler.services.placing import PlacedOn, Start, start_attempts
from scheduler.services.sharing.budgets import set_budget
from scheduler.services.sharing.committing import settle_budgets
from scheduler.services.stopping import request_stop
from scheduler.states import EndReason
from tests import scenes
from tests.scenes import MODEL, NOON, TOKEN, at, submit

pytestmark = pytest.mark.django_db
PRICES = ("3.60", "0.0001", "7.1234")
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
        self.draws = random.Random(seed)
        self.root, self.team, self.project = root, team, project
        self.now_s = 0
        self.cluster = scenes.build_cluster(root, nodes=2, gpus=3)
        self.is_money = bool(seed % 2)
        self.limit = 12
        for owner, limit in ((None, 30), (team, self.limit), (project, 9)):
            self.give(owner, limit)

    def give(self, owner, limit: int) -> None:
        measure = {"amount": Decimal(limit)} if self.is_money else {"gpu_hours": limit}
        set_budget(
            actor=self.root, owner=owner, **measure, valid_from=NOON - timedelta(days=2),
            valid_until=NOON + timedelta(days=200), now=at(self.now_s),
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
        watch_budgets(now=at(self.now_s))

    def _start(self) -> None:
        node = self.cluster.node(self.draws.randint(1, 2))
        free = scenes._free(node, 3)
        gpus = self.draws.randint(1, 3)
        if len(free) < gpus:
            return
        limit = f"{self.draws.randint(1, 120)}m"
        job = submit(self.root, self.project, now=at(self.now_s), gpus_per_node=gpus,
                     time_limit=limit)  # fmt: skip
        placed = PlacedOn(node.pk, 0, free[:gpus], 1, 16)
        start_attempts([Start(job.pk, (placed,))], lease_token=TOKEN, now=at(self.now_s))

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
        assert budget.committed_s == sum(one.gpu_seconds for one in open_holds)
        assert budget.committed_money == sum(one.money for one in open_holds)
        assert budget.spent_s == sum(one.spent_s or 0 for one in holds)
        assert budget.spent_money == sum(one.spent_money or 0 for one in holds)
        assert budget.committed + budget.spent <= budget.limit
        live = set(Attempt.objects.filter(ended_at__isnull=True).values_list("pk", flat=True))
        assert {one.attempt_id for one in open_holds} == live
        for one in holds:
            if one.settled_at is not None:
                _check_settled(one, is_money=budget.is_money)


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
