"""The job's own page and what it says before a change: how far it is, where it is, who gains."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from portal.bench.faces.budgets import BUDGETS
from portal.pages.job_rows import job_rows
from scheduler.models import Attempt, Device, Job
from scheduler.selectors.one_job.awaited import AwaitedJob, jobs_awaited
from scheduler.services.changing.by_hand import pause_job, release_job
from scheduler.states import EndReason
from tests import scenes
from tests.pages.yard import LOG, build_yard

pytestmark = pytest.mark.django_db


@pytest.fixture
def yard(root, alice, project):
    return build_yard(root, alice, project)


def test_a_running_job_says_how_far_it_is_and_which_gpus_of_its_node_it_has(
    client, alice, finance, yard, django_assert_max_num_queries
):
    Device.objects.filter(node=yard.cluster.node(1)).update(link_group="nvlink-0")
    scenes.write_log(yard.cluster.node(1), yard.attempt, LOG + b"epoch 3/12\n")
    url = reverse("jobs:detail", args=[yard.running.pk])
    client.force_login(alice)
    with django_assert_max_num_queries(17):
        page = client.get(url).content.decode()
    assert "epoch 3 of 12" in page and "25 %" in page
    assert 'aria-label="n1: 1 of 2 GPUs are this job&#x27;s"' in page
    assert "linked: nvlink-0" in page and "GPU 1: free" in page
    client.force_login(finance)
    assert "epoch 3 of 12" not in client.get(url).content.decode()


def test_before_a_pause_or_another_size_stands_what_it_does(client, alice, project, yard):
    client.force_login(alice)
    pause = client.get(reverse("jobs:change", args=[yard.running.pk]), {"pause": "1"})
    assert "Who starts sooner" in pause.content.decode()
    wide = scenes.submit(alice, project, nodes="1..3", gpus_per_node=2)
    url = reverse("jobs:change", args=[wide.pk])
    page = client.get(url, {"time_limit": "1h", "nodes": "2"}).content.decode()
    assert 'name="nodes" value="2"' in page and "Who starts later" in page
    for wrong in ("0", "-1", "x", "9" * 30, "4"):
        refused = client.post(url, {"time_limit": "1h", "nodes": wrong})
        assert refused.status_code == 422 and "Nodes: " in refused.content.decode()
    for wrong in ("0h", "0", "100000d"):
        told = client.get(url, {"time_limit": wrong})
        assert told.status_code == 200 and "Time limit: choose" in told.content.decode()
        body = {"time_limit": wrong, "dry_run": True}
        api = client.post(f"/api/v1/jobs/{wide.pk}/change/", body, content_type="application/json")
        assert api.status_code == 422 and "time_limit: choose" in api.content.decode()
    client.post(url, {"time_limit": "1h", "nodes": "2"})
    wide.refresh_from_db()
    assert (wide.nodes_min, wide.nodes, wide.spec["nodes"]) == (1, 2, "1..3")


def test_more_time_alone_leaves_the_nodes_of_an_elastic_job_that_runs(client, alice, project, yard):
    wide = scenes.submit(alice, project, nodes="1..2", gpus_per_node=1, time_limit="1h")
    attempt = scenes.start(wide, yard.cluster.node(2))
    scenes.sync(yard.cluster.node(2), scenes.running(attempt), protocol=3)
    client.force_login(alice)
    url = reverse("jobs:change", args=[wide.pk])
    page = client.get(url, {"time_limit": "2h", "nodes": "2"})
    assert page.context["impact"] and not page.context["resizes"]
    answer = client.post(url, {"time_limit": "1h", "nodes": "2"}, follow=True)
    assert "asks for just that" in answer.content.decode()


def test_a_paused_job_says_each_thing_once_and_counts_no_time(client, alice, project, yard):
    client.force_login(alice)
    job, node = yard.running, yard.cluster.node(1)
    client.post(reverse("jobs:pause", args=[job.pk]))
    scenes.sync(node, scenes.ended(yard.attempt, reason=EndReason.PAUSED_BY_USER, exit_code=0))
    text = client.get(reverse("jobs:detail", args=[job.pk])).content.decode()
    assert "when it is resumed" in text and "not looked at yet" not in text
    assert text.count("Resume it to") == 1
    assert "<dt>Time</dt><dd>–</dd>" in text
    # Whoever asked for it is named where it was asked for.
    assert f"Paused by {alice.get_full_name()}." in text and "Paused by ?" not in text


def test_time_counts_from_the_latest_attempt_as_its_limit_does(client, alice, yard):
    """On the page, in the list and of a job that has ended: paused for a day is not run for one."""
    node, now = yard.cluster.node(1), timezone.now()
    job, first = yard.running, yard.attempt
    release = {"now": now - timedelta(hours=2)}
    pause_job(actor=alice, job=job, now=now - timedelta(hours=26))
    told = scenes.ended(first, reason=EndReason.PAUSED_BY_USER, exit_code=0)
    scenes.sync(node, told, now=now - timedelta(hours=25))
    job.refresh_from_db()
    job = release_job(actor=alice, job=job, **release)
    second = scenes.start(job, node, **release)
    begun = replace(scenes.running(second), started_at=(now - timedelta(minutes=30)).timestamp())
    scenes.sync(node, begun, now=now - timedelta(minutes=30))
    Job.objects.filter(pk=job.pk).update(time_limit_s=3600)
    job.refresh_from_db()
    (row,) = job_rows(alice, [job], now=now)
    assert row.ends_by == Attempt.objects.get(pk=second.pk).started_at + timedelta(hours=1)
    assert timedelta(minutes=29) < row.elapsed < timedelta(minutes=31)
    client.force_login(alice)
    page = client.get(reverse("jobs:detail", args=[job.pk]))
    assert page.context["ends_by"] == row.ends_by
    scenes.sync(node, scenes.ended(second), now=now)
    job.refresh_from_db()
    (row,) = job_rows(alice, [job], now=now + timedelta(days=1))
    assert row.elapsed < timedelta(minutes=31) and row.ends_by is None


def test_what_holds_a_job_says_what_it_waits_for(client, alice, project, yard):
    waits = scenes.submit(alice, project, depends_on=f"afterok:{yard.running.pk}")
    client.force_login(alice)
    text = client.get(reverse("jobs:detail", args=[waits.pk])).content.decode()
    assert "when it is released" not in text
    assert "It depends on when what it waits for ends." in text
    link = reverse("jobs:detail", args=[yard.running.pk])
    assert f'<a href="{link}">job {yard.running.pk}</a> (running, ends <time' in text


def test_who_waits_for_jobs_is_told_how_far_those_are(
    client, alice, carol, project, yard, django_assert_max_num_queries
):
    """By its limit where one runs, by its forecast where one waits; of a foreign one its number."""
    told = int(scenes.at(90).timestamp())
    Job.objects.filter(pk=yard.queued.pk).update(wait_facts={"start_p90_at": told})
    awaited = [yard.running.pk, yard.queued.pk, yard.held.pk]
    waits = scenes.submit(alice, project, depends_on=[f"afterany:{pk}" for pk in awaited])
    running = yard.running.attempts.get()
    until = running.started_at + timedelta(seconds=yard.running.time_limit_s)
    assert jobs_awaited(alice, waits) == [
        AwaitedJob(yard.running.pk, "running", ends_by=until),
        AwaitedJob(yard.queued.pk, "queued", starts_by=scenes.at(90)),
        AwaitedJob(yard.held.pk, "held"),
    ]
    assert jobs_awaited(carol, waits) == [AwaitedJob(pk) for pk in awaited]
    client.force_login(alice)
    for name in ("jobs:detail", "jobs:why"):
        with django_assert_max_num_queries(BUDGETS[name].statements):
            text = client.get(reverse(name, args=[waits.pk])).content.decode()
        assert "at the latest), <a" in text and "(held)" in text
        assert "if jobs run to their time limits)" in text


def test_a_job_without_gpus_shows_no_charts_of_any(client, alice, project, yard):
    client.force_login(alice)
    job = scenes.submit(alice, project, gpus_per_node=0)
    attempt = scenes.start(job, yard.cluster.node(1))
    scenes.sync(yard.cluster.node(1), scenes.running(attempt))
    address = reverse("jobs:detail", args=[job.pk])
    text = client.get(address).content.decode()
    assert "GPU use" not in text and '<span class="muted">none</span>' in text
    with_gpus = client.get(reverse("jobs:detail", args=[yard.running.pk])).content.decode()
    assert "<h2>GPUs</h2>" in with_gpus
    # What ended before a reading came has none to come.
    brief = client.get(reverse("jobs:detail", args=[yard.failed.pk])).content.decode()
    assert "<h2>GPUs</h2>" not in brief and "No readings yet" not in brief


@pytest.mark.parametrize("name", ["jobs:logs", "jobs:detail"])
def test_how_a_log_looks_is_known_wherever_one_is_shown(client, alice, finance, yard, name):
    """The script writes it into the address of either page."""
    client.force_login(alice)
    url = reverse(name, args=[yard.running.pk])
    ask = {"ts": "utc", "wrap": "1", "size": "large", "q": "x", "mode": "regex"}
    assert "not used" not in client.get(url, ask).content.decode()
    odd = client.get(url, {**ask, "ts": "zz"}).content.decode()
    assert "ts: &#x27;zz&#x27; is not known here and not used" in odd
    client.force_login(finance)
    if name == "jobs:detail":
        assert "<code>ts</code>" in client.get(url, ask).content.decode(), "no log, no times"


@pytest.mark.parametrize("name", ["jobs:logs", "jobs:detail"])
def test_a_log_says_whose_it_is_for_links_to_its_lines(client, alice, yard, name):
    client.force_login(alice)
    page = client.get(reverse(name, args=[yard.running.pk])).content.decode()
    path = reverse("jobs:logs", args=[yard.running.pk])
    assert f'data-path="{path}" data-attempt="1" data-rank="0"' in page
