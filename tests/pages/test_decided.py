"""How old it is what pages say of those who wait; with a dead scheduler they say that it is."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from scheduler.models import SchedulerLease
from scheduler.states import JobState
from tests import scenes
from tests.pages.yard import build_yard

pytestmark = pytest.mark.django_db
DEAD = "The scheduler has not decided since"


@pytest.fixture
def yard(root, alice, project):
    return build_yard(root, alice, project)


def _decided(seconds_ago: float) -> None:
    at = timezone.now() - timedelta(seconds=seconds_ago)
    until = at + timedelta(seconds=SchedulerLease.LASTS_S)
    SchedulerLease.objects.update(expires_at=until)


def _pages(client, job, *, decided_s_ago=None):
    """Each page, opened so long after the last decision however slow this machine is."""
    for address in (
        reverse("home"),
        reverse("home") + "?part=lists",
        reverse("jobs:list"),
        reverse("jobs:list") + "?q=state:queued&part=rows",
        reverse("queue:list"),
        reverse("queue:list") + "?part=line",
        reverse("jobs:detail", args=[job.pk]),
        reverse("jobs:why", args=[job.pk]),
    ):
        if decided_s_ago is not None:
            _decided(decided_s_ago)
        page = client.get(address)
        assert page.status_code == 200
        yield address, page.content.decode()


def test_while_it_decides_every_page_says_how_long_ago(client, alice, yard):
    client.force_login(alice)
    for address, text in _pages(client, yard.queued, decided_s_ago=4):
        assert "last checked" in text and DEAD not in text, address
        assert "every second" not in text and "data-every-s" in text, address


def test_when_it_is_dead_every_page_says_since_when(client, alice, operator, yard):
    client.force_login(alice)
    for address, text in _pages(client, yard.queued, decided_s_ago=3 * 60 + 5):
        assert DEAD in text and "3 min" in text, address
        assert reverse("health") not in text, address
    client.force_login(operator)
    told = client.get(reverse("queue:list") + "?part=line").content.decode()
    assert DEAD in told and f'href="{reverse("health")}"' in told


def test_where_none_was_ever_at_work_that_is_said(client, alice, yard):
    client.force_login(alice)
    SchedulerLease.objects.all().delete()
    for address, text in _pages(client, yard.queued):
        assert "No scheduler has been at work yet." in text, address
        assert "last checked" not in text, address


def test_who_waits_for_nothing_hears_nothing_of_it(client, alice, bob, yard):
    _decided(600)
    client.force_login(alice)
    for job in (yard.held, yard.running, yard.succeeded):
        assert DEAD not in client.get(reverse("jobs:detail", args=[job.pk])).content.decode()
    scenes.submit(bob, yard.queued.project)
    text = client.get(reverse("jobs:list") + "?q=state:finished").content.decode()
    assert DEAD not in text and "last checked" not in text


def _timer_of(text: str, region: str) -> bool:
    """Whether the region fetches itself by time."""
    found = re.search(rf'<[^>]* id="{region}"[^>]*>', text)
    assert found, region
    return "data-every-s" in found[0]


def test_what_time_makes_old_is_fetched_by_time(client, alice, operator, yard):
    """A scheduler that died, a node that fell silent, readings: none of these is a hint."""
    client.force_login(operator)
    health = client.get(f"{reverse('health')}?part=live").content.decode()
    assert _timer_of(health, "health-live")
    assert not _timer_of(client.get(f"{reverse('welcome')}?part=steps").content.decode(), "steps")
    client.force_login(alice)
    node, job = yard.cluster.node(1).name, yard.running.pk
    for address, region in (
        (f"{reverse('nodes:list')}?part=live", "nodes-live"),
        (f"{reverse('nodes:detail', args=[node])}?part=head", "node-head"),
        (f"{reverse('nodes:detail', args=[node])}?part=live", "node-live"),
        (f"{reverse('cluster_map')}?part=live", "map-live"),
        (f"{reverse('cluster_timeline')}?part=live", "timeline-live"),
        (f"{reverse('cluster_room')}?part=live", "room-live"),
        (f"{reverse('pools:detail', args=['default'])}?part=live", "pool-live"),
        (f"{reverse('sessions:list')}?part=live", "sessions"),
        (f"{reverse('jobs:list')}?q=state:live&part=rows", "job-rows"),
        (f"{reverse('jobs:detail', args=[job])}?part=head", "job-head"),
        (f"{reverse('jobs:detail', args=[job])}?part=live", "job-live"),
        (f"{reverse('jobs:log_ranks', args=[job])}?part=rows", "rank-rows"),
        (f"{reverse('jobs:cost', args=[job])}?part=lines", "job-cost"),
        (reverse("jobs:progress", args=[job]), "job-progress"),
    ):
        assert _timer_of(client.get(address).content.decode(), region), address


def test_first_steps_are_looked_at_by_time_until_all_are_done(client, operator):
    client.force_login(operator)
    assert _timer_of(client.get(f"{reverse('welcome')}?part=steps").content.decode(), "steps")


def test_what_is_over_or_past_is_not_asked_for_again(client, alice, yard):
    client.force_login(alice)
    job = yard.succeeded.pk
    for address, region in (
        (f"{reverse('jobs:list')}?q=state:finished&part=rows", "job-rows"),
        (f"{reverse('jobs:detail', args=[job])}?part=head", "job-head"),
        (f"{reverse('jobs:detail', args=[job])}?part=live", "job-live"),
        (f"{reverse('jobs:cost', args=[job])}?part=lines", "job-cost"),
        (f"{reverse('cluster_timeline')}?from=2026-01-01&to=2026-01-02", "timeline-live"),
    ):
        assert not _timer_of(client.get(address).content.decode(), region), address


def test_the_list_of_sessions_watches_its_sessions(client, alice, yard):
    job = scenes.submit(alice, yard.queued.project, name="lab", script="", session="shell")
    assert job.state == JobState.QUEUED
    client.force_login(alice)
    text = client.get(f"{reverse('sessions:list')}?part=live").content.decode()
    assert f'data-topic="user:{alice.pk} job:{job.pk}"' in text
