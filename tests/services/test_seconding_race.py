"""Two people answer at once: one answer holds, and a job that starts meanwhile is not lost."""

from __future__ import annotations

import contextlib
import threading

import pytest
from django.db import connections

from accounts.models import AuditEvent
from scheduler.models import BulkCancel
from scheduler.services.errors import Conflict
from scheduler.services.seconding.deciding import (
    agree_to_cancel,
    refuse_to_cancel,
    withdraw_cancel,
)
from scheduler.services.seconding.proposing import propose_to_cancel_set
from tests import scenes
from tests.scenes import ended, running, start, submit, sync

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.django_db(transaction=True),
]


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, gpus=4)


@pytest.fixture
def array(cluster, alice, project):
    return submit(alice, project, array="0-100%4").job_set


def race(*acts) -> list[str]:
    """What each said, all at once: "done" or the code of the refusal."""
    gate, answers = threading.Barrier(len(acts)), []

    def run(act) -> None:
        try:
            gate.wait()
            act()
            answers.append("done")
        except Conflict as refused:
            answers.append(refused.code)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run, args=(act,)) for act in acts]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    return sorted(answers)


def test_of_two_who_agree_at_once_one_does(array, lead, operator, root):
    found = propose_to_cancel_set(actor=lead, job_set=array, reason="wrong bucket")
    said = race(
        lambda: agree_to_cancel(actor=operator, proposal=found),
        lambda: agree_to_cancel(actor=root, proposal=found),
    )
    assert said == ["decided", "done"]
    assert array.tasks.filter(state="cancelled").count() == 101
    assert AuditEvent.objects.filter(action="bulk_cancel.agree").count() == 1


@pytest.mark.parametrize("other", ["withdraw", "refuse"])
def test_agree_beside_another_answer(array, lead, operator, root, other):
    found = propose_to_cancel_set(actor=lead, job_set=array, reason="wrong bucket")
    acts = {
        "withdraw": lambda: withdraw_cancel(actor=lead, proposal=found),
        "refuse": lambda: refuse_to_cancel(actor=root, proposal=found, reason="no"),
    }
    said = race(lambda: agree_to_cancel(actor=operator, proposal=found), acts[other])
    assert said == ["decided", "done"]
    found.refresh_from_db()
    is_agreed = found.outcome == "agreed"
    assert array.tasks.filter(state="cancelled").count() == (101 if is_agreed else 0)
    assert AuditEvent.objects.filter(action="bulk_cancel.agree").count() == is_agreed


def test_of_two_who_propose_the_same_at_once_one_does(array, lead, operator):
    say = {"job_set": array, "reason": "wrong bucket"}
    said = race(
        lambda: propose_to_cancel_set(actor=lead, **say),
        lambda: propose_to_cancel_set(actor=operator, **say),
    )
    assert said == ["already_proposed", "done"]
    assert BulkCancel.objects.get().jobs.count() == 101


def test_tasks_that_end_and_let_others_go_meanwhile_harm_nobody(array, cluster, lead, operator):
    """The end of a task locks its attempt, its set and the next held task; so does who agrees."""
    tasks = [array.tasks.get(array_index=one) for one in range(4)]
    attempts = [start(task, cluster.node(1)) for task in tasks]
    sync(cluster.node(1), *map(running, attempts))
    found = propose_to_cancel_set(actor=lead, job_set=array, reason="wrong bucket")

    def end_all() -> None:
        for attempt in attempts:
            sync(cluster.node(1), ended(attempt))

    assert race(lambda: agree_to_cancel(actor=operator, proposal=found), end_all) == ["done"] * 2
    states = set(array.tasks.values_list("state", flat=True))
    assert states <= {"succeeded", "cancelled"}
    found.refresh_from_db()
    gone = array.tasks.filter(state="succeeded").count()
    assert found.ended is not None and found.ended + gone >= 101


def test_a_task_that_starts_meanwhile_is_stopped(array, cluster, lead, operator):
    found = propose_to_cancel_set(actor=lead, job_set=array, reason="wrong bucket")
    task = array.tasks.get(array_index=0)

    def start_it() -> None:
        with contextlib.suppress(AssertionError):  # it was cancelled before
            start(task, cluster.node(1))

    assert race(lambda: agree_to_cancel(actor=operator, proposal=found), start_it) == ["done"] * 2
    assert set(array.tasks.values_list("state", flat=True)) <= {"cancelled", "stopping"}
