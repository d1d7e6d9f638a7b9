"""A start that counts against a limit, while a call of its node is under way that ends another."""

from __future__ import annotations

import threading

import pytest
from django.db import connection, connections, transaction
from django.db.models import F

from scheduler.models import Budget, Quota
from scheduler.services.rows.locking import lock_devices_of
from scheduler.services.sharing.budgets import BudgetRules, set_budget
from scheduler.services.sharing.limits import set_quota
from tests import scenes
from tests.locks import wait_until_somebody_waits
from tests.scenes import NOON, at, start, submit

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.django_db(transaction=True),
]


def _quota(root, project):
    set_quota(actor=root, owner=project, maximum=4)
    return lambda: Quota.objects.update(held=F("held"), held_milli=F("held_milli"))


def _account(root, project):
    """Of which a row that is written says whose it is."""
    set_quota(actor=root, owner=project, maximum=4)

    def name():
        with connection.cursor() as cursor:
            cursor.execute("SELECT id FROM scheduler_account ORDER BY id FOR KEY SHARE")

    return name


def _budget(root, project):
    period = {"valid_from": NOON, "valid_until": at(86_400)}
    rules = BudgetRules(commits_at="start")
    set_budget(actor=root, owner=project, gpu_hours=1000, rules=rules, now=NOON, **period)
    return lambda: Budget.objects.update(committed_s=F("committed_s"))


class Call(threading.Thread):
    """Holds the devices of a node, as its calls do, and ends something once somebody waits."""

    def __init__(self, node, end):
        super().__init__()
        self.node_id, self.end = node.pk, end
        self.has_devices = threading.Event()
        self.problem = None

    def run(self):
        try:
            with transaction.atomic():
                lock_devices_of([self.node_id])
                self.has_devices.set()
                wait_until_somebody_waits()
                self.end()
        except Exception as problem:
            self.problem = problem
        finally:
            self.has_devices.set()
            connections.close_all()


@pytest.mark.parametrize("limit", [_quota, _budget, _account])
def test_a_start_waits_for_the_devices_before_it_counts(root, alice, project, limit):
    node = scenes.build_cluster(root, gpus=2).node(1)
    call = Call(node, limit(root, project))
    job = submit(alice, project)
    call.start()
    assert call.has_devices.wait(30)
    attempt = start(job, node, now=NOON)
    call.join(60)
    assert not call.is_alive() and call.problem is None
    assert attempt.state == "assigned"
