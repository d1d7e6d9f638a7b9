"""An end and something else at once, such as a cancel and the last byte of a log: whoever comes
second sees what the first one did."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import pytest
from django.db import connections, transaction

from accounts.services import create_project, create_team
from scheduler.models import Attempt, BudgetHold, Notification, Quota, SchedulerLease
from scheduler.services.budgets.renewing import renew_budget
from scheduler.services.jobs import cancel_job
from scheduler.services.requesting.deciding import decide_request
from scheduler.services.sharing.budgets import BudgetRules, set_budget
from scheduler.services.sharing.guard import held_now
from scheduler.services.sharing.limits import set_quota
from scheduler.services.teams import move_team
from scheduler.states import AttemptState, JobState
from tests import scenes
from tests.locks import wait_until_it_waits_or_ends, wait_until_somebody_waits
from tests.requesting import ask
from tests.scenes import at, ended, running, start, submit, sync
from tests.seconding import WHY

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.django_db(transaction=True),
]


def test_a_job_cancelled_while_its_end_waits_for_the_lock_ends(root, project, alice):
    cluster = scenes.build_cluster(root)
    job = submit(alice, project)
    node = cluster.node(1)
    attempt = start(job, node)
    sync(node, running(attempt))
    sync(node, ended(attempt, log_size=5), now=at(60))

    def send_the_last_byte():
        try:
            scenes.write_log(node, attempt, b"hello")
        finally:
            connections.close_all()

    sender = threading.Thread(target=send_the_last_byte)
    with transaction.atomic():
        cancel_job(actor=alice, job=job, now=at(61))
        sender.start()
        wait_until_somebody_waits()
    sender.join()
    job.refresh_from_db()
    assert job.state == JobState.SUCCEEDED
    assert scenes.states(job)[-2:] == ["stopping", "succeeded"]


def end_while(node, attempt: Attempt, act: Callable[[], object]) -> None:
    """Somebody does `act` after the end gave its devices back, and before that is committed."""
    problems: list[Exception] = []

    def run() -> None:
        try:
            act()
        except Exception as problem:
            problems.append(problem)
        finally:
            connections.close_all()

    SchedulerLease.objects.get_or_create(defaults={"expires_at": at(0)})
    other = threading.Thread(target=run)
    with transaction.atomic():
        sync(node, ended(attempt), now=at(60))
        other.start()
        wait_until_it_waits_or_ends(other)
    other.join(30)
    assert not other.is_alive()
    if problems:
        raise problems[0]
    attempt.refresh_from_db()
    assert attempt.state == AttemptState.ENDED


@pytest.fixture
def node(root):
    return scenes.build_cluster(root, gpus=16).node(1)


@pytest.fixture
def attempt(node, alice, project) -> Attempt:
    attempt = start(submit(alice, project), node)
    sync(node, running(attempt))
    return attempt


def no_quota_is_wrong() -> None:
    quotas = list(Quota.objects.all())
    assert quotas
    assert [quota.held for quota in quotas] == [held_now(quota) for quota in quotas]


@pytest.mark.parametrize("is_new", [True, False])
def test_a_quota_set_while_a_job_ends_counts_what_is_left(root, team, node, attempt, is_new):
    if not is_new:
        set_quota(actor=root, owner=team, maximum=9)
    end_while(node, attempt, lambda: set_quota(actor=root, owner=team, maximum=8))
    no_quota_is_wrong()


def test_a_first_guarantee_agreed_while_a_job_ends_counts_what_is_left(
    root, project, node, attempt, alice, lead
):
    asked = ask(alice, project)
    asked = decide_request(
        actor=lead, request_id=asked.pk, version=asked.version, outcome="approve"
    )
    said = {"request_id": asked.pk, "version": asked.version, "outcome": "approve"}
    end_while(node, attempt, lambda: decide_request(actor=root, **said))
    no_quota_is_wrong()


@pytest.mark.parametrize("whose", ["old", "new", "moved"])
def test_a_team_moved_while_a_job_ends_leaves_no_count_wrong(root, node, alice, team, whose):
    new = create_team(actor=root, name="Audio")
    moved = create_team(actor=root, name="Moved", parent=team)
    for one in (team, new, moved):
        set_quota(actor=root, owner=one, maximum=9)
    owner = {"old": team, "new": new, "moved": moved}[whose]
    project = create_project(actor=root, team=owner, name="Theirs")
    attempt = start(submit(root, project), node)
    sync(node, running(attempt))
    end_while(node, attempt, lambda: move_team(actor=root, team=moved, parent=new))
    no_quota_is_wrong()


def no_hold_is_left() -> None:
    over = BudgetHold.objects.filter(settled_at__isnull=True)
    assert not over.filter(attempt__state=AttemptState.ENDED).exists()


def test_a_budget_made_while_a_job_ends_holds_it_no_more(root, team, node, attempt):
    period = {"valid_from": at(-3600), "valid_until": at(3600 * 99)}
    make = partial(set_budget, actor=root, owner=team, gpu_hours=99, now=at(60), **period)
    end_while(node, attempt, make)
    no_hold_is_left()


def test_a_budget_renewed_while_a_job_ends_holds_it_no_more(root, team, node, attempt):
    old = set_budget(
        actor=root,
        owner=team,
        gpu_hours=99,
        valid_from=at(30).replace(month=at(30).month - 1),
        valid_until=at(30),
        rules=BudgetRules(renewal="monthly"),
        now=at(1),
    )
    end_while(node, attempt, lambda: renew_budget(old, now=at(60)))
    old.refresh_from_db()
    assert old.renewed_at is not None
    no_hold_is_left()


def test_of_two_last_tasks_that_end_at_once_the_second_tells_of_the_array(
    root, project, alice, lead
):
    cluster = scenes.build_cluster(root)
    tasks = list(submit(alice, project, array="0-1").job_set.tasks.order_by("pk"))
    node = cluster.node(1)
    attempt = start(tasks[1], node)
    sync(node, running(attempt))

    def end_the_other():
        try:
            sync(node, ended(attempt), now=at(62))
        finally:
            connections.close_all()

    other = threading.Thread(target=end_the_other)
    with transaction.atomic():
        cancel_job(actor=lead, reason=WHY, job=tasks[0], now=at(61))
        other.start()
        wait_until_somebody_waits()
    other.join()
    assert tasks[0].job_set.tasks.filter(state=JobState.SUCCEEDED).count() == 1
    told = Notification.objects.get(key=f"set:{tasks[0].job_set_id}:over")
    assert told.title.endswith("1 of 2 tasks succeeded")


@pytest.mark.parametrize("act", ["submitted", "ended"])
def test_the_last_tasks_of_an_array_lose_nobody_who_waits_for_all(root, alice, project, act):
    """One that is submitted while the last task ends, and one whose last two tasks end at once."""
    cluster = scenes.build_cluster(root, nodes=2)
    job_set = submit(alice, project, array="0-1").job_set
    attempts = [
        start(job, cluster.node(number))
        for number, job in enumerate(job_set.tasks.order_by("array_index"), 1)
    ]
    for number, attempt in enumerate(attempts, 1):
        sync(cluster.node(number), running(attempt))
    waits = []

    def submit_another() -> None:
        waits.append(submit(alice, project, depends_on=f"afterany:set={job_set.pk}"))

    def end_the_other() -> None:
        sync(cluster.node(2), ended(attempts[1]), now=at(60))

    if act == "submitted":
        end_the_other()
        end_while(cluster.node(1), attempts[0], submit_another)
    else:
        submit_another()
        end_while(cluster.node(1), attempts[0], end_the_other)
    waits[0].refresh_from_db()
    assert waits[0].state == JobState.QUEUED


def test_an_array_submitted_while_a_task_ends_waits_for_nothing_that_is_over(root, alice, project):
    cluster = scenes.build_cluster(root, nodes=2)
    job_set = submit(alice, project, array="0-1").job_set
    first = job_set.tasks.get(array_index=0)
    attempt = start(first, cluster.node(1))
    sync(cluster.node(1), running(attempt))
    made = []

    def submit_another() -> None:
        wants = f"aftercorr:set={job_set.pk}"
        made.append(submit(alice, project, array="0-1", depends_on=wants).job_set)

    end_while(cluster.node(1), attempt, submit_another)
    states = made[0].tasks.order_by("array_index").values_list("state", flat=True)
    assert list(states) == [JobState.QUEUED, JobState.HELD]
