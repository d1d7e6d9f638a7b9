"""Whoever ends waiting tasks of a throttled array, while its room is given to the next of them;
and others who lock several rows, while somebody locks the same ones in the order of the house."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connections, transaction

from scheduler.models import Attempt, Job, JobSet, Placement
from scheduler.services.bookings import end_booked_jobs, plan_booking
from scheduler.services.budgets.pledges import settle_pledges
from scheduler.services.changing.turns import Turn, order_jobs, turn_job
from scheduler.services.holding.moves import reconsider
from scheduler.services.jobs import cancel_job
from scheduler.services.people.leaving import end_access
from scheduler.services.placing import Start, start_attempts
from scheduler.services.reaping import mark_lost, mark_silent
from scheduler.services.rows.placed import PlacedOn
from scheduler.services.sets import cancel_set
from scheduler.services.sharing.budgets import BudgetRules, set_budget
from scheduler.services.waits import record_waits
from scheduler.states import WaitReason
from tests import scenes
from tests.locks import wait_until_somebody_waits
from tests.scenes import NOON, at, ended, running, start, submit, sync
from tests.seconding import WHY

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.django_db(transaction=True),
]

OVER = at(10 * 3600)


class Reconsidering(threading.Thread):
    """Holds the set, as `reconsider` does first, until somebody waits; then locks what is held."""

    def __init__(self, job_set: JobSet) -> None:
        super().__init__()
        self.job_set, self.has_set = job_set, threading.Event()
        self.held = list(job_set.tasks.filter(state="held").values_list("pk", flat=True))
        self.problem: Exception | None = None

    def run(self) -> None:
        try:
            with transaction.atomic():
                JobSet.objects.select_for_update().get(pk=self.job_set.pk)
                self.has_set.set()
                wait_until_somebody_waits()
                reconsider(self.held, now=at(1))
        except Exception as problem:
            self.problem = problem
        finally:
            connections.close_all()


@pytest.fixture
def array(root, alice, lead, project):
    """Ten tasks in a booking, two at a time, so that eight are held."""
    cluster = scenes.build_cluster(root, gpus=4)
    booking = plan_booking(
        actor=lead,
        owner=project,
        pool=cluster.pool,
        nodes=1,
        from_at=at(3600),
        until_at=at(9 * 3600),
        now=NOON,
    )
    return submit(alice, project, array="0-9%2", booking=str(booking.pk)).job_set


ENDS = {
    "the array": lambda array, root: cancel_set(actor=root, reason=WHY, job_set=array),
    "its last task": lambda array, root: cancel_job(
        actor=root, reason=WHY, job=array.tasks.get(array_index=9)
    ),
    "all of who leaves": lambda array, root: end_access(
        actor=root, user=array.owner, reason="left", cancel_jobs=True
    ),
    "what is left in its booking": lambda array, root: end_booked_jobs(now=OVER),
}


@pytest.mark.parametrize("ended", ENDS)
def test_an_end_waits_for_the_set_before_it_locks_a_task(array, root, ended):
    other = Reconsidering(array)
    assert len(other.held) == 8
    other.start()
    assert other.has_set.wait(30)
    ENDS[ended](array, root)
    other.join(60)
    assert other.problem is None
    gone = array.tasks.filter(state="cancelled").count()
    assert gone == (1 if ended == "its last task" else 10)


class InOrder(threading.Thread):
    """Takes its first lock, and its second once somebody waits."""

    def __init__(self, first: Callable[[], object], then: Callable[[], object]) -> None:
        super().__init__()
        self.first, self.then, self.has_first = first, then, threading.Event()
        self.problem: Exception | None = None

    def run(self) -> None:
        try:
            with transaction.atomic():
                self.first()
                self.has_first.set()
                wait_until_somebody_waits()
                self.then()
        except Exception as problem:
            self.problem = problem
        finally:
            self.has_first.set()
            connections.close_all()


def meet(act, first, then) -> None:
    other = InOrder(first, then)
    other.start()
    assert other.has_first.wait(30)
    act()
    other.join(60)
    assert not other.is_alive() and other.problem is None


def lock(table, pk: int) -> Callable[[], object]:
    return lambda: table.objects.select_for_update().get(pk=pk)


def _start_all(jobs, node, alice) -> None:
    devices = iter(node.devices.order_by("pk").values_list("pk", flat=True))
    starts = [Start(job.pk, (PlacedOn(node.pk, 0, (next(devices),), 1, 1024),)) for job in jobs]
    assert len(start_attempts(starts, lease_token=scenes.TOKEN, now=at(1))) == len(jobs)


def _say_why(jobs, node, alice) -> None:
    waits = [(job.pk, WaitReason.CAPACITY_BUSY, {"free": 0}) for job in jobs]
    assert record_waits(waits, now=at(1)) == len(jobs)


def _turn(jobs, node, alice) -> None:
    assert turn_job(actor=alice, job=jobs[-1], turn=Turn.FIRST, now=at(1)) >= 0


def _turn_back(jobs, node, alice) -> None:
    order_jobs(actor=alice, pool=node.pool, jobs=(), now=at(1))


@pytest.mark.parametrize("act", [_start_all, _say_why, _turn, _turn_back])
def test_jobs_are_locked_the_oldest_first(root, alice, project, act):
    node = scenes.build_cluster(root, gpus=4).node(1)
    tiers = ("exploratory",) * 2 + ("normal",) * 2 if act is _turn_back else ("normal",) * 4
    # Of two tiers, the job that is locked first of all is of the one that is looked at last.
    jobs = [submit(alice, project, tier=tier) for tier in reversed(tiers)]
    for age, job in enumerate(jobs):
        at_first = job.queued_at if act is _turn_back else None
        times = {"queued_at": NOON - timedelta(minutes=age), "yielded_from": at_first}
        Job.objects.filter(pk=job.pk).update(**times)
    first, last = jobs[0].pk, jobs[-1].pk
    meet(lambda: act(jobs, node, alice), lock(Job, first), lock(Job, last))


def test_a_task_that_ends_waits_for_its_set_before_its_job(root, alice, project):
    node = scenes.build_cluster(root, gpus=4).node(1)
    task = submit(alice, project, array="0-9%2")
    attempt = start(task, node)
    sync(node, running(attempt))
    meet(
        lambda: sync(node, ended(attempt), now=at(60)),
        lock(JobSet, task.job_set_id),
        lock(Job, task.pk),
    )
    task.refresh_from_db()
    assert task.state == "succeeded"


def test_so_does_one_whose_node_is_given_up_and_whose_log_comes_last(root, alice, project):
    node = scenes.build_cluster(root, gpus=4).node(1)
    tasks = list(submit(alice, project, array="0-9%2").job_set.tasks.filter(state="queued"))
    attempts = [start(task, node) for task in tasks]
    sync(node, *map(running, attempts))
    sync(node, ended(attempts[0], log_size=5), now=at(60))
    for task, act in zip(
        tasks,
        (
            lambda: scenes.write_log(node, attempts[0], b"hello"),
            lambda: mark_silent(now=at(600)) and mark_lost(now=at(9_000)),
        ),
        strict=True,
    ):
        meet(act, lock(JobSet, task.job_set_id), lock(Job, task.pk))
        assert not task.attempts.exclude(state="ended").exists()


def test_who_is_held_for_a_budget_waits_for_its_set_before_its_job(root, team, alice, project):
    scenes.build_cluster(root, gpus=4)
    task = submit(alice, project, array="0-9%2", time_limit="10h")
    set_budget(
        actor=root, owner=team, gpu_hours=1, valid_from=NOON - timedelta(days=1),
        valid_until=NOON + timedelta(days=9), rules=BudgetRules(commits_at="submit"), now=at(0),
    )  # fmt: skip
    meet(lambda: settle_pledges(now=at(1)), lock(JobSet, task.job_set_id), lock(Job, task.pk))
    task.refresh_from_db()
    assert (task.state, task.wait_reason) == ("held", WaitReason.BUDGET_EXHAUSTED)


def test_the_last_of_a_log_waits_for_the_attempt_before_its_rank(root, alice, project):
    node = scenes.build_cluster(root).node(1)
    attempt = start(submit(alice, project), node)
    sync(node, running(attempt))
    sync(node, ended(attempt, log_size=5), now=at(60))
    rank = attempt.placements.get().pk
    meet(
        lambda: scenes.write_log(node, attempt, b"hello"),
        lock(Attempt, attempt.pk),
        lock(Placement, rank),
    )
    attempt.refresh_from_db()
    assert attempt.state == "ended"
