"""The simulator: a question is checked, replayed by a task, shown, and its policy put in force."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from scheduler.models import Job, PoolRule, Scenario
from scheduler.services.sharing.policies import policy_in_force, set_pool_policy
from scheduler.services.simulating import scenarios
from scheduler.services.simulating.scenarios import simulate_scenarios
from tests import scenes

pytestmark = pytest.mark.django_db
HERE = "/cluster/simulator/"


@pytest.fixture
def past(root, alice, project):
    """Six jobs of an hour each that came at once to two GPUs, and have ended."""
    cluster = scenes.build_cluster(root, nodes=2, gpus=1)
    begin = timezone.now() - timedelta(hours=8)
    for number in range(6):
        job = scenes.submit(alice, project, name=f"run{number}", now=begin)
        started = begin + timedelta(hours=number // 2)
        Job.objects.filter(pk=job.pk).update(
            state="succeeded", queued_at=begin, started_at=started,
            ended_at=started + timedelta(hours=1), end_reason="completed",
        )  # fmt: skip
    return cluster


def ask(client, **said):
    return client.post(HERE, {"pool": "default", "hours": "24", **said})


def test_more_nodes_shorten_waits_and_the_page_says_by_how_much(
    client, operator, past, django_assert_max_num_queries
):
    client.force_login(operator)
    page = client.get(ask(client, nodes="6", order="fifo", name="three times as many").url)
    assert "waits for a worker" in page.content.decode()
    assert simulate_scenarios() == 1
    scenario = Scenario.objects.get()
    before, after = scenario.answer["measures"]
    assert (scenario.answer["nodes"], scenario.answer["jobs"]) == ([2, 6], 6)
    assert before["wait_p90_s"] > 3600 and after["wait_p90_s"] == 0
    with django_assert_max_num_queries(9):
        text = client.get(f"{HERE}{scenario.pk}/").content.decode()
    assert "three times as many" in text and "Put in force" in text and "?of=base" in text
    assert client.post(f"{HERE}{scenario.pk}/apply/").status_code == 302
    rule, replayed = PoolRule.objects.get(), scenario.answer["policy"][1]
    assert (rule.name, rule.preempts) == ("fifo", "stops others" in replayed)
    client.post(f"{HERE}{scenario.pk}/forget/")
    assert not Scenario.objects.exists()
    with django_assert_max_num_queries(9):
        client.get(HERE)


def test_few_gpu_hours_are_not_told_as_none(client, operator, past):
    client.force_login(operator)
    answer = ask(client, nodes="6")
    simulate_scenarios()
    row = Scenario.objects.get()
    for measures in row.answer["measures"]:
        measures["gpu_hours"] = 0.0044
    row.save(update_fields=["answer"])
    page = client.get(answer.url)
    told = {one.name: (one.words, one.before) for one in page.context["figures"]}
    assert told["gpu_hours"] == ("GPU-hours held", "0.0044")
    assert "from the first submit to the last end" in told["utilisation"][0]


def test_what_it_leaves_open_of_the_pools_rule_stays(client, operator, past):
    pool = past.node(1).pool
    set_pool_policy(actor=operator, pool=pool, name="fifo", head_patience_s=60, preempts=False)
    client.force_login(operator)
    ask(client, placement="pack", name="closer together")
    simulate_scenarios()
    page = client.get(f"{HERE}{Scenario.objects.get().pk}/")
    assert len(page.context["wanted"]) == 1
    client.post(f"{HERE}{Scenario.objects.get().pk}/apply/")
    rule = PoolRule.objects.get(pool=pool, ended_at=None)
    assert (rule.name, rule.placement, rule.head_patience_s) == ("fifo", "pack", 60)


def test_the_clusters_own_policy_ends_the_rule_of_a_pool(client, operator, past):
    set_pool_policy(actor=operator, pool=past.node(1).pool, name="las")
    client.force_login(operator)
    ask(client, order="fair", preempt="yes")
    simulate_scenarios()
    page = client.post(f"{HERE}{Scenario.objects.get().pk}/apply/", follow=True)
    assert "Pool default is scheduled as the cluster is" in page.content.decode()
    assert policy_in_force().pools == ()


@pytest.mark.once
@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({}, "Change something"),
        ({"hours": "0"}, "greater than or equal to 1"),
        ({"more": "weight:nobody=2"}, "there is no team"),
        ({"more": "lose:9@60"}, "none of the 2 nodes"),
        ({"more": "tea=4"}, "no such change"),
        ({"placement": "loose"}, "not one of the available choices"),
    ],
)
def test_a_bad_question_is_refused_with_what_is_wrong(client, operator, past, said, words):
    client.force_login(operator)
    page = ask(client, **said)
    assert page.status_code == 422 and words in page.content.decode().replace("&#x27;", "'")
    assert not Scenario.objects.exists()


@pytest.mark.once
def test_hours_in_which_nothing_ran_are_said_to_be_empty(client, operator, past):
    client.force_login(operator)
    answer = ask(client, hours="1", order="fifo")
    simulate_scenarios()
    assert "No job of that time has ended" in client.get(answer.url).content.decode()


def test_one_that_waited_long_is_replayed_once(client, operator, past, monkeypatch):
    """A second worker leaves alone what the first is at; what is forgotten meanwhile stays so."""
    client.force_login(operator)
    ask(client, nodes="6")
    Scenario.objects.update(created_at=timezone.now() - timedelta(hours=1))
    replay, second = scenarios.impact_of, []

    def meanwhile(*given, **more):
        second.append(simulate_scenarios())
        Scenario.objects.all().delete()
        return replay(*given, **more)

    monkeypatch.setattr(scenarios, "impact_of", meanwhile)
    assert simulate_scenarios() == 1
    assert second == [0] and not Scenario.objects.exists()
