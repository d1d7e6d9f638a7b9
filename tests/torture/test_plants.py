"""Planted bugs still reach what they break, so that names do not spoil the proof."""

from __future__ import annotations

import pytest

from portal.torture import plants
from scheduler.agent.runtime import killing, supervisor
from scheduler.agent.runtime.limits import Limits
from scheduler.conf import SchedulerConf, load_conf
from scheduler.loop.loading import accounts
from scheduler.services.sharing import committing
from scheduler.services.sharing.budgets import set_budget
from tests.scenes import NOON, at


def planted(monkeypatch, name, *places):
    """Put a bug into this process for the length of a test."""
    for owner, attribute in places:
        monkeypatch.setattr(owner, attribute, getattr(owner, attribute))
    plant = plants.PLANTS[name]
    for work in (plant.on_server, plant.in_agent, plant.in_guard):
        if work is not None:
            work()


def test_a_silent_node_is_given_up_with_its_lease(monkeypatch):
    planted(monkeypatch, "given-up-early", (SchedulerConf, "lost_after_grace"))
    conf = load_conf()
    assert conf.lost_after == conf.lost_after_grace(3600, 30) == conf.node_lease


def test_nothing_that_is_left_is_killed(monkeypatch):
    places = (killing, "kill_descendants"), (killing, "kill_remains"), (Limits, "kill")
    planted(monkeypatch, "left-behind", *places)
    assert supervisor.killing.kill_descendants(uid=None, limits=None, drain=None, give_up_s=0) == []


@pytest.mark.django_db
def test_no_budget_is_asked(monkeypatch, root, project):
    period = {"valid_from": NOON, "valid_until": at(86_400)}
    budget = set_budget(actor=root, owner=project, gpu_hours=1, now=NOON, **period)
    with pytest.raises(committing.BudgetReached):
        committing.take(budget, "project", 3601, 0)
    planted(monkeypatch, "budget-unguarded", (committing, "Q"), (accounts, "_left"))
    committing.take(budget, "project", 3601, 0)
    budget.refresh_from_db()
    assert budget.committed_s == 3601 and accounts._left(budget) is None
