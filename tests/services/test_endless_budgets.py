"""A budget without end: how far ahead it is foreseen."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from scheduler.models import BudgetAlert
from scheduler.services.budgets.watching import watch_budgets
from scheduler.services.sharing.budgets import BudgetRules, set_budget
from tests import scenes
from tests.scenes import NOON, at, ended, running, start, submit, sync

pytestmark = pytest.mark.django_db
HOUR_S = 3600
FROM = NOON - timedelta(days=1)


@pytest.fixture
def cluster(root):
    """Two nodes of two GPUs, 3.60 EUR an hour."""
    return scenes.build_cluster(root, nodes=2, gpus=2)


def test_one_without_end_is_not_told_of_what_it_comes_to_in_a_hundred_years(
    cluster, root, team, alice, project
):
    """0.90 a week are above 1000 by then; within this month they are above 4."""
    lasting = {"valid_from": FROM, "valid_until": FROM.replace(year=2126), "now": at(0)}
    for owner, amount in ((team, 1000), (project, 4)):
        set_budget(
            actor=root, owner=owner, amount=Decimal(amount),
            rules=BudgetRules(enforcement="warn"), **lasting,
        )  # fmt: skip
    attempt = start(submit(alice, project, time_limit="2h"), cluster.node(1))
    sync(cluster.node(1), running(attempt), now=at(1))
    sync(cluster.node(1), ended(attempt), now=at(HOUR_S))
    watch_budgets(now=at(24 * HOUR_S))
    told = BudgetAlert.objects.values_list("budget__account__team", "threshold")
    assert sorted(told) == [(None, "50"), (None, "80"), (None, "forecast")]
