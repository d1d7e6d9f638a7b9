"""What a press has done is said above a job's page for as long as it holds, and no longer."""

from __future__ import annotations

import re

import pytest
from django.urls import reverse
from django.utils import timezone

from scheduler.services.jobs import cancel_job
from scheduler.states import EndReason, JobState
from tests import scenes
from tests.pages.yard import build_yard

pytestmark = pytest.mark.django_db

ASKED = "was asked to stop; it has time to save its work."
GOES = 'hx-swap-oob="delete:[data-while]"'


@pytest.fixture
def yard(root, alice, project):
    return build_yard(root, alice, project)


def head_link(page: str) -> str:
    """The address that the head of the page asks for itself next."""
    found = re.search(r'hx-get="(/jobs/\d+/\?part=head[^"]*)"', page)
    assert found
    return found[1].replace("&amp;", "&")


def end(yard) -> None:
    scenes.sync(
        yard.cluster.node(1),
        scenes.ended(yard.attempt, reason=EndReason.CANCELLED_BY_USER, exit_code=143),
        now=timezone.now(),
    )
    yard.running.refresh_from_db()
    assert yard.running.state == JobState.CANCELLED


def test_what_was_asked_goes_when_the_job_has_ended(client, alice, yard):
    client.force_login(alice)
    cancel = reverse("jobs:cancel", args=[yard.running.pk])
    page = client.post(cancel, follow=True).content.decode()
    assert ASKED in page and 'data-while="stopping"' in page
    link = head_link(page)
    assert link.endswith("&above=stopping")
    head = client.get(link).content.decode()
    assert GOES not in head and head_link(head) == link
    end(yard)
    head = client.get(link).content.decode()
    # Once: the next one has nothing left to take away.
    assert GOES in head and "above=" not in head_link(head)
    assert GOES not in client.get(head_link(head)).content.decode()
    assert ASKED not in client.get(reverse("jobs:detail", args=[yard.running.pk])).content.decode()


def test_it_is_not_said_at_all_where_the_job_was_faster(client, alice, yard):
    client.force_login(alice)
    client.post(reverse("jobs:cancel", args=[yard.running.pk]))
    end(yard)
    page = client.get(reverse("jobs:detail", args=[yard.running.pk])).content.decode()
    assert ASKED not in page and "data-while" not in page and "above=" not in head_link(page)


def test_held_and_released_are_said_while_they_hold(client, alice, yard):
    client.force_login(alice)
    own = [yard.queued.pk]
    page = client.post(reverse("jobs:hold", args=own), follow=True).content.decode()
    held = head_link(page)
    assert "is held; release it" in page and held.endswith("&above=held")
    page = client.post(reverse("jobs:release", args=own), follow=True).content.decode()
    assert "it waits in its old place" in page and head_link(page).endswith("&above=queued")
    # A second window of the same job still has the older words.
    assert GOES in client.get(held).content.decode()


def test_what_stays_true_and_what_was_refused_stay(client, alice, yard):
    client.force_login(alice)
    cancel = reverse("jobs:cancel", args=[yard.queued.pk])
    page = client.post(cancel, follow=True).content.decode()
    assert "is cancelled." in page and "above=" not in head_link(page)
    page = client.post(reverse("jobs:hold", args=[yard.queued.pk]), follow=True).content.decode()
    assert "Only a queued job can be held" in page and "data-while" not in page


def test_what_is_no_state_takes_nothing_away(client, alice, carol, yard):
    client.force_login(alice)
    url = reverse("jobs:detail", args=[yard.running.pk])
    head = client.get(url, {"part": "head", "above": '"><b>'}).content.decode()
    assert GOES not in head and "<b>" not in head and "above=" not in head_link(head)
    client.force_login(carol)
    assert client.get(url, {"part": "head", "above": "running"}).status_code == 404


def test_a_session_says_that_it_is_stopped_until_it_is(client, alice, root, project):
    cluster, now = scenes.build_cluster(root, nodes=1, gpus=2), timezone.now()
    job = scenes.submit(
        alice, project, name="lab", script="", session="shell", time_limit="2h", now=now
    )
    attempt = scenes.start(job, cluster.node(1), now=now)
    scenes.sync(cluster.node(1), scenes.running(attempt), now=now, protocol=3)
    client.force_login(alice)
    stop, own = (reverse(f"sessions:{name}", args=[job.pk]) for name in ("stop", "detail"))
    page = client.post(stop, follow=True).content.decode()
    assert "is being stopped." in page and "?part=live&amp;above=stopping" in page
    live = client.get(own, {"part": "live", "above": "stopping"}).content.decode()
    assert GOES not in live and "above=stopping" in live
    scenes.sync(
        cluster.node(1),
        scenes.ended(attempt, reason=EndReason.CANCELLED_BY_USER, exit_code=143),
        now=timezone.now(),
        protocol=3,
    )
    live = client.get(own, {"part": "live", "above": "stopping"}).content.decode()
    assert GOES in live and "It has ended." in live and "above=" not in live
    page = client.post(stop, follow=True).content.decode()
    assert "has ended" in page and "data-while" not in page
    assert cancel_job(actor=alice, job=job).state == JobState.CANCELLED
