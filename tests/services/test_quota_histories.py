"""F17-F19 on real rows: short lives of a cluster under quotas, through the scheduler's own cycles.

25 in the usual run, 500 more with `-m long`; F20 the same in `test_budget_histories`.
"""

from __future__ import annotations

import random
from collections import Counter
from contextlib import suppress

import pytest

from accounts.errors import Invalid
from scheduler.engine.policy import Order, Policy
from scheduler.loop.cycle import Scheduler
from scheduler.loop.loading import load_snapshot
from scheduler.models import Allocation, Attempt, Job, Node, Quota, SchedulerLease
from scheduler.services.sharing.guard import counts_now
from scheduler.services.sharing.limits import set_quota
from scheduler.states import EndReason, JobState
from tests import scenes
from tests.engine.lending import assert_borrowed_is_lent, assert_no_limit_exceeded
from tests.scenes import NOON, at, ended, running, submit, sync

pytestmark = pytest.mark.django_db
POLICY = Policy(preempts=True, min_run_s=60, rest_s=0, order=Order.FAIR)
STEPS, SETTLING = 2, 3


class History:
    """Submits, cycles and ends of a cluster of four GPUs; two teams with a project each."""

    def __init__(self, seed: int, root, people) -> None:
        self.draws = random.Random(seed)
        scenes.build_cluster(root, nodes=2, gpus=2)
        SchedulerLease.objects.update(expires_at=NOON)
        self.people, self.now_s = people, 1
        self.scheduler = Scheduler(holder="test", policy=POLICY)
        self.guarantees: dict[int, int] = {}
        first = self.draws.randint(0, 4)
        given = (first, self.draws.randint(0, 4 - first))
        for (_, project), own in zip(people, given, strict=True):
            self.guarantees[project.team_id] = own
            most = self.draws.choice((None, None, max(own, 1), 3 if own < 4 else None))
            borrow = self.draws.choice((None, None, 1))
            lend = self.draws.choice((None, None, 0)) if own else None
            # A quota that says nothing is refused, and a limit that another one reaches first.
            most = most if own or borrow is not None else most or 3
            borrow = None if most is not None else borrow
            set_quota(actor=root, owner=project.team, guaranteed=own, maximum=most,
                      borrow_limit=borrow, lend_limit=lend, now=at(0))  # fmt: skip
            # More than the team may have is refused.
            with suppress(Invalid):
                set_quota(
                    actor=root, owner=project, maximum=self.draws.choice((2, 3, 4)), now=at(0)
                )

    def step(self) -> None:
        for _ in range(self.draws.randint(1, 3)):
            person, project = self.draws.choice(self.people)
            submit(person, project, now=at(self.now_s))
        self.turn()
        if self.draws.random() < 0.5:
            live = Attempt.objects.filter(ended_at__isnull=True).order_by("pk")
            if live:
                self.end(self.draws.choice(list(live)), EndReason.COMPLETED)

    def turn(self) -> None:
        """A cycle; what starts runs, what was asked to make room does."""
        self.now_s += self.draws.randint(61, 500)
        Node.objects.update(last_seen_at=at(self.now_s))
        before = load_snapshot(at(self.now_s)).snapshot
        self.scheduler.run_cycle(at(self.now_s))
        then = load_snapshot(at(self.now_s)).snapshot
        assert_no_limit_exceeded(before, then)
        assert_borrowed_is_lent(then)
        check_counts()
        for attempt in Attempt.objects.filter(ended_at__isnull=True).order_by("pk"):
            if attempt.stop_reason:
                self.end(attempt, EndReason.PREEMPTED)
            elif attempt.started_at is None:
                sync(attempt.placements.get().node, running(attempt), now=at(self.now_s))

    def end(self, attempt: Attempt, reason: EndReason) -> None:
        code = 0 if reason is EndReason.COMPLETED else None
        report = ended(attempt, reason=reason, exit_code=code)
        sync(attempt.placements.get().node, report, now=at(self.now_s))
        check_counts()


def check_counts() -> None:
    """F17: the counters of every quota against allocations one by one, and against its maximum."""
    for quota in Quota.objects.select_related("account"):
        assert {"held": quota.held, "held_milli": quota.held_milli} == counts_now(quota)
        assert quota.maximum is None or quota.held <= quota.maximum


def check_owners(history: History) -> None:
    """F18: nothing new came for a while, so whoever still waits has all that is its own."""
    held = Counter(
        Allocation.objects.filter(released_at__isnull=True).values_list(
            "placement__attempt__job__project__team", flat=True
        )
    )
    for job in Job.objects.filter(state=JobState.QUEUED).select_related("project"):
        team = job.project.team_id
        rows = Quota.objects.filter(account__project=job.project, maximum__isnull=False)
        limits = [most for most in rows.values_list("maximum", flat=True) if most is not None]
        assert held[team] >= min([history.guarantees[team], *limits])


def play(seed: int, root, people) -> History:
    history = History(seed, root, people)
    for _ in range(STEPS):
        history.step()
    for _ in range(SETTLING):
        history.turn()
    check_owners(history)
    return history


@pytest.fixture
def people(alice, carol, project, other_project):
    return ((alice, project), (carol, other_project))


@pytest.mark.parametrize("seed", range(25))
def test_quotas_hold_and_owners_get_their_own(seed, root, people):
    play(seed, root, people)
    assert Attempt.objects.exists()


@pytest.mark.long
@pytest.mark.parametrize("seed", range(25, 525))
def test_quotas_hold_and_owners_get_their_own_in_many_histories(seed, root, people):
    play(seed, root, people)
