"""A quote: start, run time and cost before a submit, and what is left after it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.db import transaction

from accounts.models import Rate
from accounts.services import set_rate
from scheduler.engine.cycle import plan_cycle
from scheduler.loop.answering import picture
from scheduler.loop.supposing.quoting import quote_job, quote_waiting
from scheduler.models import Attempt, Job
from scheduler.models.cluster import slot_model
from scheduler.services.jobs import submit_job
from scheduler.services.nodes.cutting import cut_card
from scheduler.services.sharing.budgets import set_budget
from scheduler.services.sharing.limits import set_quota
from scheduler.services.sharing.policies import set_policy
from scheduler.services.sites.licences import set_licence
from scheduler.services.sites.places import label_node
from scheduler.spec import SpecInvalid, parse_spec
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


def test_models_in_an_order_are_priced_as_once_they_wait(root, team, alice, project):
    cluster = scenes.build_cluster(root, nodes=3, gpus=1)
    for node, model, price in zip(cluster.nodes, ("H100", "A100", "L4"), (9, 2, 1), strict=True):
        node.devices.update(model=model)
        set_rate(
            actor=root, device_model=model, price_per_gpu_hour=Decimal(price), currency="EUR",
            valid_from=NOON - timedelta(days=400), restated_for="as if then",
        )  # fmt: skip
    for model in ("H100", "A100"):
        set_quota(actor=root, owner=team, guaranteed=1, maximum=1, gpu_model=model)
    asked = {"gpu_models": ["A100", "L4"], "time_limit": "2h"}
    quote = quoted(alice, project, **asked)
    waits = quote_waiting(alice, submit(alice, project, now=at(0), **asked), now=at(0))
    assert quote.worst_case_cost == waits.worst_case_cost == Decimal(4)
    assert [one.scope for one in quote.limits] == ["A100 in all pools"]
    assert waits.after.limits == quote.limits
    # One of them without a price: nobody knows what it costs at most.
    Rate.objects.filter(device_model="L4").delete()
    assert quoted(alice, project, **asked).worst_case_cost is None


def test_an_array_holds_of_its_quota_what_runs_at_a_time(cluster, root, team, alice, project):
    period = {"valid_from": NOON, "valid_until": NOON + timedelta(days=3), "now": at(0)}
    set_quota(actor=root, owner=team, guaranteed=1, maximum=2)
    set_budget(actor=root, owner=project, gpu_hours=20, **period)
    for spelt, held in (("0-9%2", 2), ("0-9", 10), ("0-9%50", 10)):
        quote = quoted(alice, project, time_limit="1h", array=spelt)
        (limit,), (budget,) = quote.limits, quote.budgets
        assert (limit.after, limit.is_over, budget.after) == (held, held > 2, Decimal(10))


def test_an_array_costs_as_much_as_all_its_tasks(cluster, alice, project):
    quote = quoted(alice, project, time_limit="1h", array={"range": "0-9"})
    assert quote.estimate.cost_p90 == quote.worst_case_cost == Decimal(36)


WISHES = {
    "plain": {"gpus_per_node": 2},
    "label": {"gpus_per_node": 2, "constraints": ["net=ib"]},
    "label that nobody has": {"constraints": ["net=roce"]},
    "licence": {"licences": {"sim": 1}},
    "licence in use": {"licences": {"sim": 2}},
    "elastic": {"nodes": "1..3", "gpus_per_node": 2},
    "memory of a GPU": {"gpu_memory": "40GiB", "gpus_per_node": 2},
    "exclusive": {"exclusive": True},
    "one rack": {"nodes": 2, "topology": {"level": "rack", "mode": "required"}},
    "array": {"array": {"range": "0-4"}, "gpus_per_node": 2},
    "throttled array": {"array": {"range": "0-4", "max_parallel": 2}},
    "no GPU": {"gpus_per_node": 0},
    "part of a card": {"gpu_milli": "0.25"},
}


def test_a_quote_says_what_the_engine_says_once_it_is_submitted(root, alice, project):
    cluster = scenes.build_cluster(root, nodes=3, gpus=2)
    set_licence(actor=root, name="sim", total=2)
    label_node(actor=root, node=cluster.node(1), labels={"net": "ib"}, now=at(0))
    price = {"price_per_gpu_hour": Decimal(1), "valid_from": at(-60), "restated_for": "as if then"}
    set_rate(actor=root, device_model=slot_model(scenes.MODEL, 4), **price)
    cut_card(actor=root, device=cluster.node(3).devices.last(), slots=4, now=at(0))
    for number, licences in ((1, {"sim": 1}), (2, {})):
        job = submit(alice, project, gpus_per_node=2, time_limit="1h", licences=licences)
        sync(cluster.node(number), running(start(job, cluster.node(number))), now=at(1))
    said = {}
    for wish, fields in WISHES.items():
        guess = quoted(alice, project, now=at(60), **fields).estimate
        said[wish] = guess.start_p50_at, guess.start_p90_at
        with transaction.atomic():
            assert said[wish] == submitted(alice, project, fields), wish
            transaction.set_rollback(True)
        assert (guess.start_p50_at is None) == bool(guess.why), wish
    assert said["part of a card"] == (at(60), at(60))
    assert all(said[wish] > (at(60), at(60)) for wish in ("label", "elastic", "array"))
    assert said["label that nobody has"] == (None, None)
    # Who has it may stay for an hour.
    assert said["licence in use"] == (at(3660), at(3660))


def submitted(alice, project, fields):
    """What the cycle of this moment says of the job once it is a row."""
    document = {"name": "train", "project": project.path, "script": "echo hi", **fields}
    made = submit_job(actor=alice, spec=parse_spec(document), now=at(60)).job
    plan = plan_cycle(*picture(at(60)))
    if any(one.job == made.pk for one in plan.starts):
        return at(60), at(60)
    facts = plan.waits[plan.waits.job.tolist().index(made.pk)].facts
    told = (facts["start_p50_at"], facts["start_p90_at"])
    return tuple(one and datetime.fromtimestamp(one, UTC) for one in told)


def test_an_array_says_when_its_last_task_starts(cluster, alice, project):
    fields = {"gpus_per_node": 2, "time_limit": "1h"}
    guess = quoted(alice, project, array={"range": "0-2"}, **fields).estimate
    assert guess.starts_now
    assert guess.last_start_p90_at == at(7200)
    throttled = quoted(alice, project, array={"range": "0-2", "max_parallel": 1}, **fields)
    assert throttled.estimate.starts_now
    assert throttled.estimate.last_start_p90_at is None


def test_it_starts_once_what_it_depends_on_has_ended(cluster, alice, project):
    first = submit(alice, project, gpus_per_node=2, time_limit="1h")
    sync(cluster.node(1), running(start(first, cluster.node(1))), now=at(0))
    waits = submit(alice, project, gpus_per_node=2, time_limit="2h", now=at(1))

    def after(job, kind="afterok", **more):
        needed = [{"job": job.pk, "kind": kind}]
        return quoted(alice, project, now=at(60), depends_on=needed, **more).estimate

    assert at(3600) <= after(first).start_p90_at < at(3 * 3600 + 900)
    assert at(3 * 3600) <= after(waits).start_p90_at <= at(3 * 3600 + 900)
    assert at(3600) <= after(waits, "after").start_p90_at
    held = submit(alice, project, hold=True)
    assert after(held).start_p50_at is None
    assert f"job {held.pk}" in after(held).why


def test_it_starts_once_all_tasks_of_an_array_have_come_so_far(cluster, alice, project):
    first = submit(alice, project, gpus_per_node=2, time_limit="1h", array="0-2")
    tasks = {one.array_index: one for one in first.job_set.tasks.all()}
    sync(cluster.node(1), running(start(tasks[0], cluster.node(1))), now=at(0))

    def after(kind, job_set):
        needed = [{"set": job_set.pk, "kind": kind}]
        return quoted(alice, project, now=at(60), depends_on=needed).estimate

    assert at(2 * 3600) <= after("after", first.job_set).start_p90_at
    assert at(3 * 3600) <= after("afterany", first.job_set).start_p90_at
    throttled = submit(alice, project, array="0-2%1").job_set
    assert after("afterok", throttled).start_p90_at is None
    assert "will have come so far" in after("afterok", throttled).why
    many = submit(alice, project, array="0-400").job_set
    assert "so many tasks" in after("afterok", many).why


def test_it_starts_no_earlier_than_it_asks_for(cluster, alice, project):
    guess = quoted(alice, project, begin=at(5000).isoformat()).estimate
    assert guess.start_p50_at == guess.start_p90_at == at(5000)
    assert not guess.starts_now
    assert quoted(alice, project, hold=True).estimate.why == "It starts only after it is released."


def test_a_quote_refuses_what_a_submit_refuses(cluster, root, team, alice, project):
    set_quota(actor=root, owner=team, max_hours=1)
    with pytest.raises(SpecInvalid) as refused:
        quoted(alice, project, time_limit="2h")
    assert [problem.field for problem in refused.value.problems] == ["time_limit"]


def test_others_stop_for_a_job_of_a_higher_tier(cluster, root, alice, project):
    set_policy(actor=root, name="fair", preempts=True)
    low = submit(alice, project, gpus_per_node=2, time_limit="9h", tier="exploratory")
    sync(cluster.node(1), running(start(low, cluster.node(1))), now=at(0))
    guess = quoted(alice, project, now=at(7200), gpus_per_node=2, tier="urgent").estimate
    assert guess.start_p50_at == at(7200)
    assert at(7200) < guess.start_p90_at < at(7500)
    assert (guess.why, guess.starts_now) == ("Others stop for it first.", False)


def test_who_is_cancelled_for_it_as_an_older_one_of_its_group_is_not_before_it(
    cluster, alice, project
):
    start(submit(alice, project, gpus_per_node=2, time_limit="1h"), cluster.node(1), now=at(0))
    submit(alice, project, now=at(1), gpus_per_node=2, time_limit="4h", group="eval")
    quote = quoted(alice, project, now=at(2), gpus_per_node=2, group="eval")
    assert (quote.jobs_ahead, quote.estimate.start_p90_at) == (0, at(3600))
    behind = quoted(alice, project, now=at(2), gpus_per_node=2)
    assert (behind.jobs_ahead, behind.estimate.start_p90_at) == (1, at(5 * 3600))
