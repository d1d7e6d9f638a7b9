"""A quote: start, run time and cost before a submit, and what is left after it."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from accounts.models import Rate
from scheduler.loop.quoting import quote_job
from scheduler.models import Attempt, Job
from scheduler.services.sharing.budgets import set_budget
from scheduler.services.sharing.limits import set_quota
from scheduler.spec import parse_spec
from tests import scenes
from tests.scenes import NOON, at, ended, running, start, submit, sync

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=1, gpus=2)


def quoted(actor, project, now=at(0), **fields):
    document = {"name": "train", "project": project.path, "script": "echo hi", **fields}
    return quote_job(actor=actor, spec=parse_spec(document), now=now)


def ran(alice, project, cluster, seconds, begun):
    attempt = start(submit(alice, project, now=at(begun)), cluster.node(1), now=at(begun))
    sync(cluster.node(1), running(attempt), now=at(begun))
    sync(cluster.node(1), ended(attempt), now=at(begun + seconds))
    run = {"started_at": at(begun), "ended_at": at(begun + seconds)}
    Attempt.objects.filter(pk=attempt.pk).update(**run)


def test_it_starts_now_and_costs_at_most_its_limit(cluster, alice, project):
    quote = quoted(alice, project, time_limit="2h")
    guess = quote.estimate
    assert guess.start_p50_at == guess.start_p90_at == at(0)
    assert (guess.run_p50_s, guess.run_p90_s) == (7200, 7200)
    assert "no runs like it" in guess.basis
    assert guess.cost_p50 == quote.worst_case_cost == Decimal("7.2")
    assert not Job.objects.exists()


def test_run_times_are_learnt_from_runs_like_it(cluster, alice, project):
    for number, seconds in enumerate((600, 1200, 1800)):
        ran(alice, project, cluster, seconds, number * 2000)
    guess = quoted(alice, project, now=at(7000), time_limit="2h").estimate
    assert (guess.run_p50_s, guess.run_p90_s) == (1200, 1680)
    assert guess.basis == "3 runs of the same program on as many GPUs"
    assert (guess.cost_p50, guess.cost_p90) == (Decimal("1.2"), Decimal("1.68"))


def test_behind_a_running_job_it_starts_when_that_ends(cluster, alice, project):
    job = submit(alice, project, gpus_per_node=2, time_limit="1h")
    attempt = start(job, cluster.node(1))
    sync(cluster.node(1), running(attempt), now=at(1))
    guess = quoted(alice, project, now=at(60)).estimate
    assert guess.start_p50_at is not None
    assert at(60) < guess.start_p50_at <= guess.start_p90_at <= at(3700)


def test_without_a_price_it_says_so_and_never_zero(cluster, root, team, alice, project):
    Rate.objects.all().delete()
    set_budget(
        actor=root, owner=team, amount=Decimal(10), valid_from=NOON,
        valid_until=NOON + timedelta(days=3), now=at(0),
    )  # fmt: skip
    quote = quoted(alice, project)
    assert quote.unit_price is None
    assert quote.worst_case_cost is None
    assert quote.estimate.cost_p50 is None
    (budget,) = quote.budgets
    assert (budget.left, budget.after, budget.is_over) == (Decimal(10), None, True)
    assert "no price is set" in quote.estimate.why


def test_what_is_left_of_quotas_and_budgets_after_it(cluster, root, team, alice, project):
    period = {"valid_from": NOON, "valid_until": NOON + timedelta(days=3), "now": at(0)}
    set_quota(actor=root, owner=team, guaranteed=1, maximum=1)
    set_budget(actor=root, owner=team, amount=Decimal(10), **period)
    set_budget(actor=root, owner=project, gpu_hours=3, **period)
    quote = quoted(alice, project, time_limit="2h", gpus_per_node=2)
    (limit,) = quote.limits
    assert (limit.whose, limit.held, limit.after, limit.borrowed) == ("team vision", 0, 2, 1)
    assert (limit.maximum, limit.is_over) == (1, True)
    money, hours = quote.budgets
    assert (money.unit, money.left, money.after) == ("EUR", Decimal(10), Decimal("-4.4"))
    assert (hours.whose, hours.left, hours.after) == ("project digits", Decimal(3), Decimal(-1))
    assert money.is_over
    assert hours.is_over
    assert quote.estimate.start_p50_at is None
    assert "The budget of" in quote.estimate.why


def test_an_array_costs_as_much_as_all_its_tasks(cluster, alice, project):
    quote = quoted(alice, project, time_limit="1h", array={"range": "0-9"})
    assert quote.estimate.cost_p90 == quote.worst_case_cost == Decimal(36)
