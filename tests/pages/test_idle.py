"""GPUs that do little, on pages: the job's countdown, who still needs it, the rule, the board."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from scheduler.models import DeviceSample, IdleRule
from scheduler.services.idling.ladder import tend_idle_jobs
from scheduler.services.idling.rules import set_idle_rule
from tests import idling, scenes

pytestmark = pytest.mark.django_db
TERMS = {
    "below_percent": "5",
    "warn_minutes": "20",
    "first_minutes": "10",
    "act": "pause",
    "act_minutes": "15",
    "keep_hours": "5",
}
RULE = "/teams/vision/projects/digits/idle/"


@pytest.fixture
def attempt(root, alice, project):
    """A job of alice's that has rested for an hour."""
    now = timezone.now()
    cluster = scenes.build_cluster(root, nodes=1, gpus=2)
    attempt = idling.runs(cluster, alice, project, since=now - timedelta(hours=1), name="sleepy")
    device = attempt.placements.get().allocations.get().device
    DeviceSample.objects.filter(attempt=attempt).delete()
    DeviceSample.objects.bulk_create(
        DeviceSample(
            device=device,
            attempt=attempt,
            at=now - timedelta(minutes=minute, microseconds=1),
            gpu_percent=1,
            memory_used_mib=4000,
            power_watts=70,
            temperature_c=31,
        )
        for minute in range(60)
    )
    return attempt


@pytest.fixture
def warned(attempt, lead, project):
    now = timezone.now()
    set_idle_rule(actor=lead, owner=project, terms=idling.TERMS, now=now)
    tend_idle_jobs(now=now)
    return attempt.job


def test_its_owner_sees_the_countdown_and_says_that_it_is_still_needed(client, warned, alice):
    client.force_login(alice)
    url = f"/jobs/{warned.pk}/"
    page = client.get(url).content.decode()
    assert "Its GPUs do little: it is paused in 14 min" in page
    assert "By the rule of project vision/digits for GPUs that do little" in page
    assert "its GPU stayed below 5 % for 20 min" in page and "I still need it" in page
    for hours, reason, words in (("x", "y", "Write whole hours"), ("2", "", "what it is needed")):
        answer = client.post(f"{url}keep/", {"hours": hours, "reason": reason}, follow=True)
        assert words in answer.content.decode()
    answer = client.post(f"{url}keep/", {"hours": "2", "reason": "reads its data"}, follow=True)
    page = answer.content.decode()
    assert "is kept for 2 h" in page and "Still needed until" in page
    assert "reads its data" in page and "I still need it" not in page
    events = client.get(f"{url}events/").content.decode()
    assert "its owner was warned" in events and "Still needed, though its GPUs do little" in events


def test_colleagues_see_it_and_keep_nothing_and_strangers_find_nothing(
    client, warned, bob, carol, finance
):
    url = f"/jobs/{warned.pk}/"
    client.force_login(bob)
    page = client.get(url).content.decode()
    assert "Its GPUs do little" in page and "I still need it" not in page
    assert client.post(f"{url}keep/", {"hours": "2", "reason": "x"}).status_code == 403
    client.force_login(finance)
    page = client.get(url).content.decode()
    assert "its owner was warned" in page and "stayed below" not in page
    client.force_login(carol)
    assert client.post(f"{url}keep/", {"hours": "2", "reason": "x"}).status_code == 404


def test_the_lead_sees_on_the_board_what_follows_and_who_needs_it(client, warned, lead, alice):
    client.force_login(lead)
    page = client.get("/teams/vision/").content.decode()
    assert "In 28 days 1 warning to 1 job: 0 worked again" in page
    assert "pause, with a checkpoint in 14" in page
    client.force_login(alice)
    assert "Warned for it by a rule" not in client.get("/teams/vision/").content.decode()
    client.post(f"/jobs/{warned.pk}/keep/", {"hours": "2", "reason": "reads its data"})
    client.force_login(lead)
    page = client.get("/teams/vision/").content.decode()
    assert "1 still needed (2 h)" in page and "reads its data" in page


def test_a_lead_tries_a_rule_puts_it_in_force_and_switches_it_off(client, attempt, lead):
    client.force_login(lead)
    assert "None: of this project nobody is warned" in client.get(RULE).content.decode()
    tried = client.post(RULE, {**TERMS, "try_days": "2", "try": "1"})
    page = tried.content.decode()
    assert tried.status_code == 200 and "What it would have done" in page and "sleepy" in page
    assert not IdleRule.objects.exists()
    refused = client.post(RULE, {**TERMS, "warn_minutes": "3", "act_minutes": ""})
    assert refused.status_code == 422 and "10" in refused.content.decode()
    refused = client.post(RULE, {**TERMS, "act_minutes": "", "try": "1"})
    assert refused.status_code == 422
    assert "after how many minutes of notice to pause" in refused.content.decode()
    assert client.post(RULE, TERMS).status_code == 302
    assert "every GPU stayed below 5 % for 20 min" in client.get(RULE).content.decode()
    assert client.post(RULE, {"off": "1"}).status_code == 302
    assert not IdleRule.objects.get().is_on


def test_operators_set_that_of_a_pool_which_projects_name_too(client, attempt, operator, alice):
    client.force_login(operator)
    assert client.post("/cluster/pools/default/idle/", {**TERMS, "act": "tell"}).status_code == 302
    client.force_login(alice)
    page = client.get("/cluster/pools/default/idle/").content.decode()
    assert "nothing: its owner is told" in page and "Put in force" not in page
    assert client.post("/cluster/pools/default/idle/", TERMS).status_code == 403
    assert "Of pool default" in client.get(RULE).content.decode()
