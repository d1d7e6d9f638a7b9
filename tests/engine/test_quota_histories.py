"""F17-F20 over seeded histories: turns of a small cluster, with starts, stops and ends between.

The pure model of quotas is the engine: what it plans is carried out on a drawing, and everything is
counted anew here. Of budgets it keeps what may be committed; that each commitment is released once
is the database's part (`tests/services/test_quota_histories.py`, `test_budget_histories.py`).
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace

import pytest

from scheduler.engine.cycle import plan_cycle
from scheduler.engine.plan import Plan
from scheduler.engine.policy import Order
from scheduler.engine.snapshot import NONE, Snapshot
from scheduler.states import Tier
from tests.builders import DrawnJob, draw, job
from tests.engine.lending import assert_borrowed_is_lent, assert_no_limit_exceeded
from tests.engine.owners import DrawnLimit, after
from tests.engine.stopping import TIERS
from tests.engine.test_reclaiming import assert_owners_have_room, lent

TREE = ("org", "org/t", "org/t/p", "org/t/q", "org/u", "org/u/r")
LINE = {"t": ("org", "t"), "p": ("org", "t", "p"), "q": ("org", "t", "q"), "u": ("org", "u"),
        "r": ("org", "u", "r")}  # fmt: skip
MARKS = "0123456789abcdefghijklmnopqrstuvwxyz"
TURNS, NODES, GPUS = 2, 2, 3


@dataclass
class History:
    """What stands on the drawing, who owns it, and the budgets' own book."""

    chance: random.Random
    limits: list[DrawnLimit]
    budgets: dict[str, int] = field(default_factory=dict)
    marks: list[list[str]] = field(default_factory=lambda: [["."] * GPUS for _ in range(NODES)])
    running: dict[int, DrawnJob] = field(default_factory=dict)
    waiting: dict[int, DrawnJob] = field(default_factory=dict)
    owner: dict[int, str] = field(default_factory=dict)
    spent: Counter[str] = field(default_factory=Counter)
    most_gpus: int = 2

    def taken(self, account: str) -> int:
        """Spent, and the worst case of all that runs."""
        mine = [one for one in self.running.values() if account in LINE[self.owner[one.id]]]
        return self.spent[account] + sum(one.gpus * one.limit_s for one in mine)

    def come(self) -> None:
        for _ in range(self.chance.randrange(1, 6)):
            number = len(self.owner) + 1
            shape = f"1x{self.chance.randint(1, self.most_gpus)}"
            limit_s, tier = self.chance.choice((60, 600, 3_600)), self.chance.choice(tuple(Tier))
            self.owner[number] = self.chance.choice(tuple(LINE))
            self.waiting[number] = job(number, shape, limit_s=limit_s, tier=tier)

    def go(self, number: int) -> None:
        """An end: its worst case is released, what it used of it is spent."""
        gone = self.running.pop(number)
        used_s = gone.gpus * self.chance.randint(0, gone.limit_s)
        self.spent.update(dict.fromkeys(LINE[self.owner[number]], used_s))
        for line in self.marks:
            line[:] = ["." if mark == MARKS[number] else mark for mark in line]

    def picture(self) -> Snapshot:
        left = {name: limit - self.taken(name) for name, limit in self.budgets.items()}
        tree = [
            f"{path} budget={left[name]}" if (name := path.split("/")[-1]) in left else path
            for path in TREE
        ]
        running = list(self.running.values())
        return lent(
            draw(
                *(f"n{row} {''.join(line)}" for row, line in enumerate(self.marks)),
                jobs=list(self.waiting.values()),
            ),
            *running,
            owners={n: self.owner[n] for n in (*self.running, *self.waiting)},
            tree=tuple(tree),
            limits=self.limits,
            ran_s=[float(self.chance.choice((10, 700, 9_000))) for _ in running],
        )

    def carry_out(self, plan: Plan) -> None:
        for start in plan.starts:
            self.running[start.job] = self.waiting.pop(start.job)
            for placed in start.placements:
                for device in placed.devices:
                    place = device - 1001
                    assert self.marks[place // GPUS][place % GPUS] == "."
                    self.marks[place // GPUS][place % GPUS] = MARKS[start.job]


def check_limits(seed: int) -> int:
    """F17, F19, F20: any limits, caps and budgets; returns how many jobs started."""
    chance = random.Random(seed)
    limits = []
    for name in (path.split("/")[-1] for path in TREE):
        if chance.random() < 0.6:
            borrow, lend, most = (chance.choice((NONE, NONE, 0, 1, 2, 4)) for _ in range(3))
            given, model = chance.choice((0, 0, 1, 2)), chance.choice(("", "", "H100"))
            limits.append(DrawnLimit(name, given, borrow, lend, most, "", model))
    budgets = {name: chance.choice((600, 4_000, 9_000)) for name in ("org", "t", "p")}
    history = History(chance, limits, budgets if chance.random() < 0.5 else {})
    for _ in range(TURNS):
        history.come()
        before = history.picture()
        plan = plan_cycle(before, replace(TIERS, preempts=False, order=Order.FAIR))
        then = after(before, plan)
        assert_no_limit_exceeded(before, then)
        assert_borrowed_is_lent(then)
        history.carry_out(plan)
        for name, limit in history.budgets.items():
            assert history.taken(name) <= limit, (seed, name)
        for number in [n for n in history.running if chance.random() < 0.4]:
            history.go(number)
    return len(history.owner) - len(history.waiting)


def check_reclaiming(seed: int) -> int:
    """F18: guarantees of teams within the capacity, jobs of one GPU; returns how many stopped."""
    chance = random.Random(seed)
    first = chance.randint(0, NODES * GPUS)
    given = {"t": first, "u": chance.randint(0, NODES * GPUS - first)}
    limits = [DrawnLimit(team, own) for team, own in given.items() if own]
    history, stopped = History(chance, limits, most_gpus=1), 0
    for _ in range(TURNS):
        history.come()
        before = history.picture()
        policy = replace(TIERS, order=chance.choice((Order.FAIR, Order.FIFO)))
        plan = plan_cycle(before, policy)
        team_of = {number: LINE[name][1] for number, name in history.owner.items()}
        assert_owners_have_room(before, plan, given, team_of)
        victims = {stop.job for stop in plan.stops}
        stopped += len(victims)
        for number in victims:
            history.go(number)
        history.carry_out(plan)
    return stopped


def test_no_history_of_a_thousand_exceeds_a_limit_or_a_budget():
    assert sum(check_limits(seed) for seed in range(1_000)) > 2_000


def test_owners_have_their_room_in_a_thousand_histories():
    assert sum(check_reclaiming(seed) for seed in range(1_000)) > 100


@pytest.mark.long
def test_quotas_and_guarantees_hold_in_ten_thousand_histories():
    for seed in range(1_000, 11_000):
        check_limits(seed)
        check_reclaiming(seed)
