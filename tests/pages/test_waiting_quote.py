"""What a waiting job will cost, and what it leaves, beside why it waits."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest
from django.urls import reverse

from scheduler.loop.supposing.quoting import quote_waiting
from scheduler.models import CommitsAt
from scheduler.services.sharing.budgets import BudgetRules, set_budget
from scheduler.services.sharing.limits import set_quota
from tests import scenes
from tests.scenes import NOON, at, ended, running, start, submit, sync

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)
PERIOD = {"valid_from": NOON, "valid_until": NOON + timedelta(days=3), "now": at(0)}


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, gpus=2)


def ran(cluster, alice, project, seconds):
    """A run of the usual program that took so long."""
    job = submit(alice, project, now=at(0))
    attempt = start(job, cluster.node(1), now=at(0))
    sync(cluster.node(1), running(attempt), now=at(0))
    sync(cluster.node(1), ended(attempt), now=at(seconds))


def test_the_range_of_its_cost_and_what_is_left_then(cluster, root, alice, team, project):
    set_quota(actor=root, owner=team, guaranteed=1, maximum=4)
    set_budget(actor=root, owner=team, amount=Decimal(100), **PERIOD)
    at_submit = BudgetRules(commits_at=CommitsAt.SUBMIT)
    set_budget(actor=root, owner=project, gpu_hours=10, rules=at_submit, **PERIOD)
    waits = submit(alice, project, gpus_per_node=2, time_limit="2h", now=at(0))
    quote = quote_waiting(alice, waits, now=at(60))
    assert (quote.unit_price, quote.worst_case_cost) == (Decimal("3.60"), Decimal("14.40"))
    # Nothing like it has run: all that is known is its time limit.
    assert quote.run_p90_s == waits.time_limit_s and quote.cost_p50 == quote.worst_case_cost
    (limit,), (money, hours) = quote.after.limits, quote.after.budgets
    assert (limit.held, limit.after, limit.maximum, limit.is_over) == (0, 2, 4, False)
    assert (money.left, money.after, money.is_committed) == (Decimal(100), Decimal("85.6"), False)
    assert (money.until, money.renews) == (PERIOD["valid_until"], False)
    # What it has pledged is not taken twice.
    assert (hours.left, hours.after, hours.is_committed) == (Decimal(10), Decimal(6), True)
    for seconds in (600, 900, 1200):
        ran(cluster, alice, project, seconds)
    waits = submit(alice, project, time_limit="2h", now=at(1300))
    quote = quote_waiting(alice, waits, now=at(1400))
    assert (quote.run_p50_s, quote.cost_p50) == (900, Decimal("0.9"))
    assert 1100 < quote.run_p90_s <= 1200 and "3 runs" in quote.basis


def test_it_stands_beside_the_job_and_on_a_page_of_its_own(client, cluster, alice, project):
    waits = submit(alice, project, gpus_per_node=2, time_limit="2h")
    url = reverse("jobs:quote", args=[waits.pk])
    client.force_login(alice)
    assert url in client.get(reverse("jobs:detail", args=[waits.pk])).content.decode()
    whole, part = client.get(url), client.get(url, {"part": "answer"})
    for page in (whole, part):
        text = page.content.decode()
        assert "3.60 EUR per GPU-hour" in text and "14.40 EUR" in text and "2 h" in text
    assert "<html" in whole.content.decode() and "<html" not in part.content.decode()
    attempt = start(waits, cluster.node(1))
    sync(cluster.node(1), running(attempt))
    assert reverse("jobs:cost", args=[waits.pk]) in client.get(url).content.decode()
    assert url not in client.get(reverse("jobs:detail", args=[waits.pk])).content.decode()


def test_it_says_when_a_budget_is_over_and_whether_another_comes(
    client, cluster, root, alice, team, project
):
    now, monthly = at(0), BudgetRules(renewal="monthly")
    set_budget(actor=root, owner=project, gpu_hours=1, valid_from=NOON, valid_until=at(0) + DAY,
               now=now)  # fmt: skip
    set_budget(actor=root, owner=team, amount=Decimal(1), rules=monthly, valid_from=NOON,
               valid_until=NOON + 30 * DAY, now=now)  # fmt: skip
    waits = submit(alice, project, gpus_per_node=2, time_limit="2h")
    found = quote_waiting(alice, waits, now=at(60)).after.budgets
    assert [(one.until - at(0), one.renews) for one in found] == [
        (30 * DAY, True), (DAY, False)]  # fmt: skip


def test_a_job_without_gpus_costs_nothing_and_strangers_are_told_nothing(
    client, cluster, alice, carol, project
):
    waits = submit(alice, project, gpus_per_node=0)
    url = reverse("jobs:quote", args=[waits.pk])
    client.force_login(alice)
    assert "nothing: it asks for no GPU" in client.get(url).content.decode()
    client.force_login(carol)
    assert client.get(url).status_code == 404
